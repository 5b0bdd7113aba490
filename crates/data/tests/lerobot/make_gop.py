"""Writes gop_*.mp4, videos whose keyframes are far apart, with frames that are decoded before they are shown, and
expected_gop.json: the CRC of the planes of each frame, by PyAV 15."""

import json
import zlib
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

here = Path(__file__).parent
CODECS = {
    "h264": {"g": "24", "bf": "3", "crf": "28"},
    "av1": {"g": "24", "crf": "40", "preset": "8"},
    "hevc": {"g": "24", "crf": "32", "x265-params": "log-level=none"},
}
ENCODERS = {"h264": "libx264", "av1": "libsvtav1", "hevc": "libx265"}


def picture(at):
    y, x = np.mgrid[0:64, 0:80]
    image = np.stack([x * 3 % 256, (y * 3 + at) % 256, (x + y + 2 * at) % 256], -1).astype(np.uint8)
    image[20:40, 2 * at % 60 : 2 * at % 60 + 16] = [240, 30, at * 5 % 256]
    return image


def write(codec):
    path = here / f"gop_{codec}.mp4"
    with av.open(str(path), "w", options={"movflags": "faststart"}) as file:
        stream = file.add_stream(ENCODERS[codec], 30, options=CODECS[codec])
        stream.width, stream.height, stream.pix_fmt = 80, 64, "yuv420p"
        for at in range(40):
            frame = av.VideoFrame.from_ndarray(picture(at), format="rgb24")
            frame.pts, frame.time_base = at, Fraction(1, 30)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    with av.open(str(path)) as file:
        frames = list(file.decode(video=0))
        rgb = [zlib.crc32(frame.to_ndarray(format="rgb24").tobytes()) for frame in frames]
        return {"yuv": [zlib.crc32(frame.to_ndarray(format="yuv420p").tobytes()) for frame in frames], "rgb": rgb}


(here / "expected_gop.json").write_text(json.dumps({codec: write(codec) for codec in CODECS}, indent=0))

"""Reads an exported MCAP file by the packages `mcap` and `mcap-protobuf-support`, and by Rerun where `rerun-sdk` is installed.

    pip install mcap mcap-protobuf-support pillow numpy rerun-sdk
    python check_mcap.py FILE.mcap FRAMES

FRAMES is how many messages each topic has. The test `python_packages_read_mcap_files` of tests/export.rs runs this with the interpreter
named by PLAUDIT_MCAP_PYTHON.
"""

import io
import pathlib
import shutil
import subprocess
import sys
import tempfile

from mcap.reader import make_reader
from mcap_protobuf.decoder import DecoderFactory
from PIL import Image


def main(path, frames):
    counts = {}
    with open(path, "rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        summary = reader.get_summary()
        assert summary.statistics.message_count == sum(summary.statistics.channel_message_counts.values())
        for schema, channel, message, decoded in reader.iter_decoded_messages():
            counts[channel.topic] = counts.get(channel.topic, 0) + 1
            nanos = decoded.timestamp.seconds * 10**9 + decoded.timestamp.nanos
            assert nanos == message.log_time, (channel.topic, nanos, message.log_time)
            if schema.name == "foxglove.CompressedImage":
                image = Image.open(io.BytesIO(decoded.data))
                image.load()
                assert (image.format, decoded.format) == ("PNG", "png") and channel.topic.endswith(decoded.frame_id)
            elif schema.name == "foxglove.PoseInFrame":
                turned = decoded.pose.orientation
                length = sum(part * part for part in (turned.x, turned.y, turned.z, turned.w))
                assert abs(length - 1) < 1e-6 and decoded.frame_id == "base"
                assert all(isinstance(getattr(decoded.pose.position, axis), float) for axis in "xyz")
            elif schema.name == "plaudit.Vector":
                assert len(decoded.values) > 0
            elif schema.name == "plaudit.Flag":
                assert decoded.value in (True, False)
            else:
                assert schema.name == "plaudit.Scalar" and isinstance(decoded.value, float)
    assert set(counts.values()) == {frames}, counts
    print(f"{sum(counts.values())} messages of {len(counts)} topics: {', '.join(sorted(counts))}")
    by_rerun(path)


def by_rerun(path):
    rerun = shutil.which("rerun", path=str(pathlib.Path(sys.executable).parent))
    if rerun is None:
        return print("rerun is not installed")
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/out.rrd"
        subprocess.run([rerun, "mcap", "convert", path, "-o", out], check=True, capture_output=True)
        said = subprocess.run([rerun, "rrd", "print", "-v", out], check=True, capture_output=True, text=True).stdout
        assert "/camera/main_images" in said and "EncodedImage" in said, said[:2000]
        print("rerun: an EncodedImage at /camera/main_images" + (", a pose" if "/pose/" in said else ""))


main(sys.argv[1], int(sys.argv[2]))

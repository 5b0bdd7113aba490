"""Decodes an MP4 with ffmpeg, and says how far it is from the images it was made of.

    pip install imageio-ffmpeg numpy
    python tests/check_video.py tests/fixtures/moving.mp4

The images are those of `moving` in tests/video.rs. Exits with an error when ffmpeg warns about anything, when a
frame is missing, or when the brightness is off by more than 4 of 255 on average.
"""

import subprocess
import sys

import imageio_ffmpeg
import numpy as np

WIDTH, HEIGHT, FRAMES = 50, 35, 30


def moving():
    """The images of tests/video.rs."""
    x, y = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
    floor = np.stack([x % 8 * 20, y % 5 * 30, np.full_like(x, 90)], -1)
    for t in range(FRAMES):
        image = floor.copy()
        left, top = t * 2 % WIDTH, t % HEIGHT
        image[top : top + 3, left : left + 3] = [250, t * 9 % 200, 10]
        yield image


def main(path):
    ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
    command = [ffmpeg, "-v", "warning", "-xerror", "-i", path, "-fps_mode", "passthrough"]
    run = subprocess.run([*command, "-f", "rawvideo", "-pix_fmt", "gray", "-"], capture_output=True, check=True)
    if run.stderr:
        sys.exit(run.stderr.decode())
    shown = (HEIGHT + HEIGHT % 2, WIDTH + WIDTH % 2)  # sides are even in H.264
    decoded = np.frombuffer(run.stdout, np.uint8).reshape(-1, *shown)[:, :HEIGHT, :WIDTH]
    expected = np.stack(list(moving())) @ np.array([66, 129, 25]) / 219.5
    if decoded.shape != expected.shape:
        sys.exit(f"{decoded.shape} was decoded, {expected.shape} was written")
    errors = np.abs(decoded - expected).mean((1, 2))
    if errors.max() > 4:
        sys.exit(f"off by {errors.max():.1f} on average in frame {errors.argmax()}")
    print(f"{len(decoded)} frames, off by {errors.mean():.2f} on average, {errors.max():.2f} in the worst")


main(*sys.argv[1:])

"""Loads a dataset with videos by the lerobot package and compares its frames with those that were encoded.

    python check_video.py ROOT FRAMES.rgb

FRAMES.rgb has the images of each frame, camera after camera. The test `the_lerobot_package_reads_what_was_written` of
tests/lerobot_write_video.rs runs this with the interpreter named by PLAUDIT_LEROBOT_PYTHON, an environment with
`lerobot==0.4.4`. Newer versions of torchvision than it asks for have no video reader: PyAV stands in for that then, with lerobot's
own rule for the frame that is nearest to a time.
"""

import os
import sys
import tempfile

os.environ.setdefault("HF_HOME", tempfile.mkdtemp())
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import av
import numpy as np
import torch
import torchvision
from lerobot.datasets import video_utils
from lerobot.datasets.compute_stats import aggregate_stats
from lerobot.datasets.lerobot_dataset import LeRobotDataset

LEAST_PSNR = 30


def decode(path, timestamps, tolerance_s, *_):
    """The frames nearest to some times, none of them further than the tolerance."""
    with av.open(str(path)) as file:
        found = [(float(frame.time), frame.to_ndarray(format="rgb24")) for frame in file.decode(video=0)]
    times = np.array([time for time, _ in found])
    at = [int(np.abs(times - wanted).argmin()) for wanted in timestamps]
    assert all(abs(times[n] - wanted) < tolerance_s for n, wanted in zip(at, timestamps)), (timestamps, times)
    return torch.stack([torch.from_numpy(found[n][1]).permute(2, 0, 1) for n in at]).float() / 255


if not hasattr(torchvision.io, "VideoReader"):
    video_utils.decode_video_frames_torchvision = decode


def main(root, frames):
    dataset = LeRobotDataset("plaudit/check", root=root, video_backend="pyav")
    meta = dataset.meta
    assert meta.video_keys and not meta.image_keys, meta.features
    aggregate_stats([meta.stats, meta.stats])
    sizes = [meta.features[key]["shape"] for key in meta.video_keys]
    expected = np.fromfile(frames, np.uint8)
    assert len(expected) == len(dataset) * sum(map(np.prod, sizes)), (len(expected), len(dataset))
    worst, at_byte = np.inf, 0
    for at in range(len(dataset)):
        item = dataset[at]
        for key, size in zip(meta.video_keys, sizes):
            image = expected[at_byte : at_byte + np.prod(size)].reshape(size).astype(np.float64)
            at_byte += np.prod(size)
            got = (item[key] * 255).round().permute(1, 2, 0).numpy().astype(np.float64)
            worst = min(worst, 10 * np.log10(255**2 / max(np.mean((got - image) ** 2), 1e-9)))
            info = meta.features[key]["info"]
            assert info["video.codec"] == "h264" and info["video.fps"] == meta.fps, info
    assert worst > LEAST_PSNR, worst
    for episode in range(meta.total_episodes):
        row = meta.episodes[episode]
        for key in meta.video_keys:
            secs = row[f"videos/{key}/to_timestamp"] - row[f"videos/{key}/from_timestamp"]
            assert abs(secs - row["length"] / meta.fps) < 1e-9, (episode, key, secs)
            assert (dataset.root / meta.get_video_file_path(episode, key)).is_file()
    # One episode alone, and frames with those before them.
    last = meta.total_episodes - 1
    assert len(LeRobotDataset("plaudit/check", root=root, episodes=[last], video_backend="pyav")) == meta.episodes[last]["length"]
    key = meta.video_keys[0]
    deltas = LeRobotDataset("plaudit/check", root=root, delta_timestamps={key: [-1 / meta.fps, 0]}, video_backend="pyav")
    assert deltas[1][key].shape[0] == 2
    print(f"{len(dataset)} frames of {meta.total_episodes} episodes; at worst {worst:.1f} dB")


main(*sys.argv[1:])

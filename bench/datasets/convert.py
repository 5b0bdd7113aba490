"""Conversion beside lerobot's, turn by turn: videos into labelled images on disk, and frames into a dataset with videos.

    python make_dataset.py DATASET 12 128 12
    python convert.py PLAUDIT DATASET [ROUNDS]

- from videos: every frame of every episode, both cameras, decoded and written to disk with its label. plaudit writes its store
  (`dataset images --format store`); lerobot's loader is read through a DataLoader of two workers, and each episode goes to disk with `np.save`.
- to videos: four of those episodes, as raw pixels, into a new LeRobot dataset with videos. plaudit encodes H.264
  (`dataset export --video h264`) from a store on disk, lerobot AV1 as it does by default, and H.264 (`vcodec`), from frames in memory.

Needs lerobot 0.4.4 and the Python package. Prints one JSON object: seconds by round, frames per second, and the ratio of each round.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import plaudit as package
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset

CAMERAS = ["observation.images.front", "observation.images.wrist"]
plaudit, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3


def plaudit_store(to):
    for number, camera in enumerate(CAMERAS):  # one camera a store
        words = ["-q", "dataset", "images", "--raw-data-path", source, "--format", "store", "--fail-success-ratio", "1000000",
                 "--image-key", camera, "--output-dir", to / str(number)]
        subprocess.run([plaudit, *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def lerobot_images(to):
    dataset = LeRobotDataset("plaudit/bench", root=source, video_backend="pyav")
    loader = torch.utils.data.DataLoader(dataset, batch_size=64, num_workers=2)
    to.mkdir()
    for number, batch in enumerate(loader):
        for name in CAMERAS:
            images = (batch[name] * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
            np.save(to / f"{name}_{number:05d}.npy", images)
        np.save(to / f"labels_{number:05d}.npy", batch["next.success"].numpy())


def raw_episodes(folder, episodes=4):
    """The first episodes as raw pixels, as a loop that records has them."""
    dataset = LeRobotDataset("plaudit/bench", root=folder, video_backend="pyav", episodes=list(range(episodes)))
    frames = [dataset[at] for at in range(len(dataset))]
    images = {name: [(frame[name] * 255).round().to(torch.uint8).permute(1, 2, 0).numpy() for frame in frames] for name in CAMERAS}
    return images, [int(frame["episode_index"]) for frame in frames]


def plaudit_videos(to):
    words = ["-q", "dataset", "export", raw_folder, "--format", "lerobot", "--video", "h264", "--fps", 30, "--output-dir", to]
    subprocess.run([plaudit, *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def lerobot_videos(to, vcodec):
    side = images[CAMERAS[0]][0].shape[0]
    shape = {"dtype": "video", "shape": (side, side, 3), "names": ["height", "width", "channels"]}
    features = {"action": {"dtype": "float32", "shape": (2,), "names": ["a", "b"]}} | {name: shape for name in CAMERAS}
    extra = {"vcodec": vcodec} if vcodec else {}
    dataset = LeRobotDataset.create("plaudit/bench", 30, features, root=to, use_videos=True, **extra)
    for at, episode in enumerate(episode_of):
        pixels = {name: images[name][at] for name in CAMERAS}
        dataset.add_frame(pixels | {"action": np.ones(2, np.float32), "task": "push the block"})
        if at + 1 == len(episode_of) or episode_of[at + 1] != episode:
            dataset.save_episode()
    dataset.finalize()


def timed(work, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        work(pathlib.Path(folder) / "out", *arguments)
        return time.perf_counter() - began


def compared(frames, works):
    secs = {name: [] for name in works}
    for _ in range(rounds):
        for name, (work, *arguments) in works.items():
            secs[name].append(timed(work, *arguments))
    own = secs.pop("plaudit")
    rates = {"plaudit": [round(frames / one) for one in own]}
    ratios = {}
    for name, found in secs.items():
        rates[name] = [round(frames / one) for one in found]
        ratios[name] = [round(other / one, 2) for one, other in zip(own, found)]
    return {"frames_per_second": rates, "ratio": ratios, "median": {name: statistics.median(each) for name, each in ratios.items()}}


images, episode_of = raw_episodes(source)
with tempfile.TemporaryDirectory() as scratch:
    raw_folder = pathlib.Path(scratch) / "raw"
    # Raw pixels on disk for plaudit, which exports what was recorded; its Recorder writes them.
    with package.Recorder(raw_folder, format="store") as recorder:
        for at, episode in enumerate(episode_of):
            shown = {name.rsplit(".", 1)[1]: images[name][at] for name in CAMERAS}
            if at == 0 or episode_of[at - 1] != episode:
                recorder.begin(shown)
            else:
                ends = at + 1 == len(episode_of) or episode_of[at + 1] != episode
                recorder.step(np.ones(2, np.float32), shown, 0.0, ends, False, success=False)
    info = json.loads((source / "meta/info.json").read_text())
    result = {
        "from videos": compared(info["total_frames"] * len(CAMERAS), {"plaudit": (plaudit_store,), "lerobot": (lerobot_images,)}),
        "to videos": compared(
            len(episode_of) * len(CAMERAS),
            {"plaudit": (plaudit_videos,), "lerobot, AV1": (lerobot_videos, None), "lerobot, H.264": (lerobot_videos, "h264")},
        ),
    }
print(json.dumps(result, indent=1))

"""A LeRobot v3 dataset of any size from a few distinct videos, which are hard-linked: EPISODES x 300 frames x 2 cameras.

    python make_dataset.py FOLDER EPISODES [SIDE] [DISTINCT]

Needs lerobot 0.4.4 (its own encoder settings: AV1, a keyframe every second frame, crf 30), pyarrow, pandas.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from lerobot.datasets.lerobot_dataset import LeRobotDataset

FRAMES = 300
CAMERAS = ["observation.images.front", "observation.images.wrist"]


def frame(episode, at, camera, side):
    """A square that moves over a noisy ground; it turns green in the last fifth."""
    noise = np.random.default_rng([episode, camera]).integers(0, 90, (side, side, 3), dtype=np.uint8)
    shade = np.random.default_rng([episode, at, camera]).integers(0, 6, (side, side, 1), dtype=np.uint8)
    image, edge = noise + shade, side // 5
    x = int((side - edge) * at / FRAMES)
    y = int((side - edge) * (0.5 + 0.5 * np.sin(at / 20 + episode)))
    image[y : y + edge, x : x + edge] = [20, 230, 20] if at > FRAMES * 0.8 and episode % 2 else [230, 40, 20]
    return image


def seed_dataset(root, side, distinct):
    features = {
        "observation.state": {"dtype": "float32", "shape": (2,), "names": ["a", "b"]},
        "action": {"dtype": "float32", "shape": (2,), "names": ["a", "b"]},
        "next.success": {"dtype": "bool", "shape": (1,), "names": None},
    } | {name: {"dtype": "video", "shape": (side, side, 3), "names": ["height", "width", "channels"]} for name in CAMERAS}
    dataset = LeRobotDataset.create("plaudit/bench", 30, features, root=root, use_videos=True)
    dataset.meta.update_chunk_settings(video_files_size_in_mb=0.000001)
    for episode in range(distinct):
        for at in range(FRAMES):
            done = np.array([at > FRAMES * 0.8 and episode % 2 == 1])
            values = {"observation.state": np.array([at, episode], np.float32), "action": np.ones(2, np.float32)}
            images = {name: frame(episode, at, number, side) for number, name in enumerate(CAMERAS)}
            dataset.add_frame(values | images | {"next.success": done, "task": "push the block"})
        dataset.save_episode()
    dataset.finalize()


def grow(root, episodes, distinct):
    """The same episodes again and again, each with a video file of its own."""
    data = root / "data/chunk-000/file-000.parquet"
    files = sorted((root / "data").rglob("*.parquet"))
    rows = pd.concat([pd.read_parquet(file) for file in files])
    tables = sorted((root / "meta/episodes").rglob("*.parquet"))
    table = pd.concat([pd.read_parquet(file) for file in tables]).sort_values("episode_index").reset_index(drop=True)
    all_rows, all_episodes = [], []
    for number in range(episodes):
        source = number % distinct
        part = rows[rows.episode_index == source].copy()
        part["episode_index"], part["index"] = number, np.arange(FRAMES) + number * FRAMES
        all_rows.append(part)
        line = table.iloc[source].copy()
        line["episode_index"] = number
        line["dataset_from_index"], line["dataset_to_index"] = number * FRAMES, (number + 1) * FRAMES
        line["data/chunk_index"] = line["data/file_index"] = 0
        line["meta/episodes/chunk_index"] = line["meta/episodes/file_index"] = 0
        for name in CAMERAS:
            old = root / f"videos/{name}/chunk-000/file-{int(table.iloc[source][f'videos/{name}/file_index']):03d}.mp4"
            new = root / f"videos/{name}/chunk-001/file-{number:03d}.mp4"
            new.parent.mkdir(parents=True, exist_ok=True)
            os.link(old, new)
            line[f"videos/{name}/chunk_index"], line[f"videos/{name}/file_index"] = 1, number
        all_episodes.append(line)
    for file in files[1:] + tables[1:]:
        file.unlink()
    pd.concat(all_rows).to_parquet(data, index=False)
    grown = pd.DataFrame(all_episodes)
    whole = [name for name in grown if table[name].dtype.kind in "iu"]
    grown.astype({name: "int64" for name in whole}).to_parquet(tables[0], index=False)
    info = json.loads((root / "meta/info.json").read_text())
    info |= {"total_episodes": episodes, "total_frames": episodes * FRAMES, "splits": {"train": f"0:{episodes}"}}
    (root / "meta/info.json").write_text(json.dumps(info, indent=4))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    distinct = int(sys.argv[4]) if len(sys.argv) > 4 else 4
    seed_dataset(folder, int(sys.argv[3]) if len(sys.argv) > 3 else 128, distinct)
    grow(folder, int(sys.argv[2]), distinct)

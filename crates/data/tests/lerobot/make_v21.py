"""Writes v21_image, a small dataset in LeRobot's layout v2.1, and expected_v21.json, what is in it.

No package at hand writes v2.1 any more. The layout is that of lerobot 0.3; that it is right is checked by lerobot
0.4.4's own converter, whose result must have the same frames.
"""

import io
import json
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import datasets
import numpy as np
from frames import frames
from PIL import Image

here = Path(__file__).parent
root = here / "v21_image"
LENGTHS = [3, 4]
TASKS = ["push the block", "drücke den Knopf"]
FEATURES = {
    "observation.images.top": {"dtype": "image", "shape": [3, 6, 8], "names": ["channels", "height", "width"]},
    "observation.state": {"dtype": "float32", "shape": [2], "names": {"motors": ["x", "y"]}},
    "action": {"dtype": "float32", "shape": [2], "names": {"motors": ["x", "y"]}},
    "next.reward": {"dtype": "float32", "shape": [1], "names": None},
    "next.success": {"dtype": "bool", "shape": [1], "names": None},
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    **{
        name: {"dtype": "int64", "shape": [1], "names": None}
        for name in ["frame_index", "episode_index", "index", "task_index"]
    },
}


def png(image):
    out = io.BytesIO()
    Image.fromarray(image).save(out, "png")
    return {"bytes": out.getvalue(), "path": None}


def episode(number, first, rng):
    length = LENGTHS[number]
    images = rng.integers(0, 256, (length, 6, 8, 3), dtype=np.uint8)
    columns = {
        "observation.state": rng.random((length, 2), dtype=np.float32).tolist(),
        "action": rng.random((length, 2), dtype=np.float32).tolist(),
        "next.reward": rng.random(length, dtype=np.float32).tolist(),
        "next.success": [number == 1 and at >= 2 for at in range(length)],
        "timestamp": [at / 10 for at in range(length)],
        "frame_index": list(range(length)),
        "episode_index": [number] * length,
        "index": [first + at for at in range(length)],
        "task_index": [1 - number] * length,
    }
    return images, columns


def features():
    def one(feature):
        if feature["dtype"] == "image":
            return datasets.Image()
        value = datasets.Value(feature["dtype"])
        return value if feature["shape"] == [1] else datasets.Sequence(length=feature["shape"][0], feature=value)

    return datasets.Features({name: one(feature) for name, feature in FEATURES.items()})


def stats(values):
    values = np.asarray(values, dtype=np.float64)
    return {name: np.atleast_1d(getattr(values, name)(0)).tolist() for name in ["min", "max", "mean", "std"]}


def lines(name, rows):
    (root / "meta" / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def main():
    shutil.rmtree(root, ignore_errors=True)
    (root / "data/chunk-000").mkdir(parents=True)
    (root / "meta").mkdir()
    rng = np.random.default_rng(21)
    all_stats, expected, first = [], [], 0
    for number, length in enumerate(LENGTHS):
        images, columns = episode(number, first, rng)
        table = {"observation.images.top": [png(image) for image in images], **columns}
        path = root / f"data/chunk-000/episode_{number:06d}.parquet"
        datasets.Dataset.from_dict(table, features=features()).to_parquet(path)
        ours = {name: {**stats(values), "count": [length]} for name, values in columns.items()}
        color = {name: [[[0.5]]] * 3 for name in ["min", "max", "mean", "std"]}
        ours["observation.images.top"] = {**color, "count": [length]}
        all_stats.append({"episode_index": number, "stats": ours})
        for at in range(length):
            frame = {key: np.asarray(values[at], dtype=np.float32).reshape(-1).tolist() for key, values in columns.items()}
            frame |= {"observation.images.top": zlib.crc32(images[at].tobytes()), "task": TASKS[1 - number]}
            expected.append(frame)
        first += length
    lines("tasks.jsonl", [{"task_index": number, "task": task} for number, task in enumerate(TASKS)])
    lines("episodes.jsonl", [{"episode_index": n, "tasks": [TASKS[1 - n]], "length": LENGTHS[n]} for n in range(2)])
    lines("episodes_stats.jsonl", all_stats)
    info = {
        "codebase_version": "v2.1", "robot_type": "xarm", "total_episodes": 2, "total_frames": first,
        "total_tasks": 2, "total_videos": 0, "total_chunks": 1, "chunks_size": 1000, "fps": 10,
        "splits": {"train": "0:2"},
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": None, "features": FEATURES,
    }  # fmt: skip
    (root / "meta/info.json").write_text(json.dumps(info, indent=4))
    json.dump(expected, open(here / "expected_v21.json", "w"), indent=0, ensure_ascii=False)
    check(expected)


def check(expected):
    """lerobot's converter to v3 takes it, and finds the same frames."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "plaudit/check"
        shutil.copytree(root, copy)
        module = "lerobot.datasets.v30.convert_dataset_v21_to_v30"
        command = [sys.executable, "-m", module, "--repo-id", "plaudit/check", "--root", folder, "--push-to-hub", "false"]
        subprocess.run(command, check=True)
        info = json.loads((copy / "meta/info.json").read_text())
        info["features"]["observation.images.top"]["shape"] = [6, 8, 3]
        (copy / "meta/info.json").write_text(json.dumps(info))
        assert frames(copy)[1] == expected


main()

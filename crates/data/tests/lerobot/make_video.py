"""Writes v3_video_av1, v3_video_h264 and v21_video_av1, small datasets with videos, and expected_*.json beside them.

The v3 datasets are written and read back by lerobot 0.4.4 (its pyav backend). What the decoder gives before the
conversion of colours is kept as the CRC of its YUV planes, by PyAV; what lerobot gives after it, as pixels in
expected_*.rgb. v2.1 has a file per episode, encoded by lerobot's own function; no package at hand writes its metadata
any more.
"""

import json
import os
import shutil
import tempfile
import zlib
from pathlib import Path

os.environ.setdefault("HF_HOME", tempfile.mkdtemp())
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.datasets.video_utils import encode_video_frames
from PIL import Image

here = Path(__file__).parent
LENGTHS = [9, 6, 7]
CAMERAS = {"observation.images.front": (48, 64), "observation.images.wrist": (34, 46)}
TASKS = ["lift the cube", "push the block"]
FPS = 10


def picture(number, at, height, width):
    """A colourful scene in which a square moves; wrist and front differ by size."""
    y, x = np.mgrid[0:height, 0:width]
    image = np.stack([x * 255 // width, y * 255 // height, (x + y + 40 * number) % 256], -1).astype(np.uint8)
    left = 4 + 3 * at
    image[10 : 10 + 12, left : left + 12] = [230, 40 + 60 * number, 30]
    return image


def features():
    image = lambda shape: {"dtype": "video", "shape": (*shape, 3), "names": ["height", "width", "channels"]}
    return {
        **{name: image(shape) for name, shape in CAMERAS.items()},
        "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
        "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
        "next.success": {"dtype": "bool", "shape": (1,), "names": None},
    }


def step(number, at):
    length = LENGTHS[number]
    solved = number != 1 and at >= length - 2
    return {
        "observation.state": np.array([at, number], np.float32),
        "action": np.array([at / 8, -at / 8], np.float32),
        "next.reward": np.array([float(solved)], np.float32),
        "next.success": np.array([solved]),
    }


def yuv(path):
    """The CRC of each frame's planes in order."""
    with av.open(str(path)) as file:
        return [zlib.crc32(frame.to_ndarray(format="yuv420p").tobytes()) for frame in file.decode(video=0)]


def write_v3(name, codec):
    root = here / name
    shutil.rmtree(root, ignore_errors=True)
    dataset = LeRobotDataset.create("plaudit/check", FPS, features(), root=root, robot_type="panda", vcodec=codec)
    for number, length in enumerate(LENGTHS):
        for at in range(length):
            images = {camera: picture(number, at, *shape) for camera, shape in CAMERAS.items()}
            dataset.add_frame({**images, **step(number, at), "task": TASKS[number % 2]})
        dataset.save_episode()
    dataset.finalize()
    shutil.rmtree(root / "images", ignore_errors=True)
    read = LeRobotDataset("plaudit/check", root=root, video_backend="pyav")
    expect(root, name, [read[at] for at in range(len(read))])


def expect(root, name, frames):
    """lerobot's pixels, frame by frame and camera by camera, and the CRCs of the planes of each file."""
    pixels = b"".join(
        (frame[camera] * 255).round().byte().permute(1, 2, 0).contiguous().numpy().tobytes()
        for frame in frames
        for camera in CAMERAS
    )
    (here / f"expected_{name}.rgb").write_bytes(pixels)
    files = sorted((root / "videos").rglob("*.mp4"))
    planes = {str(file.relative_to(root)): yuv(file) for file in files}
    (here / f"expected_{name}.json").write_text(json.dumps({"frames": len(frames), "yuv": planes}, indent=0))


def write_v21():
    root, name = here / "v21_video_av1", "v21_video_av1"
    shutil.rmtree(root, ignore_errors=True)
    (root / "meta").mkdir(parents=True)
    rows, first = [], 0
    for number, length in enumerate(LENGTHS):
        columns = {key: [step(number, at)[key].tolist() for at in range(length)] for key in step(0, 0)}
        columns["next.reward"] = [value[0] for value in columns["next.reward"]]
        columns["next.success"] = [value[0] for value in columns["next.success"]]
        columns |= {
            "timestamp": [at / FPS for at in range(length)], "frame_index": list(range(length)),
            "episode_index": [number] * length, "index": [first + at for at in range(length)],
            "task_index": [number % 2] * length,
        }  # fmt: skip
        file = root / f"data/chunk-000/episode_{number:06d}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        fixed = lambda key, values: pa.array(values, pa.list_(pa.float32(), 2)) if isinstance(values[0], list) else pa.array(values)
        pq.write_table(pa.table({key: fixed(key, values) for key, values in columns.items()}), file)
        for camera, shape in CAMERAS.items():
            with tempfile.TemporaryDirectory() as folder:
                for at in range(length):
                    Image.fromarray(picture(number, at, *shape)).save(Path(folder) / f"frame-{at:06d}.png")
                encode_video_frames(folder, root / f"videos/chunk-000/{camera}/episode_{number:06d}.mp4", FPS, "libsvtav1")
        rows.append({"episode_index": number, "tasks": [TASKS[number % 2]], "length": length})
        first += length
    line = lambda name, rows: (root / "meta" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    line("episodes.jsonl", rows)
    line("tasks.jsonl", [{"task_index": number, "task": task} for number, task in enumerate(TASKS)])
    declared = {key: {**value, "shape": list(value["shape"])} for key, value in features().items()}
    for camera in CAMERAS:
        declared[camera]["info"] = {"video.codec": "av1", "video.fps": FPS}
    for key in ["timestamp", "frame_index", "episode_index", "index", "task_index"]:
        dtype = "float32" if key == "timestamp" else "int64"
        declared[key] = {"dtype": dtype, "shape": [1], "names": None}
    info = {
        "codebase_version": "v2.1", "robot_type": "panda", "total_episodes": 3, "total_frames": first,
        "total_tasks": 2, "total_videos": 6, "total_chunks": 1, "chunks_size": 1000, "fps": FPS,
        "splits": {"train": "0:3"},
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "features": declared,
    }  # fmt: skip
    (root / "meta/info.json").write_text(json.dumps(info, indent=4))
    planes = {str(file.relative_to(root)): yuv(file) for file in sorted((root / "videos").rglob("*.mp4"))}
    (here / f"expected_{name}.json").write_text(json.dumps({"frames": first, "yuv": planes}, indent=0))


write_v3("v3_video_av1", "libsvtav1")
write_v3("v3_video_h264", "h264")
write_v21()

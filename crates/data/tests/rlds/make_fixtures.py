"""Episodes as TensorFlow Datasets writes them (RLDS), and what it reads from them.

    pip install tensorflow-cpu tensorflow-datasets
    python make_fixtures.py

`arm`: the features of a dataset of Open X-Embodiment (images as JPEG and PNG, a state, an action, rewards of 1 at the end, words).
`plain`: actions by name, images as numbers, truncated and failed episodes, success as a flag of the episode.
"""

import json
import os
import shutil
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

HERE = Path(__file__).parent
F = tfds.features
HEIGHT, WIDTH = 24, 32


def smooth(steps, shade):
    """Slopes and a square that moves: JPEG of noise would be no measure."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    ground = np.stack([rows * 9, columns * 7, (rows + columns) * 4 + shade % 30], -1)
    found = np.repeat(ground[None] % 256, steps, 0).astype(np.uint8)
    for at in range(steps):
        found[at, 6:14, at + 2 : at + 10] = [shade, 255 - shade, 90 + at]
    return found


def noise(rng, steps):
    return rng.integers(0, 255, (steps, HEIGHT, WIDTH, 3), dtype=np.uint8)


def marks(steps):
    return {
        "is_first": [at == 0 for at in range(steps)],
        "is_last": [at == steps - 1 for at in range(steps)],
        "discount": [np.float32(1)] * steps,
    }


def steps_of(columns, count):
    def at(value, step):
        return {key: at(inner, step) for key, inner in value.items()} if isinstance(value, dict) else value[step]

    return [at(columns, step) for step in range(count)]


FLAGS = {"is_first": np.bool_, "is_last": np.bool_, "is_terminal": np.bool_, "reward": np.float32, "discount": np.float32}


class Arm(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        image = lambda encoding: F.Image(shape=(HEIGHT, WIDTH, 3), dtype=np.uint8, encoding_format=encoding)
        step = F.FeaturesDict({
            "observation": {
                "image": image("jpeg"),
                "wrist_image": image("png"),
                "depth": F.Image(shape=(HEIGHT, WIDTH, 1), dtype=np.uint16, encoding_format="png"),
                "state": F.Tensor(shape=(5,), dtype=np.float32),
                "gripper": F.Scalar(dtype=np.float64),
            },
            "action": F.Tensor(shape=(7,), dtype=np.float32),
            "language_instruction": F.Text(),
            "language_embedding": F.Tensor(shape=(8,), dtype=np.float32),
            **{name: F.Scalar(dtype=dtype) for name, dtype in FLAGS.items()},
        })
        features = F.FeaturesDict({"steps": F.Dataset(step), "episode_metadata": {"file_path": F.Text()}})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, _):
        return {"train": self._generate_examples(0, 5), "val": self._generate_examples(5, 7)}

    def _generate_examples(self, first, last):
        for number in range(first, last):
            rng, steps = np.random.default_rng(number), 5 + number
            columns = {
                "observation": {
                    "image": smooth(steps, 40 * number + 10),
                    "wrist_image": noise(rng, steps),
                    "depth": rng.integers(0, 60000, (steps, HEIGHT, WIDTH, 1), dtype=np.uint16),
                    "state": rng.normal(size=(steps, 5)).astype(np.float32),
                    "gripper": rng.uniform(size=steps),
                },
                "action": rng.uniform(-1, 1, (steps, 7)).astype(np.float32),
                "language_instruction": [f"put carrot {number} on the plate"] * steps,
                "language_embedding": rng.normal(size=(steps, 8)).astype(np.float32),
                "is_terminal": [at == steps - 1 for at in range(steps)],
                "reward": [np.float32(at == steps - 1) for at in range(steps)],
                **marks(steps),
            }
            yield number, {"steps": steps_of(columns, steps), "episode_metadata": {"file_path": f"/raw/{number}"}}


class Plain(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("2.1.0")

    def _info(self):
        step = F.FeaturesDict({
            "observation": {
                "camera": F.Tensor(shape=(HEIGHT, WIDTH, 3), dtype=np.uint8),
                "joints": F.Tensor(shape=(6,), dtype=np.int32),
            },
            "action": {"world": F.Tensor(shape=(3,), dtype=np.float32), "close": F.Scalar(dtype=np.int64)},
            **{name: F.Scalar(dtype=dtype) for name, dtype in FLAGS.items()},
        })
        features = F.FeaturesDict({"steps": F.Dataset(step), "episode_metadata": {"success": F.Scalar(dtype=np.bool_)}})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, _):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for number, solved in enumerate([True, False, False]):
            rng, steps = np.random.default_rng(50 + number), 4 + number
            columns = {
                "observation": {"camera": noise(rng, steps), "joints": rng.integers(-9, 9, (steps, 6), dtype=np.int32)},
                "action": {"world": rng.uniform(-1, 1, (steps, 3)).astype(np.float32), "close": rng.integers(0, 2, steps)},
                "is_terminal": [at == steps - 1 and number == 1 for at in range(steps)],
                "reward": rng.uniform(0, 0.4, steps).astype(np.float32),
                **marks(steps),
            }
            yield number, {"steps": steps_of(columns, steps), "episode_metadata": {"success": solved}}


def weighted(images):
    """As the tests sum up pixels: each weighted by where it is."""
    flat = np.asarray(images).astype(np.int64).ravel()
    return int((flat * (np.arange(flat.size) % 997 + 1)).sum())


def expected(folder):
    found = {}
    builder = tfds.builder_from_directory(folder)
    for split in builder.info.splits:
        for number, episode in enumerate(builder.as_dataset(split=split, shuffle_files=False)):
            steps = list(tfds.as_numpy(episode["steps"]))
            column = lambda *path: [_at(step, path) for step in steps]
            arm = "wrist_image" in steps[0]["observation"]
            exact = "wrist_image" if arm else "camera"
            if arm:
                state = [column("observation", "gripper"), column("observation", "state")]
                action = [column("action")]
            else:
                state = [column("observation", "joints")]
                action = [column("action", "close"), column("action", "world")]
            rows = lambda parts: [[float(v) for part in parts for v in np.ravel(part[at])] for at in range(len(steps))]
            found[f"{split}_{number}"] = {
                "cameras": {exact: weighted(column("observation", exact))},
                "states": rows(state),
                "actions": rows(action),
                "rewards": [float(value) for value in column("reward")],
                "is_last": [bool(value) for value in column("is_last")],
                "is_terminal": [bool(value) for value in column("is_terminal")],
                "task": steps[0]["language_instruction"].decode() if arm else None,
            }
            if arm and split == "val":
                (HERE / "arm_val_image.rgb").write_bytes(np.stack(column("observation", "image")).tobytes())
    return found


def _at(value, path):
    for key in path:
        value = value[key]
    return value


found = {}
for kind, shards in [(Arm, 2), (Plain, 1)]:
    shutil.rmtree(HERE / kind.name, ignore_errors=True)
    builder = kind(data_dir=HERE)
    config = tfds.download.DownloadConfig(num_shards=shards)
    builder.download_and_prepare(download_config=config)
    found[kind.name] = expected(HERE / kind.name / str(kind.VERSION))
shutil.rmtree(HERE / "downloads", ignore_errors=True)
(HERE / "expected.json").write_text(json.dumps(found) + "\n")

"""Loads a dataset with the lerobot package and compares it with what was written.

    python check.py ROOT EXPECTED.json

EXPECTED.json has `episodes`, `fps`, `robot_type` and `frames`, as `frames.py` words them. The test
`the_lerobot_package_reads_what_was_written` runs this with the interpreter named by PLAUDIT_LEROBOT_PYTHON, an
environment with `lerobot==0.4.4` in the versions that it asks for.
"""

import json
import sys

import numpy as np
import pyarrow.parquet as pq
from frames import frames

from lerobot.datasets.compute_stats import aggregate_stats
from lerobot.datasets.utils import load_nested_dataset


def main(root, expected_path):
    expected = json.load(open(expected_path))
    dataset, got = frames(root)
    assert dataset.num_episodes == expected["episodes"], dataset.num_episodes
    assert dataset.fps == expected["fps"] and dataset.meta.robot_type == expected["robot_type"]
    assert len(got) == len(expected["frames"]), len(got)
    for at, (have, want) in enumerate(zip(got, expected["frames"])):
        assert set(have) == set(want), (at, set(have) ^ set(want))
        for key in want:
            assert have[key] == want[key], (at, key, have[key], want[key])
    check_stats(root, dataset)
    check_part(dataset, root)
    check_deltas(dataset, root)
    print(f"{len(got)} frames of {dataset.num_episodes} episodes agree")


def check_stats(root, dataset):
    """Statistics over the dataset are those of the numbers in it, and lerobot can merge them with others."""
    aggregate_stats([dataset.meta.stats, dataset.meta.stats])
    assert set(dataset.meta.stats) == set(dataset.meta.features)
    table = load_nested_dataset(dataset.root / "data").with_format("numpy")
    for key, feature in dataset.meta.features.items():
        stats = dataset.meta.stats[key]
        assert set(stats) == {"min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"}, key
        assert stats["count"] == [len(dataset)], key
        if feature["dtype"] == "image":
            images = np.stack([dataset[at][key].double().numpy() for at in range(len(dataset))])
            # Three colours, also of gray images: lerobot merges no other shape.
            for name in ["mean", "std"]:
                want = np.broadcast_to(getattr(images, name)((0, 2, 3))[:, None, None], (3, 1, 1))
                np.testing.assert_allclose(stats[name], want, atol=1e-6)
            continue
        values = np.asarray(table[:][key]).reshape(len(dataset), -1).astype(np.float64)
        for name in ["min", "max", "mean", "std"]:
            np.testing.assert_allclose(np.asarray(stats[name], dtype=np.float64), getattr(values, name)(0), atol=1e-9)
    check_episode_stats(root, dataset)


def check_episode_stats(root, dataset):
    """Each row of meta/episodes has the columns that lerobot writes, of the same types, and true quantiles."""
    path = next((dataset.root / "meta/episodes").glob("*/*.parquet"))
    episodes = pq.read_table(path).to_pydict()
    states = load_nested_dataset(dataset.root / "data").with_format("numpy")[:]["state"]
    first, last = episodes["dataset_from_index"][0], episodes["dataset_to_index"][0]
    for name, part in [("q01", 0.01), ("q10", 0.1), ("q50", 0.5), ("q90", 0.9), ("q99", 0.99)]:
        want = np.quantile(np.asarray(states)[first:last].astype(np.float64), part, axis=0)
        np.testing.assert_allclose(episodes[f"stats/state/{name}"][0], want, atol=1e-9)


def check_part(dataset, root):
    """One episode alone."""
    last = dataset.num_episodes - 1
    part = type(dataset)("plaudit/check", root=root, episodes=[last])
    assert len(part) == dataset.meta.episodes[last]["length"]
    assert int(part[0]["episode_index"]) == last


def check_deltas(dataset, root):
    """Frames with those before them."""
    at = dataset.meta.episodes[dataset.num_episodes - 1]["dataset_from_index"] + 1
    before = type(dataset)("plaudit/check", root=root, delta_timestamps={"state": [-1 / dataset.fps, 0.0]})
    pair = before[at]["state"]
    assert (pair[0] == dataset[at - 1]["state"]).all() and (pair[1] == dataset[at]["state"]).all()


main(*sys.argv[1:])

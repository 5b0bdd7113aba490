"""Writes v3_interventions, a small dataset with the columns of lerobot's HIL-SERL recordings, and expected_v3_interventions.json beside it.

Written and read back by lerobot 0.4.4. A person takes over for some steps, which `complementary_info.is_intervention` says; the reward is 1
at success, and there is no column of success.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HOME", tempfile.mkdtemp())
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset

here = Path(__file__).parent
LENGTHS = [6, 5]
ONE = {"shape": (1,), "names": None}
FEATURES = {
    "observation.images.front": {"dtype": "image", "shape": (8, 8, 3), "names": ["height", "width", "channels"]},
    "observation.state": {"dtype": "float32", "shape": (3,), "names": ["x", "y", "z"]},
    "action": {"dtype": "float32", "shape": (4,), "names": ["dx", "dy", "dz", "gripper"]},
    "next.reward": {"dtype": "float32", **ONE},
    "next.done": {"dtype": "bool", **ONE},
    "complementary_info.discrete_penalty": {"dtype": "float32", "shape": (1,), "names": ["discrete_penalty"]},
    "complementary_info.is_intervention": {"dtype": "bool", **ONE},
}

root = here / "v3_interventions"
shutil.rmtree(root, ignore_errors=True)
dataset = LeRobotDataset.create("plaudit/check", 10, FEATURES, root=root, robot_type="so100", use_videos=False)
for number, length in enumerate(LENGTHS):
    for at in range(length):
        last = at + 1 == length
        dataset.add_frame({
            "observation.images.front": np.full((8, 8, 3), 20 * at + number, np.uint8),
            "observation.state": np.array([at, number, 0.5], np.float32),
            "action": np.array([at / 8, 0, 0, 1], np.float32),
            "next.reward": np.array([float(last and number == 0)], np.float32),
            "next.done": np.array([last]),
            "complementary_info.discrete_penalty": np.zeros(1, np.float32),
            "complementary_info.is_intervention": np.array([at in (1, 2) and number == 0 or at == 4]),
            "task": "put the block into the bowl",
        })  # fmt: skip
    dataset.save_episode()
dataset.finalize()
shutil.rmtree(root / "images", ignore_errors=True)
read = LeRobotDataset("plaudit/check", root=root)
plain = lambda value: value.item() if hasattr(value, "item") and value.numel() == 1 else value
keys = ["episode_index", "next.reward", "complementary_info.is_intervention"]
expected = [{key: plain(read[at][key]) for key in keys} for at in range(len(read))]
(here / "expected_v3_interventions.json").write_text(json.dumps(expected, indent=1) + "\n")

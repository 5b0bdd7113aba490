"""Reads exported trajectories by h5py, and by ManiSkill's own dataset class where `mani_skill/trajectory/dataset.py` can be imported.

    pip install h5py numpy                  # and, for the second half, torch, tqdm and mani_skill (no simulator is started)
    python check_maniskill.py TRAJECTORY.h5

Prints what h5py reads as JSON: the test `python_packages_read_maniskill_trajectories` of tests/export.rs runs this with the interpreter
named by PLAUDIT_ORACLE_PYTHON, and compares it with the episodes that were exported.
"""

import importlib.util
import json
import sys
import types
from pathlib import Path

import h5py
import numpy as np


def weighted(array):
    """Every byte, weighted by where it is."""
    flat = np.asarray(array).astype(np.int64).ravel()
    return int((flat * (np.arange(flat.size) % 997 + 1)).sum())


def by_h5py(path):
    found = {}
    with h5py.File(path, "r") as file:
        for name, group in file.items():
            for flag in ("terminated", "truncated", "success"):
                assert group[flag].dtype == bool, (flag, group[flag].dtype)
            cameras = group["obs/sensor_data"]
            for camera in cameras.values():
                assert camera["rgb"].dtype == np.uint8 and camera["rgb"].compression == "gzip"
                assert camera["rgb"].chunks == (1, *camera["rgb"].shape[1:])
            assert group["actions"].dtype == group["rewards"].dtype == group["obs/state"].dtype == np.float32
            found[name] = {
                "cameras": {key: [list(value["rgb"].shape), weighted(value["rgb"])] for key, value in cameras.items()},
                "state": group["obs/state"][:].tolist(),
                "actions": group["actions"][:].tolist(),
                "rewards": group["rewards"][:].tolist(),
                **{flag: group[flag][:].tolist() for flag in ("terminated", "truncated", "success")},
            }
    return found


def maniskill_dataset():
    """ManiSkill's class from its file: its package would start a renderer."""
    spec = importlib.util.find_spec("mani_skill")
    if spec is None or importlib.util.find_spec("torch") is None:
        return None
    root = Path(spec.submodule_search_locations[0])
    for name in ("mani_skill", "mani_skill.utils"):
        package = types.ModuleType(name)
        package.__path__ = [str(root / name.removeprefix("mani_skill").replace(".", "/").strip("/"))]
        sys.modules[name] = package
    structs = types.ModuleType("mani_skill.utils.structs")
    structs.__path__ = []
    kinds = types.ModuleType("mani_skill.utils.structs.types")
    kinds.Array = kinds.Device = object
    sys.modules |= {"mani_skill.utils.structs": structs, "mani_skill.utils.structs.types": kinds}
    file = root / "trajectory/dataset.py"
    spec = importlib.util.spec_from_file_location("trajectory_dataset", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ManiSkillTrajectoryDataset


path = sys.argv[1]
found = by_h5py(path)
loader = maniskill_dataset()
if loader is not None:
    dataset = loader(path)
    steps = sum(len(one["actions"]) for one in found.values())
    assert len(dataset) == steps, (len(dataset), steps)
    first = dataset[0]
    assert first["obs"]["sensor_data"] and first["action"].shape[0] == len(found["traj_0"]["actions"][0])
    print(f"ManiSkillTrajectoryDataset: {len(dataset)} steps", file=sys.stderr)
else:
    print("mani_skill is not installed", file=sys.stderr)
print(json.dumps(found))

"""Trajectories as ManiSkill and robomimic write them, by h5py, and what h5py reads from them.

    pip install h5py numpy
    python make_fixtures.py

ManiSkill: the calls of `mani_skill/utils/wrappers/record.py` (RecordEpisode.flush_trajectory): groups that keep their
order, colour images with gzip 5, everything else contiguous. robomimic: the calls of `robomimic/scripts/dataset_states_to_obs.py`.
"""

import json
from pathlib import Path

import h5py
import numpy as np

HERE = Path(__file__).parent
SIDE = 16


def images(rng, steps, shade):
    """A square that moves over a ground of noise."""
    found = rng.integers(0, 40, (steps, SIDE, SIDE, 3), dtype=np.uint8)
    for at in range(steps):
        found[at, 4:10, at : at + 5] = [shade, 255 - shade, 90 + at]
    return found


def nested(group, key, data):
    """As RecordEpisode's recursive_add_to_h5py."""
    if isinstance(data, dict):
        inner = group.create_group(key, track_order=True)
        for name, value in data.items():
            nested(inner, name, value)
    elif key in ("rgb", "depth"):
        group.create_dataset(key, data=data, dtype=data.dtype, compression="gzip", compression_opts=5)
    else:
        group.create_dataset(key, data=data, dtype=data.dtype)


def maniskill(path, mode, seed):
    rng = np.random.default_rng(seed)
    episodes = []
    with h5py.File(path, "w") as file:
        for number, (steps, solved) in enumerate([(7, True), (6, False), (8, True), (5, False)]):
            group = file.create_group(f"traj_{number}", track_order=True)
            agent = {
                "qpos": rng.normal(size=(steps + 1, 9)).astype(np.float32),
                "qvel": rng.normal(size=(steps + 1, 9)).astype(np.float32),
            }
            if mode == "rgb":
                cameras = {
                    name: {"rgb": images(rng, steps + 1, shade + 20 * number)}
                    for name, shade in [("hand_camera", 10), ("base_camera", 120)]
                }
                cameras["base_camera"]["depth"] = rng.integers(0, 2000, (steps + 1, SIDE, SIDE, 1)).astype(np.int16)
                extra = {"tcp_pose": rng.normal(size=(steps + 1, 7)).astype(np.float32),
                         "is_grasped": rng.integers(0, 2, steps + 1).astype(bool)}
                param = {"base_camera": {"intrinsic_cv": np.zeros((steps + 1, 3, 3), np.float32)}}
                nested(group, "obs", {"agent": agent, "extra": extra, "sensor_param": param, "sensor_data": cameras})
            elif mode == "state":
                group.create_dataset("obs", data=rng.normal(size=(steps + 1, 42)).astype(np.float32), dtype=np.float32)
            success = np.zeros(steps, bool)
            success[-2:] = solved
            group.create_dataset("actions", data=rng.uniform(-1, 1, (steps, 4)).astype(np.float32), dtype=np.float32)
            group.create_dataset("terminated", data=success, dtype=bool)
            group.create_dataset("truncated", data=np.arange(steps) == steps - 1, dtype=bool)
            group.create_dataset("success", data=success, dtype=bool)
            group.create_dataset("rewards", data=rng.uniform(0, 1, steps).astype(np.float32), dtype=np.float32)
            nested(group, "env_states", {"actors": {"cube": rng.normal(size=(steps + 1, 13)).astype(np.float32)}})
            episodes.append({
                "episode_id": number, "episode_seed": 40 + number, "control_mode": "pd_ee_delta_pos",
                "elapsed_steps": steps, "reset_kwargs": {"seed": 40 + number}, "success": solved,
            })
    text = {
        "env_info": {"env_id": "PickCube-v1", "max_episode_steps": 50, "env_kwargs": {"obs_mode": mode}},
        "commit_info": None, "episodes": episodes, "source_type": "motionplanning",
    }
    path.with_suffix(".json").write_text(json.dumps(text, indent=2) + "\n")


# What h5py can do with a dataset: each demonstration of robomimic's file is stored in another way.
STORAGE = {
    "contiguous": {},
    "chunked": {"chunks": (1, SIDE, SIDE, 3)},
    "gzip": {"chunks": (2, SIDE, SIDE, 3), "compression": "gzip"},
    "gzip and shuffle": {"chunks": (3, 8, 8, 3), "compression": "gzip", "shuffle": True},
    "lzf and checksum": {"chunks": (2, SIDE, SIDE, 3), "compression": "lzf", "fletcher32": True},
    "growing": {"chunks": (2, SIDE, SIDE, 3), "maxshape": (None, SIDE, SIDE, 3), "compression": "gzip"},
}


def robomimic(path, seed):
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        total = 0
        for number, options in enumerate(STORAGE.values()):
            # Ten comes after nine, not after one.
            name = f"demo_{number}" if number < 5 else "demo_10"
            steps = 5 + number
            demo = data.create_group(name)
            solved = number % 3 != 2
            seen = images(rng, steps + 1, 30 + 30 * number)
            wrist = images(rng, steps + 1, 200 - 30 * number)
            low = {"robot0_eef_pos": rng.normal(size=(steps + 1, 3)), "object": rng.normal(size=(steps + 1, 10))}
            demo.create_dataset("actions", data=rng.uniform(-1, 1, (steps, 7)))
            demo.create_dataset("states", data=rng.normal(size=(steps, 20)))
            rewards = np.zeros(steps)
            rewards[-1] = float(solved)
            demo.create_dataset("rewards", data=rewards)
            demo.create_dataset("dones", data=(np.arange(steps) == steps - 1).astype(np.int64))
            for key, cut in [("obs", slice(0, steps)), ("next_obs", slice(1, steps + 1))]:
                if key == "next_obs" and number == 0:
                    continue  # written with --exclude-next-obs
                demo.create_dataset(f"{key}/agentview_image", data=seen[cut], **options)
                demo.create_dataset(f"{key}/robot0_eye_in_hand_image", data=wrist[cut], compression="gzip")
                for what, values in low.items():
                    demo.create_dataset(f"{key}/{what}", data=values[cut])
            demo.attrs["num_samples"] = steps
            total += steps
        data.attrs["total"] = total
        data.attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": {"reward_shaping": False}})
        file.create_dataset("mask/train", data=np.array([b"demo_0", b"demo_1", b"demo_2", b"demo_4"]))
        file.create_dataset("mask/valid", data=np.array([b"demo_3", b"demo_10"]))


def numbers(array):
    """Sums that a reader must come to as well; images weighted by where a pixel is."""
    flat = np.asarray(array).astype(np.int64).ravel()
    return int((flat * (np.arange(flat.size) % 997 + 1)).sum())


def expected():
    found = {}
    with h5py.File(HERE / "maniskill/trajectory.rgb.h5") as file:
        for name, group in file.items():
            found[f"maniskill/{name}"] = {
                "cameras": {key: numbers(value["rgb"]) for key, value in group["obs/sensor_data"].items()},
                "state": [float(value) for key in ("qpos", "qvel") for value in group[f"obs/agent/{key}"][0]],
                "actions": float(group["actions"][:].astype(np.float64).sum()),
                "rewards": [float(value) for value in group["rewards"]],
                "success": [bool(value) for value in group["success"]],
            }
    with h5py.File(HERE / "robomimic/image.hdf5") as file:
        for name, group in file["data"].items():
            found[f"robomimic/{name}"] = {
                "cameras": {key: numbers(group[f"obs/{key}"]) for key in ("agentview_image", "robot0_eye_in_hand_image")},
                "state": [float(value) for key in ("object", "robot0_eef_pos") for value in group[f"obs/{key}"][0].astype(np.float32)],
                "actions": float(group["actions"][:].sum()),
                "rewards": [float(value) for value in group["rewards"]],
                "success": [bool(value) for value in group["rewards"][:] > 0.5],
            }
    (HERE / "expected.json").write_text(json.dumps(found, indent=1) + "\n")


for folder in ("maniskill", "maniskill_state", "maniskill_none", "robomimic"):
    (HERE / folder).mkdir(exist_ok=True)
maniskill(HERE / "maniskill/trajectory.rgb.h5", "rgb", 1)
maniskill(HERE / "maniskill_state/trajectory.state.h5", "state", 2)
maniskill(HERE / "maniskill_none/trajectory.h5", "none", 3)
robomimic(HERE / "robomimic/image.hdf5", 4)
expected()

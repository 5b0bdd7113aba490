"""A replay buffer as RLinf's TrajectoryReplayBuffer saves it: two rollouts of two environments in one file.

    python make_fixtures.py            # needs torch; writes buffer/ beside this file
    python make_fixtures.py FOLDER     # checks a buffer that plaudit wrote

Numbers tell where they belong: states are [row, step], actions 10·step + row, rewards 100·step + row. Row 0 ends at
step 3 of the first rollout (terminated) and its next observation is the last real one, not the reset; row 1 is truncated
at the end of each rollout. Ends have one entry more per rollout than steps, from before its first step.
"""

import json
import sys
import uuid
from pathlib import Path

import torch

STEPS, ROWS = 4, 2


def make(folder):
    folder.mkdir(exist_ok=True)
    curr, following, actions, rewards, ends = [], [], [], [], {"terminations": [], "truncations": []}
    for rollout in range(2):
        for flags in ends.values():
            flags.append(torch.zeros(ROWS, 1, dtype=torch.bool))
        for step in range(STEPS):
            at = rollout * STEPS + step
            state = lambda at: torch.tensor([[row, at] for row in range(ROWS)], dtype=torch.float32)
            image = lambda at: torch.full((ROWS, 2, 2, 3), at, dtype=torch.uint8)
            terminated = torch.tensor([[at == 2], [False]])
            truncated = torch.tensor([[False], [step == STEPS - 1]])
            after = state(at + 1)
            after[(terminated | truncated)[:, 0], 1] += 0.5  # the last real observation
            curr.append({"states": state(at), "main_images": image(at)})
            following.append({"states": after, "main_images": image(at + 1)})
            actions.append(torch.tensor([[10.0 * at + row] for row in range(ROWS)]))
            rewards.append(torch.tensor([[100.0 * at + row] for row in range(ROWS)]))
            ends["terminations"].append(terminated)
            ends["truncations"].append(truncated)
    stack = lambda parts: {key: torch.stack([part[key] for part in parts]) for key in parts[0]}
    versions = torch.zeros(2 * STEPS, ROWS, 1)
    weights = str(uuid.uuid5(uuid.NAMESPACE_DNS, versions.numpy().tobytes().hex()))
    trajectory = {
        "max_episode_length": 50,
        "model_weights_id": weights,
        "actions": torch.stack(actions),
        "intervene_flags": torch.zeros(2 * STEPS, ROWS, 1, dtype=torch.bool),
        "rewards": torch.stack(rewards),
        **{key: torch.stack(flags) for key, flags in ends.items()},
        "dones": torch.stack(ends["terminations"]) | torch.stack(ends["truncations"]),
        "versions": versions,
        "forward_inputs": {"action": torch.stack(actions)},
        "curr_obs": stack(curr),
        "next_obs": stack(following),
    }
    torch.save(trajectory, folder / f"trajectory_0_{weights}.pt")
    samples = 2 * STEPS * ROWS
    entry = {
        "num_samples": samples,
        "trajectory_id": 0,
        "max_episode_length": 50,
        "shape": tuple(trajectory["rewards"].shape),
        "model_weights_id": weights,
    }
    index = {"trajectory_index": {0: entry}, "trajectory_id_list": [0]}
    (folder / "trajectory_index.json").write_text(json.dumps(index))
    metadata = {"trajectory_format": "pt", "size": 1, "total_samples": samples, "trajectory_counter": 1, "seed": 1234}
    (folder / "metadata.json").write_text(json.dumps(metadata))


def check(folder):
    """What RLinf's loader asks of a buffer."""
    metadata = json.loads((folder / "metadata.json").read_text())
    index = json.loads((folder / "trajectory_index.json").read_text())
    assert metadata["trajectory_format"] == "pt" and metadata["size"] == len(index["trajectory_id_list"])
    total = 0
    for number in index["trajectory_id_list"]:
        entry = index["trajectory_index"][str(number)]
        path = folder / f"trajectory_{number}_{entry['model_weights_id']}.pt"
        trajectory = torch.load(path, map_location="cpu", weights_only=True)
        steps, rows, _ = entry["shape"]
        for key in ["actions", "rewards", "terminations", "truncations", "dones", "intervene_flags"]:
            assert trajectory[key].shape[:2] == (steps, rows), key
        assert trajectory["dones"].dtype == torch.bool and trajectory["rewards"].dtype == torch.float32
        for side in ["curr_obs", "next_obs"]:
            assert all(value.shape[:2] == (steps, rows) for value in trajectory[side].values())
        assert entry["num_samples"] == steps * rows
        total += steps * rows
    assert metadata["total_samples"] == total
    print(f"{folder}: {metadata['size']} trajectories of {total} samples, as they should be")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        check(Path(sys.argv[1]))
    else:
        make(Path(__file__).with_name("buffer"))

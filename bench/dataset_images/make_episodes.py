"""Makes episodes to convert: python make_episodes.py OUT [EPISODES] [STEPS] [SIZE]

Episodes look like those of RLinf's collector on ManiSkill: torch tensors in plain pickles, one file each.
"""

import pathlib
import pickle
import sys

import torch

out = pathlib.Path(sys.argv[1])
episodes, steps, size = (int(x) for x in (sys.argv[2:] + ["500", "50", "128"][len(sys.argv) - 2 :]))
out.mkdir(parents=True, exist_ok=True)
generator = torch.Generator().manual_seed(0)


def flag(truth):
    return torch.tensor(truth)


def info(at, success):
    return {
        "elapsed_steps": torch.tensor(at, dtype=torch.int32), "success": flag(success), "is_obj_placed": flag(success),
        "is_robot_static": flag(False), "is_grasped": flag(at > 20),
        "episode": {"success_once": flag(success), "return": torch.tensor(0.5 * at), "episode_len": torch.tensor(at), "reward": torch.tensor(0.5)},
    }


for number in range(episodes):
    first_success = steps // 2 + number % 7 if number % 4 else None
    solved = [first_success is not None and at >= first_success for at in range(steps + 1)]
    pixels = torch.randint(0, 256, (steps + 1, size, size, 3), dtype=torch.uint8, generator=generator)
    episode = {
        "rank": 0, "env_idx": number % 32, "episode_id": number // 32, "step": 50 * (number // 32 + 1), "success": any(solved),
        "observations": [{"main_images": pixels[at].clone(), "extra_view_images": None, "states": torch.zeros(42)} for at in range(steps + 1)],
        "actions": [torch.zeros(8).numpy() for _ in range(steps)],
        "rewards": [0.0] + [torch.tensor(0.5) for _ in range(steps)],
        "terminated": [False] + [flag(False) for _ in range(steps)],
        "truncated": [False] + [flag(at == steps) for at in range(1, steps + 1)],
        "infos": [{}] + [info(at, solved[at]) for at in range(1, steps + 1)],
    }
    outcome = "success" if episode["success"] else "fail"
    name = f"rank_0_env_{episode['env_idx']}_episode_{episode['episode_id']}_step_{episode['step']}_{outcome}.pkl"
    with open(out / name, "wb") as file:
        pickle.dump(episode, file)

"""Steps environments in Python, without the bridge: reads what to do as JSON, writes what happened.

`seeds` holds the seeds of each row's episodes, `actions` is [T][B][width].
"""

import json
import sys

import gymnasium
import numpy as np

task = json.load(sys.stdin)
envs = [gymnasium.make(task["id"]) for _ in task["seeds"]]
bits = lambda values: np.asarray(values, np.float32).reshape(-1).view(np.uint32).tolist()
trajectory = {"start": [bits(env.reset(seed=seeds.pop(0))[0]) for env, seeds in zip(envs, task["seeds"])], "steps": []}
for actions in task["actions"]:
    rows = []
    for env, seeds, action in zip(envs, task["seeds"], actions):
        discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
        seen, reward, terminated, truncated, _ = env.step(int(action[0]) if discrete else np.float32(action))
        row = {"reward": bits(reward), "end": int(terminated) or 2 * int(truncated), "last": None}
        if terminated or truncated:
            row["last"] = bits(seen)
            seen = env.reset(seed=seeds.pop(0))[0]
        row["now"] = bits(seen)
        rows.append(row)
    trajectory["steps"].append(rows)
json.dump(trajectory, sys.stdout)

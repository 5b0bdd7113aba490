"""Environments that cost next to nothing, and a loop that steps environments without the bridge.

As a module it registers the environments. As a program it reads `case steps` lines and answers each with
the microseconds of every step.
"""

import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

ROWS, STATE, SIDE = 16, 42, 128


class Null(VectorEnv):
    """Always shows the same."""

    def __init__(self, num_envs, images=False, **others):
        self.num_envs, self.metadata = num_envs, {"autoreset_mode": AutoresetMode.SAME_STEP}
        single = {"state": spaces.Box(-1, 1, (STATE,), np.float32)}
        self.obs = {"state": np.zeros((num_envs, STATE), np.float32)}
        if images:
            single["image"] = spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
            self.obs["image"] = np.ones((num_envs, SIDE, SIDE, 3), np.uint8)
        self.single_observation_space = spaces.Dict(single)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.single_action_space = spaces.Box(-1, 1, (7,), np.float32)
        self.action_space = spaces.Box(-1, 1, (num_envs, 7), np.float32)
        self.outcome = (np.zeros(num_envs), np.zeros(num_envs, bool), np.zeros(num_envs, bool), {})

    def reset(self, seed=None, options=None):
        return self.obs, {}

    def step(self, actions):
        return (self.obs,) + self.outcome


gymnasium.register("Null-v0", vector_entry_point=Null)


def cases():
    sync = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * ROWS, autoreset_mode="SameStep")
    return {
        "cart_poles": (sync, np.zeros(ROWS, np.int64)),
        "state": (Null(ROWS), np.zeros((ROWS, 7), np.float32)),
        "images": (Null(ROWS, images=True), np.zeros((ROWS, 7), np.float32)),
    }


def serve():
    known = cases()
    for line in sys.stdin:
        name, steps = line.split()
        env, actions = known[name]
        env.reset(seed=0)
        times = []
        for _ in range(int(steps)):
            before = time.perf_counter()
            env.step(actions)
            times.append((time.perf_counter() - before) * 1e6)
        print(" ".join("%.3f" % took for took in times), flush=True)


if __name__ == "__main__":
    serve()

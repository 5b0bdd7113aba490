"""A point on a line moves to a target. Put your own environment in its place.

`info["success"]` is the ground truth that evaluations count; the reward is what a policy learns from.
"""

import gymnasium
import numpy as np
from gymnasium import spaces


class Reach(gymnasium.Env):
    def __init__(self):
        self.observation_space = spaces.Box(-4.0, 4.0, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.point = self.target = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.point, self.target = self.np_random.uniform(-1.0, 1.0, 2)
        return self.observation(), {"success": False}

    def step(self, action):
        self.point = float(np.clip(self.point + 0.1 * float(action[0]), -4.0, 4.0))
        distance = abs(self.point - self.target)
        return self.observation(), -distance, False, False, {"success": bool(distance < 0.05)}

    def observation(self):
        return np.array([self.point, self.target], np.float32)

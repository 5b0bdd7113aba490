"""Stands in for ManiSkill and torch: batched environments that speak tensors, and one camera."""

import sys
import types

import gymnasium
import numpy as np
from gymnasium import spaces


class Tensor:
    """As much of a torch tensor as ManiSkill's users need."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.values

    def __getitem__(self, place):
        return Tensor(self.values[place])


class Hidden:
    shown = False

    def show_visual(self):
        self.shown = True


class FakeCube(gymnasium.Env):
    """Rows that count; random starts come from the first seed of a reset, as in ManiSkill."""

    control_freq, device = 20, "fake"

    def __init__(self, num_envs=1, obs_mode="state", sim_backend="gpu", control_mode=None, render_mode=None):
        if "cpu" in sim_backend and num_envs > 1:
            raise RuntimeError("a simulation on the CPU has one row")
        self.num_envs, self.obs_mode, self.control_mode = num_envs, obs_mode, control_mode
        self.single_action_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (num_envs, 2), np.float32)
        self.goal, self.steps, self.starts = Hidden(), np.zeros(num_envs, np.int64), np.zeros(num_envs)
        self._hidden_objects = [self.goal]

    def reset(self, seed=None, options=None):
        rows = np.asarray((options or {}).get("env_idx", range(self.num_envs)))
        if seed is not None:
            self.rng = np.random.RandomState(seed[0] if isinstance(seed, list) else seed)
        self.starts[rows], self.steps[rows] = self.rng.rand(len(rows)), 0
        return self.see(), {"reconfigure": False}

    def step(self, action):
        self.steps += 1
        self.moved = np.asarray(action).reshape(self.num_envs, 2).sum(-1)
        info = {"success": Tensor(self.moved > 1.5), "is_grasped": Tensor(self.steps % 2 == 0)}
        none = np.zeros(self.num_envs, bool)
        return self.see(), Tensor(self.moved.astype(np.float32)), Tensor(self.moved > 1.5), Tensor(none), info

    def see(self):
        state = np.stack([self.starts, self.steps], -1).astype(np.float32)
        if self.obs_mode == "state":
            return Tensor(state)
        frames = np.zeros((self.num_envs, 8, 8, 3), np.uint8) + self.steps[:, None, None, None].astype(np.uint8)
        frames[:, 0, 0, 0] = 200 if self.goal.shown else 100
        return {
            "extra": {"tcp": Tensor(state), "a_late_one": Tensor(self.steps % 2 == 1)},
            "sensor_param": {"base_camera": {"intrinsic": Tensor(np.zeros((self.num_envs, 3, 3)))}},
            "sensor_data": {"base_camera": {"rgb": Tensor(frames), "depth": Tensor(frames[..., :1])}},
        }

    def render(self):
        return Tensor(np.zeros((self.num_envs, 5, 5, 3), np.uint8) + self.steps[:, None, None, None].astype(np.uint8))


class Clock(gymnasium.Wrapper):
    """ManiSkill's time limit: it truncates with a tensor."""

    def __init__(self, env, max_episode_steps=4):
        super().__init__(env)
        self._max_episode_steps = max_episode_steps

    def step(self, action):
        seen, reward, terminated, _, info = self.env.step(action)
        return seen, reward, terminated, Tensor(self.unwrapped.steps >= self._max_episode_steps), info


def make(max_episode_steps=4, **others):
    return Clock(FakeCube(**others), max_episode_steps)


gymnasium.register("FakeCube-v1", entry_point=make, disable_env_checker=True, order_enforce=False)
torch, package, envs = (types.ModuleType(name) for name in ("torch", "mani_skill", "mani_skill.envs"))
torch.tensor = lambda values, device=None: np.asarray(values)
package.envs = envs
sys.modules.update({"torch": torch, "mani_skill": package, "mani_skill.envs": envs})

"""Environments with something odd about them, one for each thing the bridge has to get right."""

import os
import signal
import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.vector import VectorEnv


class Counter(gymnasium.Env):
    """Counts steps up from a random start and ends after `length` of them."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}
    observation_space = spaces.Box(-1e6, 1e6, (2,), np.float64)
    action_space = spaces.Discrete(3)

    def __init__(self, length=3, render_mode=None):
        self.length, self.render_mode = length, render_mode

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.start, self.steps = self.np_random.integers(1000), 0
        return self.see(), {}

    def step(self, action):
        self.steps += 1
        done = self.steps >= self.length
        return self.see(), float(action), done, False, {"is_success": done and action == 2, "lucky": {"number": 7}}

    def see(self):
        return np.array([self.start, self.steps], np.float64)

    def render(self):
        return np.full((4, 6, 3), self.steps, np.uint8)


class Failing(Counter):
    """Does something bad in the third step of all environments, counted together."""

    all_steps = 0

    def __init__(self, how, **others):
        super().__init__(length=10, **others)
        self.how = how

    def step(self, action):
        Failing.all_steps += 1
        result = super().step(action)
        return getattr(self, self.how)(*result) if Failing.all_steps == 3 else result

    def raises(self, *result):
        raise ValueError("boom in step")

    def exits(self, *result):
        print("farewell", flush=True)
        sys.exit(3)

    def crashes(self, *result):
        os.kill(os.getpid(), signal.SIGSEGV)

    def hangs(self, *result):
        time.sleep(1000)

    def prints(self, *result):
        print("k" * 50)
        os.write(1, b"kkkk raw\n")
        input_was = sys.stdin.read()
        print("stdin gave", repr(input_was))
        return result

    def nan_reward(self, seen, reward, *rest):
        return (seen, float("nan")) + rest

    def nan_state(self, seen, *rest):
        return (seen * np.nan,) + rest

    def wrong_shape(self, seen, *rest):
        return (np.zeros(1),) + rest


class Looks(gymnasium.Env):
    """Shows images of both orders, choices, and numbers in nested dictionaries."""

    def __init__(self):
        self.action_space = spaces.MultiDiscrete([2, 3])
        self.observation_space = spaces.Dict(
            {
                "images": spaces.Dict(
                    {
                        "front": spaces.Box(0, 255, (32, 40, 3), np.uint8),
                        "wrist": spaces.Box(0, 255, (3, 36, 32), np.uint8),
                    }
                ),
                "code": spaces.Box(0, 9, (2, 2, 3), np.uint8),
                "arm": spaces.Dict({"pose": spaces.Box(-9, 9, (2, 2), np.float32)}),
                "mode": spaces.Discrete(3, start=1),
                "words": spaces.Text(5),
            }
        )

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.did = 0, (0, 0)
        return self.see(), {}

    def step(self, action):
        self.steps, self.did = self.steps + 1, tuple(int(part) for part in action)
        return self.see(), float(10 * action[0] + action[1]), False, self.steps == 2, {"success": np.True_}

    def see(self):
        wrist = np.zeros((3, 36, 32), np.uint8)
        wrist[0], wrist[1], wrist[2] = 10 + self.steps, 20, 30
        front = np.full((32, 40, 3), self.steps, np.uint8)
        return {
            "images": {"front": front, "wrist": wrist},
            "code": np.arange(12, dtype=np.uint8).reshape(2, 2, 3) % 10,
            "arm": {"pose": np.array([[1, 2], [3, 4]], np.float32) + self.steps},
            "mode": 1 + self.steps % 3,
            "words": "go",
        }


class ManyHands(Counter):
    action_space = spaces.MultiBinary(100)


class PlacedCartPole(CartPoleEnv):
    """Starts every episode from the same state."""

    def __init__(self, start):
        super().__init__()
        self.start = np.array(start, np.float64)

    def reset(self, **others):
        super().reset(**others)
        self.state = self.start.copy()
        return np.array(self.state, np.float32), {}


class CounterVector(VectorEnv):
    """Counters as a vector environment with either way to reset."""

    def __init__(self, num_envs, mode="NextStep", **others):
        modes = getattr(gymnasium.vector, "AutoresetMode", None)
        self.envs = [Counter(length=2 + row) for row in range(num_envs)]
        self.num_envs, self.mode = num_envs, mode
        self.metadata = {"autoreset_mode": modes(mode)} if modes else {}
        self.single_observation_space, self.single_action_space = Counter.observation_space, Counter.action_space
        self.observation_space = spaces.Box(-1e6, 1e6, (num_envs, 2), np.float64)
        self.action_space = spaces.MultiDiscrete([3] * num_envs)

    def reset(self, seed=None, options=None):
        self.done = np.zeros(self.num_envs, bool)
        return np.stack([env.reset(seed=seed[row])[0] for row, env in enumerate(self.envs)]), {}

    def step(self, actions):
        count = self.num_envs
        seen, reward, done = np.zeros((count, 2)), np.zeros(count), np.zeros(count, bool)
        solved, final = np.zeros(count, bool), np.full(count, None, dtype=object)
        for row, env in enumerate(self.envs):
            if self.done[row]:
                seen[row] = env.reset()[0]
                continue
            seen[row], reward[row], done[row], _, info = env.step(actions[row])
            solved[row] = info["is_success"]
            if done[row] and self.mode == "SameStep":
                final[row] = seen[row].copy()
                seen[row] = env.reset()[0]
        if self.mode == "SameStep":
            info = {"final_obs": final, "final_info": {"is_success": solved}}
        else:
            self.done, info = done, {"is_success": solved}
        return seen, reward, done, np.zeros(count, bool), info


def register(name, entry, **others):
    gymnasium.register("odd/%s-v0" % name, entry_point=entry, disable_env_checker=True, **others)


register("Counter", Counter)
register("Failing", Failing)
register("Looks", Looks)
register("ManyHands", ManyHands)
register("PlacedCartPole", PlacedCartPole, max_episode_steps=500)
register("CounterVector", Counter, vector_entry_point=CounterVector)

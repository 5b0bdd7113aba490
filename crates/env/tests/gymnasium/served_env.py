"""plaudit's environments as Gymnasium's, through the example `step_server`."""

import json
import subprocess

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space


class Refused(Exception):
    """What the server answered instead of doing it."""


class Server:
    """A process that steps one batch of environments."""

    def __init__(self, program, settings):
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.spec = self.ask({"make": settings})["spec"] if settings else None

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def step(self, actions):
        return self.ask({"step": np.asarray(actions, dtype=np.float64).ravel().tolist()})

    def close(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
            self.process.stdout.close()
            assert self.process.wait(timeout=20) == 0


def action_space(spec):
    actions = spec["actions"]
    if "n" in actions:
        return spaces.Discrete(actions["n"])
    low, high = (np.array(actions[side], dtype=np.float32) for side in ("low", "high"))
    return spaces.Box(low, high, dtype=np.float32)


def observation_space(spec, settings, state_space):
    """`state_space` where somebody knows bounds; we promise none."""
    unbounded = spaces.Box(-np.inf, np.inf, (spec["state_width"],), dtype=np.float32)
    state = state_space or unbounded
    if not gives_images(settings):
        return state
    images = {
        name: spaces.Box(0, 255, (shape["height"], shape["width"], shape["channels"]), dtype=np.uint8)
        for name, shape in spec["cameras"].items()
    }
    return spaces.Dict({"state": state, **images})


def gives_images(settings):
    return any(isinstance(own, dict) and own.get("obs_mode") == "rgb" for own in settings.values())


class Reader:
    """From JSON to arrays of a whole batch."""

    def __init__(self, spec, settings):
        self.cameras = spec["cameras"]
        self.has_images = gives_images(settings)

    def frames(self, obs, name):
        shape = self.cameras[name]
        size = (shape["height"], shape["width"], shape["channels"])
        rows = [np.frombuffer(bytes.fromhex(row), dtype=np.uint8) for row in obs["cameras"][name]]
        return np.stack(rows).reshape(len(rows), *size)

    def batch(self, obs):
        state = np.array(obs["state"], dtype=np.float32)
        if not self.has_images:
            return state
        return {"state": state} | {name: self.frames(obs, name) for name in self.cameras}

    def row(self, obs):
        batch = self.batch(obs)
        return {key: value[0] for key, value in batch.items()} if self.has_images else batch[0]


class ServedEnv(gymnasium.Env):
    """One row. An ended episode shows its last real observation, as Gymnasium wants it."""

    metadata = {"render_modes": [], "render_fps": 20}

    def __init__(self, program, settings, state_space=None, render_mode=None):
        self.server = Server(program, {**settings, "num_envs": 1})
        self.reader = Reader(self.server.spec, settings)
        self.action_space = action_space(self.server.spec)
        self.observation_space = observation_space(self.server.spec, settings, state_space)
        self.render_mode = render_mode
        if render_mode:
            self.server.ask({"watch": True})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        self.shown = self.server.ask({"reset": seed})["obs"]
        return self.reader.row(self.shown), {}

    def step(self, action):
        reply = self.server.step(action)
        self.shown = reply["last"].get("0", reply["obs"])
        info = {name: column[0] for name, column in reply["facts"].items()}
        info["success"] = reply["success"][0]
        end = reply["end"][0]
        return self.reader.row(self.shown), reply["reward"][0], end == "terminated", end == "truncated", info

    def render(self):
        main = next(iter(self.reader.cameras))
        return self.reader.frames(self.shown, main)[0]

    def close(self):
        self.server.close()


class ImageEnv(ServedEnv):
    """One row of an environment with cameras: the first is what `render` shows."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}


class ServedVectorEnv(VectorEnv):
    """The whole batch. Rows reset themselves in the step that ends them."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, program, settings, num_envs, state_space=None):
        self.server = Server(program, {**settings, "num_envs": num_envs})
        self.reader = Reader(self.server.spec, settings)
        self.num_envs = self.server.spec["num_envs"]
        self.single_action_space = action_space(self.server.spec)
        self.single_observation_space = observation_space(self.server.spec, settings, state_space)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.reader.batch(self.server.ask({"reset": seed})["obs"]), {}

    def step(self, actions):
        reply = self.server.step(actions)
        ends = np.array(reply["end"])
        info = {name: np.array(column) for name, column in reply["facts"].items()}
        if reply["last"]:
            info["_final_obs"] = ends != "no"
            info["final_obs"] = np.full(self.num_envs, None, dtype=object)
            for row, obs in reply["last"].items():
                info["final_obs"][int(row)] = self.reader.row(obs)
        reward = np.array(reply["reward"], dtype=np.float32)
        return self.reader.batch(reply["obs"]), reward, ends == "terminated", ends == "truncated", info

    def close_extras(self, **kwargs):
        self.server.close()

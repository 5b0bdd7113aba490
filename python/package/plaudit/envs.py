"""plaudit's simulator as Gymnasium environments.

Gymnasium knows them as `plaudit/PickCube-v1` and so on, once `plaudit` is imported.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from plaudit import _vectors
from plaudit._gymnasium import NAMESPACE
from plaudit._plaudit import Simulator
from plaudit.errors import InputError, needs

try:
    import gymnasium as gym
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise needs("gymnasium", "gymnasium") from error

# What is set of the batch; everything else is a setting of the task.
_OF_BATCH = ("group_size", "max_episode_steps", "ignore_terminations")
_BLOCKS = {
    "PickCube-v1": "pick_cube",
    "PickCube3View-v1": "pick_cube",
    "PegInsertionSide-v1": "peg_insertion",
}
_SEEDS = 2**63


def make(name: str, **settings: Any) -> "Env":
    """One environment, such as `make("PickCube-v1", obs_mode="rgb")`."""
    return Env(name=_plain(name), **settings)


def make_vec(name: str, num_envs: int, **settings: Any) -> "VectorEnv":
    """Environments that are stepped together."""
    return VectorEnv(name=_plain(name), num_envs=num_envs, **settings)


def _plain(name: str) -> str:
    return name.removeprefix(f"{NAMESPACE}/")


def _simulator(name: str, num_envs: int, render_mode: str | None, settings: dict[str, Any]) -> Simulator:
    if render_mode not in (None, "rgb_array"):
        raise InputError(f"there is no render_mode {render_mode!r}", 'pass "rgb_array", or leave it out')
    if not isinstance(num_envs, (int, np.integer)) or num_envs < 1:
        raise InputError(f"num_envs is {num_envs!r}", "pass a number from 1")
    of_batch = {key: settings.pop(key) for key in _OF_BATCH if key in settings}
    words = {"id": name, "num_envs": int(num_envs), **of_batch}
    cameras = settings.get("cameras")
    if cameras is not None:
        settings = {**settings, "cameras": [_camera(camera) for camera in cameras]}
    if settings:
        if name not in _BLOCKS:
            raise InputError(
                f"{name} has no setting `{next(iter(settings))}`", f"there are {', '.join(_OF_BATCH)}"
            )
        words[_BLOCKS[name]] = settings
    try:
        text = json.dumps(words)
    except TypeError as error:
        raise InputError(f"the settings of {name}: {error}", "pass words, numbers, lists and dicts") from None
    return Simulator(text, render_mode is not None)


def _camera(camera: Any) -> dict[str, Any]:
    """A camera by its name, or with the size of its images."""
    if isinstance(camera, str):
        side = 512 if camera == "render_camera" else 128
        return {"name": camera, "width": side, "height": side}
    return dict(camera)


class _Spaces:
    """What observations and actions are, as Gymnasium says it."""

    def __init__(self, spec: dict[str, Any], with_images: bool) -> None:
        state = gym.spaces.Box(-np.inf, np.inf, (spec["state_width"],), np.float32)
        image = {name: gym.spaces.Box(0, 255, shape, np.uint8) for name, shape in spec["cameras"].items()}
        self.names = list(image) if with_images else []
        self.observation = gym.spaces.Dict({"state": state, **image}) if with_images else state
        if "discrete" in spec:
            self.action = gym.spaces.Discrete(spec["discrete"])
        else:
            self.action = gym.spaces.Box(spec["low"], spec["high"], dtype=np.float32)

    def batch(self, seen: dict[str, np.ndarray]) -> Any:
        """What a batch shows."""
        return {key: seen[key] for key in ("state", *self.names)} if self.names else seen["state"]

    def one(self, seen: dict[str, np.ndarray]) -> Any:
        """What the only environment of a batch shows."""
        return {key: seen[key][0] for key in ("state", *self.names)} if self.names else seen["state"][0]


def _with_images(settings: dict[str, Any]) -> bool:
    return settings.get("obs_mode") == "rgb"


class Env(gym.Env):
    """One environment. Observations are the state, or with `obs_mode="rgb"` a dict of it and the image of every camera."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, name: str, render_mode: str | None = None, **settings: Any) -> None:
        with_images = _with_images(settings)
        self._simulator = _simulator(name, 1, render_mode, settings)
        spec = self._simulator.spec
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": spec["control_hz"]}
        self._spaces = _Spaces(spec, with_images)
        self.observation_space = self._spaces.observation
        self.action_space = self._spaces.action
        self.simulator_spec = spec
        self._next: dict[str, np.ndarray] | None = None
        self._seen: dict[str, np.ndarray] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        # The simulator has begun the next episode by itself; a seed begins everything anew.
        if seed is None and self._next is not None:
            self._seen, self._next = self._next, None
        else:
            seed = seed if seed is not None else int(self.np_random.integers(_SEEDS))
            self._seen, self._next = self._simulator.reset(seed), None
        return self._spaces.one(self._seen), {}

    def step(self, action: Any):
        if self._seen is None or self._next is not None:
            raise InputError("a step before the first observation of an episode", "call reset() first")
        stepped = self._simulator.step(_rows(self.action_space, action, 1))
        seen, reward, terminated, truncated, success, facts, ended, last = stepped
        if ended:
            self._next, seen = seen, last[0]
        self._seen = seen
        info = {"success": bool(success[0])} | {name: float(values[0]) for name, values in facts.items()}
        return self._spaces.one(seen), float(reward[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self):
        """What the first camera sees now."""
        if self.render_mode is None or self._seen is None:
            return None
        return self._seen[next(iter(self.simulator_spec["cameras"]))][0]

    def close(self) -> None:
        self._simulator.close()


class VectorEnv(_vectors.VectorEnv):
    """Environments that are stepped together, on all cores. One that ends begins its next episode in the same step: its last
    observation is in `info["final_obs"]`."""

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": _vectors.AutoresetMode.SAME_STEP}

    def __init__(self, name: str, num_envs: int = 1, render_mode: str | None = None, **settings: Any) -> None:
        _vectors.require_modes()
        with_images = _with_images(settings)
        self._simulator = _simulator(name, num_envs, render_mode, settings)
        spec = self._simulator.spec
        self.num_envs = int(num_envs)
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": spec["control_hz"]}
        self._spaces = _Spaces(spec, with_images)
        self.single_observation_space = self._spaces.observation
        self.single_action_space = self._spaces.action
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.simulator_spec = spec
        self._seen: dict[str, np.ndarray] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        if seed is not None and not isinstance(seed, (int, np.integer)):
            raise InputError(
                "a seed for each environment", "pass one seed: each environment's follows from it"
            )
        super().reset(seed=seed)
        seed = seed if seed is not None else int(self.np_random.integers(_SEEDS))
        self._seen = self._simulator.reset(int(seed))
        return self._spaces.batch(self._seen), {}

    def step(self, actions: Any):
        stepped = self._simulator.step(_rows(self.single_action_space, actions, self.num_envs))
        seen, reward, terminated, truncated, success, facts, ended, last = stepped
        self._seen = seen
        there = np.ones(self.num_envs, bool)
        info: dict[str, Any] = {"success": success, "_success": there}
        for name, values in facts.items():
            info[name], info[f"_{name}"] = values, there
        if ended:
            over = np.zeros(self.num_envs, bool)
            over[ended] = True
            final = np.full(self.num_envs, None, dtype=object)
            for row, obs in zip(ended, last):
                final[row] = self._spaces.one(obs)
            own = {key: np.where(over, value, 0) for key, value in info.items() if not key.startswith("_")}
            own |= {f"_{key}": over for key in own}
            info |= {"final_obs": final, "_final_obs": over, "final_info": own, "_final_info": over}
        return self._spaces.batch(seen), reward, terminated, truncated, info

    def render(self):
        """What the first camera of each environment sees now."""
        if self.render_mode is None or self._seen is None:
            return None
        return tuple(self._seen[next(iter(self.simulator_spec["cameras"]))])

    def close_extras(self, **_kwargs: Any) -> None:
        self._simulator.close()


def _rows(space: gym.Space, actions: Any, count: int) -> np.ndarray:
    """The actions of all environments, one after another."""
    width = 1 if isinstance(space, gym.spaces.Discrete) else int(np.prod(space.shape))
    try:
        rows = np.asarray(actions, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"the actions are no numbers: {error}", f"pass {count} x {width} numbers") from None
    if rows.size != count * width:
        message = f"actions of shape {rows.shape} for {count} environments with {width} numbers each"
        raise InputError(message, f"pass an array of shape ({count}, {width})")
    return np.ascontiguousarray(rows.reshape(-1))

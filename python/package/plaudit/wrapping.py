"""The learned reward in a Gymnasium environment: plaudit's rules, a step at a time."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import numpy as np

from plaudit._plaudit import RewardModel, RewardShaper
from plaudit._vectors import UNSAID, AutoresetMode, VectorWrapper
from plaudit.errors import InputError, needs
from plaudit.observations import as_array, batched_images, batched_state, leaves, like, split_observation

try:
    import gymnasium as gym
except ImportError as error:
    raise needs("gymnasium", "gymnasium") from error

# An episode's length, where an environment does not say how long one may be: as far back as hysteresis looks.
LONGEST_EPISODE = 10_000


def wrap(
    env: gym.Env | gym.vector.VectorEnv,
    model: RewardModel,
    *,
    mode: str = "per_step",
    cameras: Mapping[str, str] | Sequence[str] | None = None,
    threshold: float | str | None = None,
    hysteresis: tuple[float, float] | None = None,
    hold: int = 1,
    success_reward: float | None = None,
    fail_reward: float = 0.0,
    reward_weight: float = 1.0,
    env_reward_weight: float = 0.0,
    gamma: float = 0.99,
    guards: Sequence[str] = (),
    window: int = 8,
    interval: int | None = None,
    task: str | None = None,
    images: Callable[[Any], Mapping[str, np.ndarray]] | None = None,
):
    """An environment whose reward is that of a model.

    `mode` says when the model rewards: `per_step` at every step; `terminal` at the last step of each episode; `history_buffer` for
    windows of `window` frames, every `interval` steps; `potential` by how the score changes, discounted by `gamma`.

    A frame counts as solved when its score is above `threshold` (the model's own if None; `"none"`: every score counts), or between
    the two levels of `hysteresis`, for `hold` steps on end, and while every one of `guards` holds (`"state[0] > 0.1"`). Its reward
    is then its score, or `success_reward`; otherwise 0, or `fail_reward`.

    The total is `reward_weight` times the model's plus `env_reward_weight` times the environment's own, as `info["reward_terms"]`
    has them. `info["reward_score"]` is the score and `info["reward_success"]` whether the model sees the task solved; what the
    environment itself says about success stays as it is.

    Images are those of the observation (`uint8`, height, width, colour), or what `render()` shows where it has none. `cameras` says
    which of them the model's views are; `images` makes them of an observation.
    """
    if not isinstance(model, RewardModel):
        raise InputError(f"{type(model).__name__} is no reward model", "pass plaudit.RewardModel(path)")
    options = {
        "mode": mode,
        "threshold": None if isinstance(threshold, str) else threshold,
        "filter": threshold != "none",
        "hysteresis": hysteresis,
        "hold": hold,
        "success_reward": success_reward,
        "fail_reward": fail_reward,
        "gamma": gamma,
        "guards": list(guards),
        "window": window,
        "interval": window if interval is None else interval,
        "task": task,
    }
    if isinstance(threshold, str) and threshold != "none":
        raise InputError(f"threshold is {threshold!r}", 'pass a number, None for the model\'s own, or "none"')
    for name, least in (("hold", 1), ("window", 1), ("interval", 1)):
        if not isinstance(options[name], (int, np.integer)) or options[name] < least:
            raise InputError(f"{name} is {options[name]!r}", f"pass a whole number from {least}")
    weights = (float(reward_weight), float(env_reward_weight))
    if isinstance(env, gym.vector.VectorEnv):
        return VectorRewardWrapper(env, model, options, weights, cameras, images)
    if isinstance(env, gym.Env):
        return RewardWrapper(env, model, options, weights, cameras, images)
    raise InputError(
        f"{type(env).__name__} is no environment of Gymnasium", "pass a gymnasium.Env or VectorEnv"
    )


class _Rewarder:
    """What both wrappers share: which images a model is shown, and the rules over its scores."""

    def __init__(self, env, model, options, weights, cameras, images, num_envs: int) -> None:
        self.model, self.options, self.weights = model, options, weights
        self.images, self.num_envs = images, num_envs
        self.wanted = list(dict.fromkeys(key.split("@-")[0] for key in model.image_keys))
        self.cameras = self._mapping(cameras)
        spec = _attribute(env, "simulator_spec") or {}
        self.parts = [(name, *place) for name, place in spec.get("state_parts", {}).items()]
        limit = spec.get("max_episode_steps") or getattr(
            getattr(env, "spec", None), "max_episode_steps", None
        )
        self.longest = limit or LONGEST_EPISODE
        self.shaper: RewardShaper | None = None

    def _mapping(self, cameras) -> dict[str, str] | None:
        if cameras is None or isinstance(cameras, Mapping):
            return None if cameras is None else dict(cameras)
        names = [cameras] if isinstance(cameras, str) else list(cameras)
        if self.wanted and len(names) != len(self.wanted):
            message = (
                f"{len(names)} cameras for a model that takes {len(self.wanted)}: {', '.join(self.wanted)}"
            )
            raise InputError(message, "name a camera of the environment for each of them")
        return dict(zip(self.wanted or names, names))

    def views(self, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The images of each view, under the model's names."""
        there = ", ".join(found) or "none"
        if self.cameras is not None:
            missing = [name for name in self.cameras.values() if name not in found]
            if missing:
                raise InputError(
                    f"the environment shows no camera `{missing[0]}`; it shows {there}", "name another"
                )
            return {key: found[name] for key, name in self.cameras.items()}
        if not found:
            hint = 'let its observations have images, make it with render_mode="rgb_array", or pass images='
            raise InputError("the environment shows no images, and a reward model needs some", hint)
        if not self.wanted:
            return found
        if len(self.wanted) == 1:
            return {self.wanted[0]: found.get(self.wanted[0], next(iter(found.values())))}
        missing = [key for key in self.wanted if key not in found]
        if missing:
            message = f"the model needs camera `{missing[0]}`, and the environment shows {there}"
            raise InputError(message, "say which is which: cameras={model's: environment's}")
        return {key: found[key] for key in self.wanted}

    def begin(self, views: dict[str, np.ndarray], state: np.ndarray) -> None:
        if self.shaper is None:
            width = state.shape[1]
            parts = [part for part in self.parts if part[2] <= width]
            options = self.options | {"state_parts": parts, "state_width": width}
            options |= {"longest_episode": int(self.longest), "cameras": list(views)}
            self.shaper = RewardShaper(self.model, self.num_envs, options)
        self.shaper.begin(views, state)

    def step(self, views, state, reward, terminated, truncated, success, fresh=None) -> dict[str, Any]:
        if self.shaper is None:
            raise InputError("a step before the first observation", "call reset() first")
        fresh = np.zeros(self.num_envs, bool) if fresh is None else fresh
        env_reward = np.ascontiguousarray(reward, dtype=np.float32)
        columns = [
            np.ascontiguousarray(column, dtype=bool) for column in (terminated, truncated, success, fresh)
        ]
        result = self.shaper.step(views, state, env_reward, *columns)
        learned, own = self.weights
        result["total"] = learned * result["reward"] + own * env_reward
        result["terms"] = {**result["terms"], "env": env_reward}
        return result


def _attribute(env, name: str):
    """What an environment says about itself, under its wrappers."""
    return getattr(getattr(env, "unwrapped", env), name, None)


class RewardWrapper(gym.Wrapper):
    """One environment with a learned reward."""

    def __init__(self, env, model, options, weights, cameras, images) -> None:
        super().__init__(env)
        self._rewarder = _Rewarder(env, model, options, weights, cameras, images, 1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        obs, info = self.env.reset(seed=seed, options=options)
        self._rewarder.begin(*self._shown(obs))
        return obs, info

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        views, state = self._shown(obs)
        success = bool(info.get("success", False))
        result = self._rewarder.step(views, state, [reward], [terminated], [truncated], [success])
        info = {**info, "reward_terms": {name: float(values[0]) for name, values in result["terms"].items()}}
        info["env_reward"] = float(reward)
        for name in ("score", "success"):
            if result.get(name) is not None:
                info[f"reward_{name}"] = result[name][0].item()
        return obs, float(result["total"][0]), terminated, truncated, info

    def _shown(self, obs) -> tuple[dict[str, np.ndarray], np.ndarray]:
        found, state = split_observation(obs)
        if self._rewarder.images is not None:
            found = dict(self._rewarder.images(obs))
        elif not found and self.env.render_mode == "rgb_array":
            found = {"render": np.asarray(self.env.render())}
        one = {name: np.ascontiguousarray(image)[None] for name, image in self._rewarder.views(found).items()}
        return one, state[None]


class VectorRewardWrapper(VectorWrapper):
    """Environments with a learned reward. They may reset themselves in the same step or in the next one."""

    def __init__(self, env, model, options, weights, cameras, images) -> None:
        super().__init__(env)
        self._mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode", UNSAID)
        if self._mode == AutoresetMode.DISABLED:
            raise InputError("environments that do not reset themselves", "make them with an autoreset_mode")
        self._rewarder = _Rewarder(env, model, options, weights, cameras, images, env.num_envs)
        self._over = np.zeros(env.num_envs, bool)

    def reset(self, *, seed=None, options: dict[str, Any] | None = None):
        obs, info = self.env.reset(seed=seed, options=options)
        self._over[:] = False
        self._rewarder.begin(*self._shown(obs))
        return obs, info

    def step(self, actions):
        obs, given, *ends, info = self.env.step(actions)
        reward, terminated, truncated = (as_array(column) for column in (given, *ends))
        views, state = self._shown(obs)
        over = (terminated | truncated).astype(bool)
        success = as_array(info.get("success", np.zeros_like(over))).astype(bool)
        fresh = self._over if self._mode == AutoresetMode.NEXT_STEP else np.zeros_like(over)
        if self._mode == AutoresetMode.SAME_STEP and over.any():
            led_to = self._last(views, state, info, over)
            result = self._rewarder.step(*led_to, reward, terminated, truncated, success)
            self._rewarder.shaper.restart(views, state, over)
        else:
            result = self._rewarder.step(views, state, reward, terminated, truncated, success, fresh)
        # Where an episode began instead of a step being taken, there is nothing to reward.
        total = np.where(fresh, 0.0, result["total"]).astype(np.float32)
        self._over = over
        return obs, like(total, given), *ends, self._noted(info, result, reward, ~fresh)

    def _noted(self, info, result, reward, there) -> dict[str, Any]:
        added = {"env_reward": reward}
        added |= {
            f"reward_{name}": result[name] for name in ("score", "success") if result.get(name) is not None
        }
        terms = {name: np.where(there, values, 0.0) for name, values in result["terms"].items()}
        terms |= {f"_{name}": there for name in result["terms"]}
        added["reward_terms"] = terms
        return {**info, **added, **{f"_{name}": there for name in added}}

    def _last(self, views, state, info, over):
        """What the step led to: the last observation of environments that ended, what is seen of the others."""
        final = info.get("final_obs", info.get("final_observation"))
        if final is None:
            hint = "say in metadata['autoreset_mode'] when they reset themselves"
            raise InputError("an episode ended, and info has no final_obs", hint)
        views = {name: images.copy() for name, images in views.items()}
        state = state.copy()
        for row in np.flatnonzero(over):
            found, numbers = split_observation(_row(final, row))
            found = self._own_images(_row(final, row), found)
            for name, image in self._rewarder.views(found).items():
                views[name][row] = image
            state[row] = numbers
        return views, state

    def _own_images(self, obs, found):
        if self._rewarder.images is None:
            if not found:
                hint = "let its observations have images, or make it with AutoresetMode.NEXT_STEP"
                raise InputError("the last image of an episode is not in final_obs", hint)
            return found
        batch = {name: np.asarray(value)[None] for name, value in leaves(obs)}
        return {name: image[0] for name, image in dict(self._rewarder.images(batch)).items()}

    def _shown(self, obs) -> tuple[dict[str, np.ndarray], np.ndarray]:
        found = batched_images(obs)
        if self._rewarder.images is not None:
            found = dict(self._rewarder.images(obs))
        elif not found and self.env.render_mode == "rgb_array":
            found = {"render": np.stack([np.asarray(image) for image in self.env.render()])}
        views = {name: np.ascontiguousarray(images) for name, images in self._rewarder.views(found).items()}
        return views, batched_state(obs, self._rewarder.num_envs)


def _row(final: Any, row: int) -> Any:
    """One environment's last observation: they come as an array of observations, or as arrays in dicts."""
    if isinstance(final, Mapping):
        return {name: _row(values, row) for name, values in final.items()}
    return final[row]

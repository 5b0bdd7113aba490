"""Learned rewards for robot learning: collect episodes, train a reward, audit it, use it.

    import plaudit

    model = plaudit.RewardModel("logs/reward/checkpoints/best_model")
    model.score(image)                                   # how likely it shows success
    env = plaudit.wrap(env, model, mode="per_step")      # the learned reward in a Gymnasium environment

Errors are `plaudit.Error`, with a hint. Gymnasium, PyTorch and numpy are imported when they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plaudit._plaudit import Recording, Recordings, RewardModel, __version__
from plaudit.errors import Error, InputError, MissingPackage, RunError

if TYPE_CHECKING:
    from plaudit.envs import Env, VectorEnv, make, make_vec
    from plaudit.recorder import Recorder
    from plaudit.results import Audit, Result
    from plaudit.runs import Run, audit, collect, evaluate, reward_eval, reward_train, train
    from plaudit.wrapping import RewardWrapper, VectorRewardWrapper

# Modules that import Gymnasium or start processes, and what is in them: `import plaudit` stays quick.
_LAZY = {
    "plaudit.envs": ("Env", "VectorEnv", "make", "make_vec"),
    "plaudit.recorder": ("Recorder",),
    "plaudit.results": ("Audit", "Result"),
    "plaudit.runs": ("Run", "audit", "collect", "evaluate", "reward_eval", "reward_train", "train"),
    "plaudit.wrapping": ("RewardWrapper", "VectorRewardWrapper"),
}

__all__ = [
    "Error",
    "InputError",
    "MissingPackage",
    "Recording",
    "Recordings",
    "RewardModel",
    "RunError",
    "__version__",
    "open",
    "wrap",
    *(name for names in _LAZY.values() for name in names),
]


def open(path, *, format=None, labels=None, success_reward=None, success_last_frames=None) -> Recordings:
    """Recordings of any format that plaudit reads: a folder or a file. Nothing is read until it is asked for.

    `labels` is a table of labels; `success_reward` and `success_last_frames` say what success is where nothing else does.
    """
    return Recordings(
        path,
        format=format,
        labels=labels,
        success_reward=success_reward,
        success_last_frames=success_last_frames,
    )


def wrap(env, model, **options):
    """An environment with a learned reward; see `plaudit.wrapping.wrap` for the options."""
    from plaudit.wrapping import wrap

    return wrap(env, model, **options)


def __getattr__(name: str):
    import importlib

    for module, names in _LAZY.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'plaudit' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)


def _watch() -> None:
    from plaudit._gymnasium import watch

    watch()


_watch()

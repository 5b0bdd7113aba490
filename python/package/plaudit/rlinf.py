"""plaudit's reward models in RLinf: a file for RLinf's reward models, and for whoever imports it from here.

Copy this file to `rlinf/models/embodiment/reward/plaudit_reward_model.py`, and tell RLinf's registry in the `__init__.py` beside it:

    from rlinf.models.embodiment.reward.plaudit_reward_model import PlauditRewardModel

    reward_model_registry["plaudit"] = PlauditRewardModel

Then `reward.model.model_type: plaudit` scores with plaudit; `docs/from-rlinf.md` has the keys. It needs torch, and plaudit in the Python that
RLinf runs in.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np
import torch

import plaudit

# What RLinf's environments show, in the order in which models of several cameras look for theirs.
_MAIN = "main_images"


class PlauditRewardModel(torch.nn.Module):
    """What RLinf's reward worker expects of a model: made from `reward.model`, moved, and asked for the rewards of a batch.

    Keys of `reward.model`: `model_path` (a run, a checkpoint, a judge's folder, or a server's `http://…`), and if wanted `device` (`auto`,
    `cpu`, `cuda:0`), `lora_path`, `reward_threshold` (scores up to it are worth 0), `image_keys` (a mapping from the model's cameras to
    keys of the observations), `readout` and `default_task_description` (judges), `interval_reward` and `history_keys` (windows).
    """

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        super().__init__()
        path = cfg.get("model_path")
        if not path:
            raise ValueError("reward.model.model_path is not set: name a model of plaudit's, or a server (http://…)")
        self.cfg = cfg
        self.scorer = plaudit.RewardModel(str(path), str(cfg.get("device", "auto")), lora=cfg.get("lora_path"))
        self.reward_threshold = cfg.get("reward_threshold")
        self.image_keys = dict(cfg.get("image_keys") or {})
        self.readout = str(cfg.get("readout", "trend"))
        self.task = cfg.get("default_task_description")
        self.interval_reward = float(cfg.get("interval_reward", 0.0))
        self.history_keys = list(cfg.get("history_keys") or [])

    @property
    def model_type(self) -> str:
        """What kind of model it is: `classifier` or `judge`."""
        return self.scorer.kind

    def forward(self, input_data: Any = None, labels: Any = None) -> dict[str, Any]:
        """Models of plaudit's are trained by plaudit."""
        raise NotImplementedError("plaudit trains its reward models itself: plaudit reward train")

    @torch.no_grad()
    def compute_reward(
        self, observations: Mapping[str, Any], task_descriptions: Sequence[str] | None = None
    ) -> torch.Tensor:
        """The reward of each environment, float32 `[B]` on the CPU.

        Observations are RLinf's: `main_images`, `wrist_images`, `extra_view_images`, `task_descriptions`; with `history_input`, windows.
        """
        tasks = task_descriptions if task_descriptions is not None else observations.get("task_descriptions")
        if "history_input" in observations:
            rewards = self._of_windows(observations, tasks)
        else:
            rewards = self._of_frames(observations, tasks)
        scores = torch.from_numpy(np.asarray(rewards, np.float32))
        if self.reward_threshold is None:
            return scores
        return torch.where(scores > float(self.reward_threshold), scores, torch.zeros_like(scores))

    def _of_frames(self, observations: Mapping[str, Any], tasks: Sequence[str] | None) -> np.ndarray:
        views = {model: _images(observations, key) for model, key in self._keys(observations).items()}
        count = len(next(iter(views.values())))
        if self.scorer.kind != "judge":
            return np.asarray(self.scorer.score(views))
        scores = np.zeros(count, np.float32)
        for task, rows in _by_task(tasks, count, self.task).items():
            scores[rows] = self.scorer.score({name: images[rows] for name, images in views.items()}, task=task)
        return scores

    def _keys(self, observations: Mapping[str, Any]) -> dict[str, str]:
        """The key of the observations that each camera of the model is shown."""
        if self.image_keys:
            return self.image_keys
        if not self.scorer.image_keys:
            return {_MAIN: _MAIN}
        if len(self.scorer.image_keys) == 1 and self.scorer.image_keys[0] not in observations:
            return {self.scorer.image_keys[0]: _MAIN}
        return {name: name for name in self.scorer.image_keys}

    def _of_windows(self, observations: Mapping[str, Any], tasks: Sequence[str] | None) -> np.ndarray:
        """A window is rewarded where one is due; elsewhere there is `interval_reward`."""
        history = next(iter((observations.get("history_input") or {}).values()), None)
        if not history:
            return np.full(_batch(observations), self.interval_reward, np.float32)
        keys = self.history_keys or [key for key in history if key.endswith("images")]
        count = len(history[keys[0]])
        rewards = np.full(count, self.interval_reward, np.float32)
        for row in range(count):
            if not len(history[keys[0]][row]):
                continue
            frames = {key: np.stack([_squeezed(_array(frame)) for frame in history[key][row]]) for key in keys}
            if self.scorer.kind == "judge":
                task = tasks[row] if tasks is not None else self.task
                rewards[row] = self.scorer.score_windows(frames, task=task, readout=self.readout)
            else:
                views = {model: frames[key] for model, key in self._keys(frames).items()}
                rewards[row] = self.scorer.score_windows(views)
        return rewards


def _images(observations: Mapping[str, Any], key: str) -> np.ndarray:
    """The images under a key, `[B, …]`; `extra_view_images[1]` is the second of several views."""
    name, _, view = key.partition("[")
    value = observations.get(name)
    if value is None:
        there = ", ".join(name for name, value in observations.items() if value is not None)
        raise ValueError(f"the model needs `{key}`, and the observations have {there}: say which in reward.model.image_keys")
    images = _array(value)
    if images.ndim == 5:
        at = int(view.rstrip("]") or 0)
        if at >= images.shape[1]:
            raise ValueError(f"`{name}` has {images.shape[1]} views, and the model needs `{key}`")
        images = images[:, at]
    return np.ascontiguousarray(images)


def _array(value: Any) -> np.ndarray:
    """An array of a tensor on any device, or of anything like one."""
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def _squeezed(frame: np.ndarray) -> np.ndarray:
    """A frame without the axis of views, of which there is one."""
    return frame[0] if frame.ndim == 4 else frame


def _batch(observations: Mapping[str, Any]) -> int:
    """How many environments there are."""
    for value in observations.values():
        if isinstance(value, (torch.Tensor, np.ndarray, list, tuple)) and len(value):
            return len(value)
    raise ValueError("the observations are empty")


def _by_task(tasks: Sequence[str] | None, count: int, otherwise: str | None) -> dict[str | None, list[int]]:
    """The environments of each task."""
    rows: dict[str | None, list[int]] = {}
    for row in range(count):
        rows.setdefault(tasks[row] if tasks is not None else otherwise, []).append(row)
    return rows

"""Writing recordings from one's own loop."""

from __future__ import annotations

import numbers
from typing import Any, Mapping

from plaudit._plaudit import EpisodeRecorder
from plaudit.observations import flat, split_observation


class Recorder:
    """Writes the episodes of one environment, in any format that plaudit collects in.

        with plaudit.Recorder("episodes", format="lerobot") as recorder:
            obs, info = env.reset()
            recorder.begin(obs)
            ...
            obs, reward, terminated, truncated, info = env.step(action)
            recorder.step(action, obs, reward, terminated, truncated, info)

    Observations are dicts of images (`uint8`, height, width, colour) and numbers, or vectors. An episode is written when it ends,
    by a thread of its own, whole or not at all; one that does not end is not written. `format` is `pickle` (RLinf's),
    `frames`, `npy`, `store`, `lerobot` or `replay_buffer`. What is in the folder already stays, if it is of the same format.
    """

    def __init__(self, path, format: str = "pickle", *, fps: float = 10.0, robot_type: str = "panda") -> None:
        self._recorder = EpisodeRecorder(path, format, float(fps), robot_type)

    def begin(self, obs: Any, *, task: str | None = None) -> None:
        """An episode begins with what a reset gave. One that had not ended is dropped."""
        images, state = split_observation(obs)
        self._recorder.begin(images, state, task)

    def step(
        self,
        action: Any,
        obs: Any,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: Mapping[str, Any] | None = None,
        *,
        success: bool | None = None,
    ) -> bool:
        """One step and what it led to. Says whether the episode ended; it is then on its way to the disk.

        Success is what `success` says, or `info["success"]`. Other numbers of `info` are kept as facts.
        """
        info = {} if info is None else info
        if success is None and "success" in info:
            success = bool(info["success"])
        facts = [
            (name, float(value)) for name, value in info.items() if name != "success" and _is_number(value)
        ]
        images, state = split_observation(obs)
        return self._recorder.step(
            flat(action), images, state, float(reward), bool(terminated), bool(truncated), success, facts
        )

    @property
    def successes(self) -> int:
        """Episodes that were handed on to be written, and were successes."""
        return self._recorder.counts[0]

    @property
    def failures(self) -> int:
        """Episodes that were handed on to be written, and were none."""
        return self._recorder.counts[1]

    def close(self) -> None:
        """Waits until everything is on disk."""
        self._recorder.close()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _is_number(value: Any) -> bool:
    if isinstance(value, (numbers.Real, bool)):
        return True
    return (
        getattr(value, "shape", None) == () and getattr(getattr(value, "dtype", None), "kind", "") in "biuf"
    )

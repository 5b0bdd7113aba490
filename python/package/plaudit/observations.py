"""Observations of environments as images and numbers."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from plaudit.errors import InputError


def as_array(value: Any) -> np.ndarray:
    """Numbers of any library; what lies on a GPU is copied from there."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def like(values: np.ndarray, other: Any) -> Any:
    """Values as another is: simulators on a GPU speak in tensors, and so do who learns from them."""
    if not hasattr(other, "new_tensor"):
        return values
    # A reward that is counted or true is still one of fractions when it is learned.
    return (other if other.is_floating_point() else other.float()).new_tensor(values)


def is_image(value: np.ndarray, axes: int = 3) -> bool:
    """Whether an array is images: bytes of height, width and colour."""
    return value.dtype == np.uint8 and value.ndim == axes and value.shape[-1] in (1, 3, 4)


def flat(numbers: Any) -> np.ndarray:
    """Numbers as a vector of float32."""
    return np.ascontiguousarray(np.asarray(numbers, dtype=np.float32).reshape(-1))


def leaves(obs: Any, name: str = "") -> list[tuple[str, np.ndarray]]:
    """The arrays of an observation, by name: those of dicts in dicts have dots in theirs."""
    if isinstance(obs, Mapping):
        inner = ((f"{name}.{key}" if name else str(key), value) for key, value in obs.items())
        return [leaf for key, value in inner for leaf in leaves(value, key)]
    if isinstance(obs, (tuple, list)) and any(isinstance(value, (Mapping, np.ndarray)) for value in obs):
        return [leaf for at, value in enumerate(obs) for leaf in leaves(value, f"{name}[{at}]")]
    return [(name or "observation", as_array(obs))]


def split_observation(obs: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The images of an observation by name, and all its other numbers as one vector."""
    images, state = {}, []
    for name, value in leaves(obs):
        if is_image(value):
            images[name] = value
        elif value.dtype.kind in "biuf":
            state.append(np.asarray(value, dtype=np.float32).reshape(-1))
        else:
            raise InputError(
                f"`{name}` of the observation is {value.dtype}; expected images of uint8, or numbers",
                "pass a dict of images and numbers",
            )
    return images, np.ascontiguousarray(np.concatenate(state)) if state else np.zeros(0, np.float32)


def batched_state(obs: Any, count: int) -> np.ndarray:
    """All numbers of a batch of observations that are no images, a row of each."""
    rows = [
        np.asarray(value, dtype=np.float32).reshape(count, -1)
        for _, value in leaves(obs)
        if not is_image(value, axes=4) and value.dtype.kind in "biuf"
    ]
    return np.ascontiguousarray(np.concatenate(rows, axis=1)) if rows else np.zeros((count, 0), np.float32)


def batched_images(obs: Any) -> dict[str, np.ndarray]:
    """The images of a batch of observations, by name."""
    return {name: value for name, value in leaves(obs) if is_image(value, axes=4)}

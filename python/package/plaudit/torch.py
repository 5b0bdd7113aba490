"""Datasets for `torch.utils.data.DataLoader`: labelled frames and labelled windows, read where they lie."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from plaudit._plaudit import LabelledFrames, LabelledWindows
from plaudit.errors import needs

try:
    import torch
    from torch.utils.data import Dataset
except ImportError as error:
    raise needs("torch", "torch") from error


class FrameDataset(Dataset):
    """Labelled frames of episodes in any format: an image (or a dict of one for each camera), and its label.

    Images are tensors of `uint8`, colour first, unless `transform` makes something else of the array of height, width and colour.
    With `split` it is the part that plaudit trains or validates on: episodes are on one side. Workers of a `DataLoader` open the
    files themselves.
    """

    def __init__(
        self,
        path,
        *,
        cameras: Sequence[str] = ("main_images",),
        split: str | None = None,
        val_split: float = 0.2,
        samples_per_episode: int = 0,
        fail_success_ratio: float | None = None,
        seed: int = 42,
        transform: Callable[[np.ndarray], Any] | None = None,
        format: str | None = None,
        labels=None,
        success_reward: float | None = None,
        success_last_frames: int | None = None,
    ) -> None:
        self._arguments = (
            path, list(cameras), split, val_split, samples_per_episode, fail_success_ratio, seed,
            format, labels, success_reward, success_last_frames,
        )  # fmt: skip
        self.transform = transform
        self._open()

    def _open(self) -> None:
        self._frames = LabelledFrames(*self._arguments)
        self.cameras = [name for name, _ in self._frames.cameras]

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments, "transform": self.transform}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._arguments, self.transform = state["arguments"], state["transform"]
        self._open()

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, number: int):
        images = [self._image(image) for image in self._frames.images(_index(number, len(self)))]
        label = self._frames.label(_index(number, len(self)))
        return (images[0] if len(images) == 1 else dict(zip(self.cameras, images))), float(label)

    def _image(self, image: np.ndarray):
        if self.transform is not None:
            return self.transform(image)
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))

    @property
    def targets(self) -> np.ndarray:
        """All labels, for samplers that balance them."""
        return self._frames.labels

    def origin(self, number: int) -> tuple[str, int]:
        """The episode of a frame, and which entry of it the frame is."""
        return self._frames.origin(_index(number, len(self)))


class WindowDataset(Dataset):
    """Labelled windows (`plaudit dataset windows`): a dict of `videos`, `[T, 3, H, W]` for each camera, `prompt` and `answer`."""

    def __init__(self, path, *, main_view: bool = False, data_root=None) -> None:
        paths = list(path) if isinstance(path, (list, tuple)) else [path]
        self._arguments = (paths, main_view, data_root)
        self._windows = LabelledWindows(*self._arguments)

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._arguments = state["arguments"]
        self._windows = LabelledWindows(*self._arguments)

    def __len__(self) -> int:
        return len(self._windows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        number = _index(number, len(self))
        prompt, answer = self._windows.row(number)
        videos = [
            torch.from_numpy(video).permute(0, 3, 1, 2).contiguous() for video in self._windows.images(number)
        ]
        return {"videos": videos, "prompt": prompt, "answer": answer}


def _index(number: int, count: int) -> int:
    """A number from the beginning; those from the end are negative."""
    own = number + count if number < 0 else number
    if not 0 <= own < count:
        raise IndexError(f"there is no entry {number}: there are {count}")
    return own

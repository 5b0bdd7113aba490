"""The windows that both scripts show, as transformers takes them. The programs of plaudit make the same ones."""

import numpy as np
import torch

SIZE = 128
TASK = "Pick up the red cube and place it on the green spot on the table."
QUESTION = (
    f"You are currently performing the task: {TASK}. You are given two synchronized 5-frame videos from different camera "
    "views (main view and third-person view) of the same robot action window. Judge whether the action trend is "
    "positive, negative, or unclear. Answer with exactly one word: positive, negative, or unclear."
)


def frame(number):
    i = np.arange(SIZE * SIZE * 3)
    return ((i * 31 + number * 977 + (i * number) % 251) % 256).astype(np.uint8).reshape(SIZE, SIZE, 3)


def batch(processor, windows):
    """So many windows of two views, four frames each, with the question after them."""
    videos = [
        torch.from_numpy(np.stack([frame(view + 8 * window + t) for t in range(4)])).permute(0, 3, 1, 2)
        for window in range(windows) for view in (0, 100_000)
    ]
    text = f"<|im_start|>user\n<|video_pad|>\n<|video_pad|>\n\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
    metadata = [{"total_num_frames": 4, "fps": 24.0, "frames_indices": [0, 1, 2, 3]}] * len(videos)
    inputs = processor(text=[text] * windows, videos=videos, video_metadata=metadata, do_sample_frames=False,
                       return_tensors="pt")
    return {k: v for k, v in inputs.items() if isinstance(v, torch.Tensor)}

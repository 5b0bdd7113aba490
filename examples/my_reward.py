"""A reward model of one's own, in Python."""

import numpy as np


def score(images):
    """How red each image is: uint8 [N, height, width, 3] in, N numbers from 0 to 1 out."""
    images = images.astype(np.float32)
    red = images[..., 0] - images[..., 1:].max(-1)
    return np.clip(red.clip(0).mean((1, 2)) / 8, 0, 1)

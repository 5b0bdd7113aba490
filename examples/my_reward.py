"""A reward model of one's own, in Python."""

import numpy as np


def score(images):
    """How much of each image is red: uint8 [N, height, width, 3] in, N numbers from 0 to 1 out."""
    images = images.astype(np.float32)
    red = images[..., 0] - images[..., 1:].max(-1)
    return (red > 64).mean((1, 2))

"""An image as JPEG, and what Pillow decodes from it.

    pip install pillow numpy
    python make_fixtures.py
"""

from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
rows, columns = np.mgrid[0:24, 0:32]
image = np.stack([rows * 10, columns * 8, (rows + columns) * 4], axis=-1).astype(np.uint8)
Image.fromarray(image).save(HERE / "ramp.jpg", quality=92)
np.asarray(Image.open(HERE / "ramp.jpg").convert("RGB")).tofile(HERE / "ramp.rgb")

"""Writes expected_v3.json: the dataset v3_image, made by lerobot 0.4.4, as the lerobot package reads it."""

import json
from pathlib import Path

from frames import frames

here = Path(__file__).parent
json.dump(frames(here / "v3_image")[1], open(here / "expected_v3.json", "w"), indent=0)

"""Frames per second beside lerobot's loader, turn by turn in one run, as a ratio with its spread.

    cargo build --release -p plaudit-data --example video_frames
    python compare.py VIDEO_FRAMES_BINARY DATASET [TURNS] [SECONDS]
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

binary, dataset = sys.argv[1], sys.argv[2]
turns = int(sys.argv[3]) if len(sys.argv) > 3 else 3
seconds = sys.argv[4] if len(sys.argv) > 4 else "6"
lerobot = [sys.executable, str(Path(__file__).with_name("lerobot_frames.py"))]


def rate(command):
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(out.strip().splitlines()[-1])["frames_per_second"]


for mode in ["row", "random"]:
    pairs = [(rate([binary, dataset, mode, seconds, "8"]), rate([*lerobot, dataset, mode, seconds, "8", "pyav"])) for _ in range(turns)]
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    print(f"{mode}: {pairs} ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")

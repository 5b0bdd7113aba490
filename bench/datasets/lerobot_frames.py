"""Frames per second of lerobot's own loader on the same dataset: in a row, and in random windows.

    python lerobot_frames.py DATASET MODE SECONDS [WINDOW] [BACKEND]

A window is `delta_timestamps` of WINDOW frames of both cameras, 64 windows a batch, two workers (one per core).
"""

import json
import sys
import time

import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset

CAMERAS = ["observation.images.front", "observation.images.wrist"]
path, mode, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
window = int(sys.argv[4]) if len(sys.argv) > 4 else 8
backend = sys.argv[5] if len(sys.argv) > 5 else "pyav"
began = time.time()
deltas = {name: [at / 30 for at in range(window)] for name in CAMERAS}
dataset = LeRobotDataset("plaudit/bench", root=path, video_backend=backend, delta_timestamps=deltas)
opened = time.time() - began
starts = torch.arange(0, len(dataset) - window, window)
order = starts if mode == "row" else starts[torch.randperm(len(starts), generator=torch.Generator().manual_seed(0))]
loader = torch.utils.data.DataLoader(dataset, batch_size=64, sampler=order.tolist(), num_workers=2)
batches = iter(loader)
next(batches)  # workers start
frames, began = 0, time.time()
while time.time() - began < seconds:
    frames += sum(next(batches)[name].shape[0] * window for name in CAMERAS)
rate = frames / (time.time() - began)
print(json.dumps({"mode": mode, "backend": backend, "opened_secs": round(opened, 3), "frames_per_second": round(rate, 1)}))

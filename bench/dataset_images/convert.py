"""The same work in Python, to compare with: python convert.py RAW OUT

pickle.load of every episode, labels and sampling, episode split, balancing with Python's generator, torch.save of both
parts; it prints its seconds. Nothing is checked, compared for leakage or flushed to disk.
"""

import glob
import json
import os
import pickle
import random
import sys
import time

import torch

raw, out = sys.argv[1], sys.argv[2]
began = time.perf_counter()
episodes = []
for path in sorted(glob.glob(os.path.join(raw, "*.pkl"))):
    with open(path, "rb") as file:
        episode = pickle.load(file)
    pairs = []
    for seen, info in zip(episode["observations"], episode["infos"]):
        success = info["success"] if "success" in info else info.get("episode", {}).get("success_once", False)
        pairs.append((seen["main_images"], int(bool(success))))
    episodes.append(pairs)
read = time.perf_counter()

generator = random.Random(42)
generator.shuffle(episodes)
cut = max(1, int(len(episodes) * 0.2))


def even_out(part):
    good = [pair for pairs in part for pair in pairs if pair[1]]
    poor = [pair for pairs in part for pair in pairs if not pair[1]]
    generator.shuffle(poor)
    mixed = good + poor[: int(len(good) * 2.0)]
    generator.shuffle(mixed)
    return mixed


parts = {"train": even_out(episodes[cut:]), "val": even_out(episodes[:cut])}
os.makedirs(out, exist_ok=True)
metadata = {"raw_data_path": raw, "num_train_samples": len(parts["train"]), "num_val_samples": len(parts["val"])}
for name, pairs in parts.items():
    payload = {"images": [image for image, _ in pairs], "labels": [label for _, label in pairs], "metadata": metadata}
    torch.save(payload, os.path.join(out, f"{name}.pt"))
done = time.perf_counter()
print(json.dumps({"seconds": round(done - began, 2), "reading": round(read - began, 2), "writing": round(done - read, 2), **metadata}))

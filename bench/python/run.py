"""plaudit from Python beside PyTorch in the same process, and what a call costs.

    python bench/python/run.py [--checkpoint MODEL]    needs plaudit, gymnasium; torch and torchvision for the comparison

ResNet-18 at 128 px: a network of random weights in PyTorch, one of the same size in plaudit. Without --checkpoint a model is
trained for a few steps first. Each number is the median of the repeats.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import plaudit

BATCHES = (1, 8, 64)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def median_ms(work, repeats: int) -> float:
    """Milliseconds of a call, the median of many."""
    for _ in range(max(3, repeats // 10)):
        work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times)


def trained(folder: Path) -> Path:
    """A ResNet-18 that has learned for a few steps: its speed is that of any."""
    small = {"env.eval.total_num_envs": 4, "env.eval.data_collection.save_dir": folder / "episodes"}
    noise = {"actor.model.noise": 0.15, "runner.logger.log_path": folder / "collect"}
    plaudit.collect("pickcube_scripted", episodes=8, quiet=True, **small, **noise)
    length = {"runner.max_steps": 2, "runner.val_check_interval": 2, "runner.save_interval": 2}
    where = {"data.data_path": folder / "episodes", "runner.logger.log_path": folder / "reward"}
    plaudit.reward_train(quiet=True, **length, **where, **{"runner.second_model": False})
    return folder / "reward"


def pytorch():
    """A function from bytes to logits, as one would write it."""
    import torch
    import torchvision

    network = torchvision.models.resnet18(num_classes=1).eval()
    mean, std = (torch.tensor(of).view(1, 3, 1, 1) for of in (MEAN, STD))

    @torch.inference_mode()
    def score(images):
        batch = torch.from_numpy(images).permute(0, 3, 1, 2).float().div(255).sub(mean).div(std)
        return torch.sigmoid(network(batch)).numpy()

    return score


def environments(rng) -> dict[str, float]:
    """64 environments: steps per second, and which share of that time is Python's.

    What Python costs is what a step of 64 CartPoles takes, whose own arithmetic takes a few microseconds: an upper bound.
    """
    steps = {}
    for name, shape in (("CartPole-v1", (64,)), ("PickCube-v1", (64, 8))):
        env = plaudit.make_vec(name, 64)
        env.reset(seed=0)
        actions = rng.integers(0, 2, shape) if len(shape) == 1 else rng.uniform(-1, 1, shape)
        actions = actions.astype(np.float32)
        steps[name] = median_ms(lambda: env.step(actions), 300)
    python, pick_cube = steps["CartPole-v1"], steps["PickCube-v1"]
    return {
        "pickcube_steps_per_second": 64e3 / pick_cube,
        "python_us_at_most": 1e3 * python,
        "of_the_rust_rate_at_least": (pick_cube - python) / pick_cube,
    }


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = plaudit.RewardModel(arguments.checkpoint or trained(Path(folder)), device="cpu")
    try:
        peer = pytorch()
    except ImportError:
        peer = None
    rng = np.random.default_rng(0)
    found = {"scores_ms": {}}
    for batch in BATCHES:
        images = rng.integers(0, 256, (batch, 128, 128, 3), dtype=np.uint8)
        repeats = max(5, 60 // batch)
        row = {"plaudit": median_ms(lambda: model.score(images), repeats)}
        if peer is not None:
            row["torch"] = median_ms(lambda: peer(images), repeats)
            row["torch_over_plaudit"] = row["torch"] / row["plaudit"]
        found["scores_ms"][batch] = row
    nothing = np.zeros((0, 128, 128, 3), np.uint8)
    found["call_us"] = 1e3 * median_ms(lambda: model.score(nothing), 5000)
    found["envs"] = environments(rng)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()

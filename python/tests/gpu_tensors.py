"""Scores of tensors that lie on the model's GPU, beside those of the same numbers in the CPU's memory: needs torch and a GPU.

    python3 python/tests/gpu_tensors.py [MODEL]       # the folder of a trained classifier, or one with random weights is made

Fails where scores differ, or where images come by way of the host: torch counts copies to the CPU, and none may happen. Then times both ways.
"""

import argparse
import gc
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import plaudit


def trained(folder):
    """A small training on made frames."""
    import torch

    rng = np.random.default_rng(0)
    images = rng.integers(0, 200, (64, 128, 128, 3), dtype=np.uint8)
    labels = [i % 2 for i in range(64)]
    for image, label in zip(images, labels):
        image[40:80, 40:80] = 255 if label else 0
    frames = [torch.from_numpy(image) for image in images]
    for name, part in (("train", slice(0, 48)), ("val", slice(48, 64))):
        torch.save({"images": frames[part], "labels": labels[part]}, folder / f"{name}.pt")
    words = [f"data.train_data_paths={folder}/train.pt", f"data.val_data_paths={folder}/val.pt", "runner.max_steps=20", "runner.second_model=false",
             f"runner.logger.log_path={folder}/run", "actor.model.device=cuda", "actor.model.precision=bf16"]
    subprocess.run([sys.executable, "-m", "plaudit", "reward", "train", "reward_training", *words], check=True, capture_output=True)
    return folder / "run/checkpoints/best_model"


def milliseconds(call, calls=50):
    for _ in range(5):
        call()
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[len(times) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=pathlib.Path)
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("skipped: no torch")
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return
    with tempfile.TemporaryDirectory() as scratch:
        path = options.model or trained(pathlib.Path(scratch))
        model = plaudit.RewardModel(path, device="cuda")
        check(model, torch)
        measure(model, torch)


class Copies:
    """Counts copies of tensors to the CPU's memory while it is open."""

    def __init__(self, torch):
        self.torch, self.count = torch, 0

    def __enter__(self):
        self.before = self.torch.Tensor.cpu

        def cpu(tensor, *args, **words):
            self.count += 1
            return self.before(tensor, *args, **words)

        self.torch.Tensor.cpu = cpu
        return self

    def __exit__(self, *_):
        self.torch.Tensor.cpu = self.before


def check(model, torch):
    side = model.card["settings"]["image_size"][1]
    rng = np.random.default_rng(1)
    for count in (1, 3, 64, 300):
        images = rng.integers(0, 256, (count, side, side, 3), dtype=np.uint8)
        expected = model.logits(images)
        there = torch.from_numpy(images).cuda()
        wide = torch.zeros((count, side + 6, side + 10, 4), dtype=torch.uint8, device="cuda")
        wide[:, 2 : 2 + side, 5 : 5 + side, :3] = there
        ways = {
            "rows, columns, colours": there,
            "colours first": there.permute(0, 3, 1, 2).contiguous(),
            "colours first, without a copy": there.permute(0, 3, 1, 2),
            "cut from larger images": wide[:, 2 : 2 + side, 5 : 5 + side, :3],
            "every other image": torch.stack([there, there], 1)[:, 0],
        }
        for name, tensor in ways.items():
            with Copies(torch) as copies:
                found = model.logits(tensor)
            assert copies.count == 0, f"{count} images, {name}: copied to the CPU"
            assert np.array_equal(found, expected), f"{count} images, {name}: off by {np.abs(found - expected).max()}"
        # What another stream has yet to write is waited for.
        stream, later = torch.cuda.Stream(), torch.zeros_like(there)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
            later.copy_(there)
            assert np.array_equal(model.logits(later), expected), "read before it was written"
        floats = there.float() / 255
        with Copies(torch) as copies:
            off = np.abs(model.logits(floats) - model.logits(images.astype(np.float32) / 255)).max()
        assert copies.count == 1 and off == 0, "floats go by way of the CPU"
    one = torch.from_numpy(images[0]).cuda()
    assert isinstance(model.score(one), float) and model.score(one) == model.score(images[0])
    assert model.score(there[:0]).shape == (0,)
    large = torch.zeros((2, side * 2, side * 2, 3), dtype=torch.uint8, device="cuda")
    assert model.score(large).shape == (2,), "other sizes go by way of the CPU"
    del ways, tensor, wide, later, floats, large
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(100):
        model.score(torch.zeros_like(there))
    gc.collect()
    assert torch.cuda.memory_allocated() == before, "tensors are not given back"
    print("scores are the same bits, nothing was copied to the CPU, everything was given back", flush=True)


def measure(model, torch):
    side = model.card["settings"]["image_size"][1]
    rows = []
    for count in (1, 8, 64, 256):
        images = np.random.default_rng(2).integers(0, 256, (count, side, side, 3), dtype=np.uint8)
        there = torch.from_numpy(images).cuda()
        times = {
            "on the GPU": milliseconds(lambda: model.score(there)),
            "copied by .cpu() first": milliseconds(lambda: model.score(there.cpu())),
            "numpy": milliseconds(lambda: model.score(images)),
        }
        rows.append({"images": count, **times})
        print(f"  {count} images: " + ", ".join(f"{name} {took:.3f} ms" for name, took in times.items()), flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()

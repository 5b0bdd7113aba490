"""Reading 10,000 images of 128x128x3 from a `.pt`: plaudit against torch, side by side in one run.

    cargo build --release -p plaudit-data --example load_images
    python bench/python_files/bench.py [FOLDER]      # needs torch; writes about 1 GB into FOLDER

Each round reads the same file once with every reader, so that a busy moment of the machine strikes all of them. The
page cache is warm. A reader's time ends when every byte is in memory: `torch.load` copies while it loads; the others
map the file, and their bytes are touched.
"""

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

COUNT, SIDE, ROUNDS = 10_000, 128, 7
BINARY = pathlib.Path(__file__).parents[2] / "target/release/examples/load_images"
READERS = {
    "torch.load": dict(weights_only=False),
    "torch.load weights_only": dict(weights_only=True),
    "torch.load mmap": dict(weights_only=False, mmap=True),
}


def make(folder):
    images = torch.randint(0, 256, (COUNT, SIDE, SIDE, 3), dtype=torch.uint8)
    rest = {"labels": [i % 2 for i in range(COUNT)], "metadata": {"random_seed": 42}}
    torch.save({"images": [image.clone() for image in images], **rest}, folder / "own.pt")
    torch.save({"images": list(images), **rest}, folder / "shared.pt")
    return {"own storages": folder / "own.pt", "one shared storage": folder / "shared.pt"}, int(images.sum(dtype=torch.int64))


def with_torch(path, options):
    start = time.perf_counter()
    data = torch.load(path, **options)
    if options.get("mmap"):
        # One byte of each page: less work than plaudit does, but each call of torch has its price.
        assert sum(int(image.view(-1)[::4096].sum()) for image in data["images"]) > 0
    assert len(data["images"]) == COUNT
    return time.perf_counter() - start


def with_plaudit(path, total):
    out = subprocess.run([BINARY, path], capture_output=True, text=True, check=True).stdout.split()
    assert (int(out[2]), int(out[3])) == (COUNT, total), out
    return float(out[1])


def spread(numbers):
    return f"{statistics.median(numbers):6.2f} ({min(numbers):.2f}-{max(numbers):.2f})"


def main(folder):
    torch.manual_seed(0)
    files, total = make(folder)
    for kind, path in files.items():
        times = {name: [] for name in [*READERS, "plaudit"]}
        for round in range(ROUNDS + 1):
            seconds = {name: with_torch(path, options) for name, options in READERS.items()}
            seconds["plaudit"] = with_plaudit(path, total)
            if round > 0:  # the first warms the cache
                for name, taken in seconds.items():
                    times[name].append(taken)
        print(f"{kind}, {path.stat().st_size / 1e6:.0f} MB, {ROUNDS} rounds: median (least-most)")
        for name, taken in times.items():
            ratio = "" if name == "plaudit" else f"  {spread([a / b for a, b in zip(taken, times['plaudit'])])} times plaudit's"
            print(f"  {name:24} {spread(taken)} s{ratio}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(pathlib.Path(folder))

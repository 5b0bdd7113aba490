"""Loads in Python what `cargo run -p plaudit-data --example rewrite` wrote, and compares leaf by leaf.

    python check_written.py OUT_DIR     # needs numpy and torch

Pickles go through `pickle.load`, `.npy` and `.npz` through `np.load`, `.pt` through `torch.load`: in full, with
`weights_only=True` where there is no numpy array inside, and with `mmap=True`.
"""

import json
import pathlib
import pickle
import sys
import warnings
import zipfile

import numpy as np
import torch
from make_fixtures import OrderedDict, leaves

warnings.filterwarnings("error")
NOT_WEIGHTS = ("array", "objects", "scalar", "dtype", "complex", "device")


def found(value):
    out = []
    leaves("", value, out)
    return out


def compare(path, value, want):
    got = found(value)
    assert got == want, next((path, g, w) for g, w in zip(got + [None], want + [None]) if g != w)


def item(array):
    """What was written as an object; a plain array comes as itself."""
    return array.item() if array.dtype == object and array.shape == () else array


def check_pt(path, want):
    assert zipfile.ZipFile(path).testzip() is None
    compare(path, torch.load(path, weights_only=False), want)
    compare(path, torch.load(path, weights_only=False, mmap=True), want)
    if not any(leaf.split()[0] in NOT_WEIGHTS for _, leaf in want):
        compare(path, torch.load(path, weights_only=True), want)
        compare(path, torch.load(path, weights_only=True, mmap=True), want)
        return 1
    return 0


def main(folder):
    counts = dict(pkl=0, npy=0, npz=0, pt=0, weights_only=0)
    for record in sorted(folder.glob("*.json")):
        want = json.loads(record.read_text())
        for path in sorted(folder.glob(f"{record.stem}.*")):
            kind = path.suffix[1:]
            if kind == "pkl":
                compare(path, pickle.loads(path.read_bytes()), want)
            elif kind == "pt":
                counts["weights_only"] += check_pt(path, want)
            elif kind in ("npy", "npz"):
                # A tensor, or a scalar, comes back as a plain array; a 0-d object array as its object.
                top = want[0][1]
                if top.startswith(("tensor", "scalar")) or top == "objects []":
                    continue
                array = np.load(path, allow_pickle=True)
                array = array["value"] if kind == "npz" else array
                compare(path, item(array), want)
            else:
                continue
            counts[kind] += 1
    print(counts)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

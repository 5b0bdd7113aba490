"""Says whether two folders hold the same train.pt and val.pt, as torch loads them: python check.py ONE OTHER"""

import os
import sys

import torch

one, other = sys.argv[1], sys.argv[2]
for name in ("train.pt", "val.pt"):
    a, b = (torch.load(os.path.join(folder, name), weights_only=True) for folder in (one, other))
    same = a["labels"] == b["labels"] and len(a["images"]) == len(b["images"])
    same = same and all(torch.equal(x, y) and x.dtype == y.dtype for x, y in zip(a["images"], b["images"]))
    print(name, "equal" if same else "DIFFERENT", len(a["labels"]))

"""Small seeds, one idea each: a fuzzer gets further from many small inputs than from a few large ones.

    python make_seeds.py        # needs numpy and torch; writes seeds/
"""

import collections
import io
import pathlib
import pickle
import zipfile

import numpy as np
import torch

SEEDS = pathlib.Path(__file__).parent / "seeds"

PLAIN = {
    "dict": {"a": 1, 2: [None, True, -1, 2**70, 1.5, "é", b"x", (1, 2)]},
    "sets": [{1, 2}, frozenset("a"), bytearray(b"m"), 1j],
    "ordered": collections.OrderedDict(a=collections.OrderedDict()),
    "default": collections.defaultdict(list, a=[1]),
    "shared": [[1]] * 3,
}
NUMPY = {
    "array": np.arange(6, dtype="f4").reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)),
    "scalar": np.bool_(True),
    "time": np.array(["2026-01-01"], dtype="M8[D]"),
    "text": np.array(["ab", "c"]),
    "objects": np.array([{"a": 1}, None], dtype=object),
    "dtype": np.dtype("<f4"),
}
base = torch.arange(12, dtype=torch.int16)
TORCH = {
    "tensor": torch.arange(3, dtype=torch.uint8),
    "strided": base.reshape(3, 4).t(),
    "views": [base[:2], base[3:]],
    "scalar": torch.tensor(True),
    "bf16": torch.ones(2, dtype=torch.bfloat16),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "things": [torch.Size([1, 2]), torch.device("cuda", 1), torch.float32],
}


def put(target, name, data):
    folder = SEEDS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def saved(value, zipped):
    out = io.BytesIO()
    torch.save(value, out, _use_new_zipfile_serialization=zipped)
    return out.getvalue()


def main():
    for name, value in {**PLAIN, **{f"numpy_{k}": v for k, v in NUMPY.items()}}.items():
        for protocol in (0, 2, 4, 5):
            put("pickle", f"{name}_{protocol}", pickle.dumps(value, protocol))
    for name, value in TORCH.items():
        put("pickle", f"torch_{name}", pickle.dumps(value, 4))
        put("legacy", name, saved(value, False))
        archive = saved(value, True)
        put("pt", f"{name}.pt", archive)
        put("pt", f"{name}.pkl", zipfile.ZipFile(io.BytesIO(archive)).read("archive/data.pkl"))
    for name, value in PLAIN.items():
        put("legacy", name, saved(value, False))


if __name__ == "__main__":
    main()

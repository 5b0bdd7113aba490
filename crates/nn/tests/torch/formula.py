"""Numbers that Python and Rust make alike, so that fixtures need not store weights and images.

The i-th number of a tensor is the SplitMix64 finaliser of (FNV-1a of its name + i * 0x9e3779b97f4a7c15): its upper 24
bits, as a fraction in [-1, 1). `weight` turns that into a plausible parameter by the tensor's name and shape.
`tests/torch/formula.rs` is the same in Rust.
"""

import numpy as np


def fnv1a(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def bits(name, count):
    with np.errstate(over="ignore"):
        x = np.uint64(fnv1a(name)) + np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def fractions(name, count):
    return (bits(name, count) >> np.uint64(40)).astype(np.float64) / (1 << 23) - 1.0


def bytes_(name, count):
    return (bits(name, count) >> np.uint64(56)).astype(np.uint8)


def weight(name, shape):
    count = int(np.prod(shape)) if len(shape) else 1
    if name.endswith("num_batches_tracked"):
        return np.zeros(shape, dtype=np.int64)
    u = fractions(name, count)
    if name.endswith("running_var"):
        x = 1.0 + 0.3 * u
    elif name.endswith("running_mean"):
        x = 0.1 * u
    elif name.endswith("pooling_layer.kernel"):
        x = u
    elif len(shape) == 4:
        x = u * np.sqrt(6.0 / (shape[0] * shape[2] * shape[3]))
    elif len(shape) == 2:
        x = u * np.sqrt(3.0 / shape[1])
    elif name.endswith(("bn2.weight", "bn3.weight")):
        x = 0.3 + 0.1 * u  # the ends of residual branches: sums over many blocks stay moderate
    elif name.endswith("weight"):
        x = 1.0 + 0.2 * u
    else:
        x = 0.1 * u
    return x.astype(np.float32).reshape(shape)

"""Writes python_floats.txt: what Python's own `json` prints of floats, each after its bits. Run it with any CPython 3."""

import json
import math
import pathlib
import random
import struct

BY_HAND = [0.0, -0.0, 1.0, -1.0, 0.1, 0.5, 1 / 3, 2 / 3, 100.0, 1e15, 1e16, 1e17, 1e22, 1e23, 1e-3, 1e-4, 1e-5, 1.5e-7, 9.999e-5]
BY_HAND += [0.05, 0.15, 0.05000000074505806, 123456789012345680.0, 9007199254740993.0, 9999999999999998.0, 1e300, 5e-324]
BY_HAND += [1.7976931348623157e308, 2.2250738585072014e-308, math.nan, math.inf, -math.inf]


def cases():
    yield from BY_HAND
    rng = random.Random(7)
    for exponent in range(-30, 30):
        yield rng.uniform(1, 10) * 10.0**exponent
        yield 10.0**exponent
    for _ in range(200):
        yield struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]
        yield struct.unpack("<f", struct.pack("<f", rng.gauss(0, 1)))[0]


def bits(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


lines = [f"{bits(value):016x} {json.dumps(value, ensure_ascii=False)}\n" for value in cases()]
pathlib.Path(__file__).with_name("python_floats.txt").write_text("".join(lines))

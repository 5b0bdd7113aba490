"""Writes python_random.json: what Python's own `random` gives. Run it with any CPython 3."""

import json
import pathlib
import random
import struct
import zlib

SEEDS = [0, 1, -1, 42, -42, 1234, 2**31, 2**32 - 1, 2**32, 2**40 + 7, 2**62 + 5, -(2**63), 2**64, 2**100 + 3, -(3**200), 7**900]


def words(seed):
    seed = abs(seed)
    return [(seed >> shift) & 0xFFFFFFFF for shift in range(0, max(seed.bit_length(), 1), 32)]


def draws(seed):
    rng = random.Random(seed)
    bits32 = [rng.getrandbits(32) for _ in range(3)]
    bits = [[k, rng.getrandbits(k)] for k in (1, 5, 31, 32, 33, 40, 63, 64, 3)]
    floats = [struct.unpack("<Q", struct.pack("<d", rng.random()))[0] for _ in range(4)]
    below = [[n, rng.randrange(n)] for n in (1, 2, 3, 10, 1000, 2**31, 2**32, 2**32 + 1, 10**12)]
    name = str(seed) if abs(seed) < 2**70 else f"{seed.bit_length()} bits"
    small = seed if -(2**63) <= seed < 2**63 else None
    return {"name": name, "seed": small, "words": words(seed), "bits32": bits32, "bits": bits, "random_as_bits": floats, "below": below}


def shuffles(seed):
    rng = random.Random(seed)
    found = []
    for length in [*range(201), 623, 624, 625, 1000, 4097, 20000]:
        items = list(range(length))
        rng.shuffle(items)
        found.append([length, zlib.crc32(b"".join(struct.pack("<I", item) for item in items))])
    return {"seed": seed, "crc_by_length": found}


def main():
    data = {"draws": [draws(seed) for seed in SEEDS], "shuffles": [shuffles(seed) for seed in (0, 42, -7, 2**40 + 7)]}
    path = pathlib.Path(__file__).with_name("python_random.json")
    path.write_text(json.dumps(data, separators=(",", ":")).replace('},{', '},\n{') + "\n")


main()

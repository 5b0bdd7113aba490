"""Replay buffers of diffusion policies, by zarr and numcodecs, and what zarr reads from them.

    pip install zarr numcodecs
    python make_fixtures.py

`data/*` has a row per step of all episodes one after the other, `meta/episode_ends` the row after the last of each.
`push`: zarr v2, each array compressed in another way (the calls of diffusion_policy/common/replay_buffer.py). `v3`: the same in zarr v3, one array
in shards. `umi.zarr.zip`: the names and chunks of UMI, in a zip.
"""

import json
import shutil
import zipfile
from pathlib import Path

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

HERE = Path(__file__).parent
SIDE, ENDS = 12, [5, 11, 14]
ROWS = ENDS[-1]


def images(rng, dtype=np.uint8):
    found = rng.integers(0, 40, (ROWS, SIDE, SIDE, 3))
    found[:, 2:9, 3:10] = 200
    return found.astype(dtype)


def arrays(seed):
    rng = np.random.default_rng(seed)
    return {
        "img": images(rng, np.float32),
        "wrist": images(rng),
        "side": images(rng),
        "top": images(rng),
        "state": rng.normal(size=(ROWS, 5)).astype(np.float32),
        # Smooth enough to be compressed, and large enough for several blocks.
        "velocity": (np.arange(ROWS * 2000).reshape(ROWS, 2000) % 311 / 8).astype(np.float32),
        "force": (np.arange(ROWS * 256).reshape(ROWS, 256) // 5).astype(np.int32),
        "action": np.round(rng.normal(size=(ROWS, 2)), 1),
        "n_contacts": rng.integers(0, 3, (ROWS, 1)).astype(np.float32),
    }


def blosc(name, shuffle, level=5):
    return numcodecs.Blosc(cname=name, clevel=level, shuffle=shuffle)


def v2(path, data):
    none, shuffle, bits = numcodecs.Blosc.NOSHUFFLE, numcodecs.Blosc.SHUFFLE, numcodecs.Blosc.BITSHUFFLE
    how = {
        # Chunks of several episodes, and rows of an image in several chunks.
        "img": ((6, SIDE, SIDE, 3), blosc("lz4", shuffle), "C"),
        "wrist": ((1, SIDE, SIDE, 3), blosc("zstd", none), "C"),
        "side": ((4, 5, SIDE, 2), numcodecs.Zstd(level=3), "C"),
        "top": ((ROWS, SIDE, SIDE, 3), numcodecs.Zlib(level=5), "F"),
        "state": ((6, 5), None, "C"),
        "velocity": ((14, 2000), numcodecs.Blosc(cname="lz4hc", clevel=9, shuffle=bits, blocksize=4096), "C"),
        "force": ((5, 256), blosc("blosclz", shuffle, 9), "C"),
        "action": ((6, 2), blosc("zlib", shuffle), "C"),
        "n_contacts": ((14, 1), numcodecs.LZ4(), "C"),
    }
    root = zarr.open_group(str(path), mode="w", zarr_format=2)
    group = root.create_group("data")
    for name, (chunks, compressor, order) in how.items():
        array = group.create_array(name, shape=data[name].shape, dtype=data[name].dtype, chunks=chunks, compressors=compressor, order=order)
        array[:] = data[name]
    ends = root.create_group("meta").create_array("episode_ends", shape=(3,), dtype=np.int64, chunks=(3,), compressors=None)
    ends[:] = ENDS


def v3(path, data):
    how = {
        "img": ((6, SIDE, SIDE, 3), None, [BloscCodec(cname="zlib", clevel=5, shuffle="shuffle", typesize=4)]),
        "wrist": ((1, SIDE, SIDE, 3), (5, SIDE, SIDE, 3), [ZstdCodec(level=1, checksum=True)]),
        "side": ((4, 5, SIDE, 2), None, [GzipCodec(level=5), Crc32cCodec()]),
        "top": ((ROWS, SIDE, SIDE, 3), None, [BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle", typesize=1)]),
        "state": ((6, 5), None, None),
        "velocity": ((7, 500), None, [BloscCodec(cname="blosclz", clevel=9, shuffle="noshuffle", typesize=4)]),
        "force": ((5, 256), None, [BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle", typesize=4)]),
        "action": ((6, 2), None, [BloscCodec(cname="blosclz", clevel=9, shuffle="noshuffle", typesize=8)]),
        "n_contacts": ((14, 1), None, [ZstdCodec(level=9)]),
    }
    root = zarr.open_group(str(path), mode="w", zarr_format=3)
    group = root.create_group("data")
    for name, (chunks, shards, compressors) in how.items():
        filters = [TransposeCodec(order=(3, 0, 2, 1))] if name == "top" else None
        array = group.create_array(
            name, shape=data[name].shape, dtype=data[name].dtype, chunks=chunks, shards=shards, compressors=compressors, filters=filters)
        array[:] = data[name]
    ends = root.create_group("meta").create_array("episode_ends", shape=(3,), dtype=np.int64, chunks=(3,))
    ends[:] = ENDS


def umi(path, seed):
    rng = np.random.default_rng(seed)
    folder = path.with_suffix("")
    root = zarr.open_group(str(folder), mode="w", zarr_format=2)
    group = root.create_group("data")
    found = {
        "camera0_rgb": images(rng),
        "robot0_demo_end_pose": rng.normal(size=(ROWS, 6)),
        "robot0_demo_start_pose": rng.normal(size=(ROWS, 6)),
        "robot0_eef_pos": rng.normal(size=(ROWS, 3)).astype(np.float32),
        "robot0_eef_rot_axis_angle": rng.normal(size=(ROWS, 3)).astype(np.float32),
        "robot0_gripper_width": rng.uniform(size=(ROWS, 1)).astype(np.float32),
    }
    for name, data in found.items():
        image = name == "camera0_rgb"
        chunks = (1, *data.shape[1:]) if image else data.shape
        compressor = blosc("lz4", numcodecs.Blosc.SHUFFLE) if image else None
        array = group.create_array(name, shape=data.shape, dtype=data.dtype, chunks=chunks, compressors=compressor)
        array[:] = data
    ends = root.create_group("meta").create_array("episode_ends", shape=(3,), dtype=np.int64, chunks=(3,), compressors=None)
    ends[:] = ENDS
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for one in sorted(folder.rglob("*")):
            if one.is_file():
                file.write(one, one.relative_to(folder))
    shutil.rmtree(folder)
    return found


def weighted(values):
    flat = np.asarray(values).astype(np.int64).ravel()
    return int((flat * (np.arange(flat.size) % 997 + 1)).sum())


def floats(values):
    flat = np.asarray(values).astype(np.float64).ravel()
    return float((flat * (np.arange(flat.size) % 997 + 1)).sum())


def expected(root, cameras, states, action):
    episodes, start = [], 0
    data = root["data"]
    for end in np.asarray(root["meta/episode_ends"]):
        rows = slice(start, int(end))
        column = lambda name: np.asarray(data[name][rows]).astype(np.float32).reshape(int(end) - start, -1)
        episodes.append({
            "cameras": {name: weighted(data[name][rows]) for name in cameras},
            "states": floats(np.concatenate([column(name) for name in states], 1)),
            "actions": column(action).tolist() if action else [],
        })
        start = int(end)
    return episodes


for name in ("push.zarr", "v3.zarr"):
    shutil.rmtree(HERE / name, ignore_errors=True)
data = arrays(1)
v2(HERE / "push.zarr", data)
v3(HERE / "v3.zarr", data)
parts = (["img", "side", "top", "wrist"], ["force", "n_contacts", "state", "velocity"], "action")
found = {name: expected(zarr.open_group(str(HERE / name), mode="r"), *parts) for name in ("push.zarr", "v3.zarr")}
umi(HERE / "umi.zarr.zip", 2)
umi_states = ["robot0_demo_end_pose", "robot0_demo_start_pose", "robot0_eef_pos", "robot0_eef_rot_axis_angle", "robot0_gripper_width"]
with zarr.storage.ZipStore(HERE / "umi.zarr.zip", mode="r") as store:
    found["umi.zarr.zip"] = expected(zarr.open_group(store, mode="r"), ["camera0_rgb"], umi_states, None)
(HERE / "expected.json").write_text(json.dumps(found) + "\n")

"""Makes the files that Python reads and plaudit must read alike, and writes down what Python sees in them.

    python make_fixtures.py            # needs numpy and torch

Files already in `fixtures/` that this script does not make (episodes of RLinf's CollectEpisode, datasets of its
RewardDatasetPayload) are kept and only listed. `leaves.json` holds, for each file, every leaf that Python finds: its
path, type, shape, and the CRC of its bytes. `refused/` holds files that are honest but not read.
"""

import collections
import io
import json
import pathlib
import pickle
import struct
import warnings
import zipfile
import zlib

import numpy as np
import torch

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent
FIXTURES = HERE / "fixtures"
REFUSED = HERE / "refused"
OrderedDict = collections.OrderedDict

TORCH_TYPES = "bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64 complex64 complex128".split()
NEW_TORCH_TYPES = "uint16 uint32 uint64 float8_e4m3fn float8_e5m2".split()
NUMPY_TYPES = "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 U3 S5 M8[ns] M8[25s] m8[D] M8".split()


# ---- what Python sees


def crc(data):
    return f"{zlib.crc32(data):08x}"


def bits(number):
    return struct.pack(">d", number).hex()


def native(array):
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)


def tensor_bytes(tensor):
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def leaf(value):
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, np.generic):
        a = native(np.asarray(value))
        return f"scalar {a.dtype.str} {crc(a.tobytes())}"
    if isinstance(value, np.ndarray):
        a = native(value)
        return f"array {a.dtype.str} {list(a.shape)} {crc(a.tobytes())}"
    if isinstance(value, torch.Tensor):
        return f"tensor {str(value.dtype)[6:]} {list(value.shape)} {crc(tensor_bytes(value))}"
    if isinstance(value, int):
        return f"int {value}"
    if isinstance(value, float):
        return f"float {bits(value)}"
    if isinstance(value, complex):
        return f"complex {bits(value.real)} {bits(value.imag)}"
    if isinstance(value, str):
        return f"str {value}" if len(value) < 300 else f"text {len(value)} {crc(value.encode())}"
    if isinstance(value, (bytes, bytearray)):
        return f"bytes {len(value)} {crc(value)}"
    if isinstance(value, np.dtype):
        return f"dtype numpy {value.newbyteorder('=').str}"
    if isinstance(value, torch.dtype):
        return f"dtype torch {str(value)[6:]}"
    if isinstance(value, torch.device):
        return f"device {value}"
    raise TypeError(type(value))


def leaves(path, value, out):
    if isinstance(value, dict):
        out.append([path, f"{'OrderedDict' if isinstance(value, OrderedDict) else 'dict'} {len(value)}"])
        for i, (key, item) in enumerate(value.items()):
            leaves(f"{path}.key{i}", key, out)
            leaves(f"{path}.{key if isinstance(key, str) else i}", item, out)
        if isinstance(value, OrderedDict) and vars(value):
            leaves(f"{path}.__dict__", vars(value), out)
    elif isinstance(value, (list, tuple)):
        out.append([path, f"{'list' if isinstance(value, list) else 'tuple'} {len(value)}"])
        for i, item in enumerate(value):
            leaves(f"{path}[{i}]", item, out)
    elif isinstance(value, (set, frozenset)):
        out.append([path, f"{type(value).__name__} {sorted(leaf(item) for item in value)}"])
    elif isinstance(value, np.ndarray) and value.dtype == object:
        out.append([path, f"objects {list(value.shape)}"])
        for i, item in enumerate(value.reshape(-1)):
            leaves(f"{path}[{i}]", item, out)
    else:
        out.append([path, leaf(value)])


def load(path):
    head = path.read_bytes()[:15]
    if head.startswith(b"\x93NUMPY"):
        return np.load(path, allow_pickle=True)
    if head.startswith(b"PK"):
        try:
            return torch.load(path, weights_only=False)
        except Exception:
            with np.load(path, allow_pickle=True) as archive:
                return {name: archive[name] for name in archive.files}
    if head.startswith(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."):
        return torch.load(path, weights_only=False)
    return pickle.loads(path.read_bytes(), encoding="latin1")


# ---- what is in the files


def plain_values():
    shared = ["shared", [1, 2]]
    default = collections.defaultdict(list)
    default["a"].append(1)
    return {
        "ints": [0, 1, -1, 255, 256, 65535, 65536, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63)],
        "big": [2**63, -(2**63) - 1, 2**64, 2**70, -(2**70), 2**127, -(2**127), 2**1000, -(3**700), 2**2100],
        "floats": [0.0, -0.0, 1.5, -1e300, 5e-324, float("inf"), float("-inf"), float("nan"), 0.1],
        "complex": [1 + 2j, -0.0 + 1e300j],
        "truths": [True, False, None],
        "text": ["", "plain", "é ü 漢字 😀", "line\nbreak\\u0041", "x" * 300, "y" * 70000],
        "bytes": [b"", b"abc", bytes(range(256)), b"z" * 70000, bytearray(b"mutable"), bytearray()],
        "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ((), ((),))],
        "sets": [set(), {1, 2, 3}, frozenset(), frozenset("ab"), {"a", 1, None, 2.5}],
        "nested": [[[[[]]]], {"a": {"b": {"c": {}}}}],
        "shared": [shared, shared, {"again": shared}],
        "many": list(range(1100)),
        "many keys": {f"k{i}": i for i in range(1100)},
        "keys": {1: "int", 2.5: "float", None: "none", (1, "a", (2,)): "tuple", b"b": "bytes", True: "one", 2**70: "big"},
        "ordered": OrderedDict([("z", 1), ("a", OrderedDict())]),
        "default": default,
    }


def numpy_array(name, shape, rng):
    dtype = np.dtype(name)
    count = int(np.prod(shape))
    if dtype.kind in "US":
        texts = ["", "a", "bc", "é漢😀" if dtype.kind == "U" else "xyz12"]
        return np.array([texts[i % 4] for i in range(count)], dtype=dtype).reshape(shape)
    if dtype.kind == "b":
        return (rng.integers(0, 2, count) == 1).reshape(shape)
    if dtype.kind == "c":
        return (rng.standard_normal(count) + 1j * rng.standard_normal(count)).astype(dtype).reshape(shape)
    if dtype.kind == "f":
        return rng.standard_normal(count).astype(dtype).reshape(shape)
    return rng.integers(0, 100, count).astype("i8").astype(dtype).reshape(shape)


def numpy_values():
    rng = np.random.default_rng(7)
    values = {}
    for name in NUMPY_TYPES:
        array = numpy_array(name, (2, 3, 4), rng)
        values[name] = {
            "c": array,
            "fortran": np.asfortranarray(array),
            "big": array.astype(array.dtype.newbyteorder(">")),
            "big fortran": np.asfortranarray(array.astype(array.dtype.newbyteorder(">"))),
            "zero-d": array[0, 0, 0:1].reshape(()),
            "empty": array[:0],
            "strided": array[:, ::2, ::-1],
            "scalar": array[1, 1, 1],
        }
    objects = np.empty((2, 3), dtype=object)
    for i, item in enumerate([1, "two", [3, 3.5], None, {"five": 5}, np.arange(6)]):
        objects[i // 3, i % 3] = item
    values["objects"] = {"c": objects, "fortran": np.asfortranarray(objects), "zero-d": np.array({"a": 1}), "empty": objects[:0]}
    values["dtypes"] = [np.dtype(name) for name in NUMPY_TYPES] + [np.dtype(">f4")]
    same = np.arange(5)
    values["same twice"] = [same, same]
    return values


def torch_array(name, shape):
    dtype = getattr(torch, name)
    count = int(np.prod(shape))
    if name == "bool":
        flat = torch.arange(count) % 3 == 0
    elif name.startswith("complex"):
        flat = torch.complex(torch.arange(count) * 0.5, -torch.arange(count) * 0.25).to(dtype)
    else:
        flat = (torch.arange(count) * 0.5).to(dtype)
    return flat.reshape(shape)


def torch_values(types):
    values = {}
    for name in types:
        tensor = torch_array(name, (2, 3, 4))
        values[name] = {
            "whole": tensor,
            "transposed": tensor.permute(2, 0, 1),
            "every second": tensor[:, :, ::2],
            "part": tensor[1],
            "expanded": tensor[:1, :1].expand(5, 6, 4),
            "zero-d": tensor[0, 0, 0].clone(),
            "empty": tensor[:0],
        }
    base = torch.arange(100, dtype=torch.float32)
    values["views"] = [base[:10], base[50:60], base[::7], base]
    values["parameter"] = torch.nn.Parameter(torch.ones(2, 2))
    values["size"] = torch.Size([2, 3])
    values["no size"] = torch.Size([])
    values["devices"] = [torch.device("cpu"), torch.device("cuda", 1)]
    values["dtypes"] = [torch.float32, torch.bfloat16, torch.uint8, torch.bool]
    return values


def module():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 2))


# ---- writing them


def repack(source, target, change):
    """The same torch archive with members changed: `change(name, data)` gives the new data, or None to drop it."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            data = change(name.split("/", 1)[1], old.read(name))
            if data is not None:
                new.writestr(zipfile.ZipInfo(name), data)


def make_pickles():
    for protocol in range(6):
        for name, values in [
            ("plain", plain_values()),
            ("numpy", numpy_values()),
            ("torch", torch_values(TORCH_TYPES)),
        ]:
            (FIXTURES / f"{name}_protocol{protocol}.pkl").write_bytes(pickle.dumps(values, protocol))
    # Python 2 wrote strings of bytes; this is what numpy 1 made of an array there.
    old = (
        b"\x80\x02}q\x01(U\x05arrayq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b"
        b"\x87Rq\x05(K\x01K\x03\x85cnumpy\ndtype\nq\x06U\x02i2K\x00K\x01\x87Rq\x07(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff"
        b"\xff\xff\xffK\x00tb\x89U\x06\x01\x00\x02\x00\x03\x00tbU\x04textU\x05helloU\x07orderedccollections\nOrderedDict\n"
        b"](](U\x01aK\x01e](U\x01bK\x02ee\x85Ru."
    )
    (FIXTURES / "python2.pkl").write_bytes(old)


def make_torch_files():
    everything = torch_values(TORCH_TYPES + NEW_TORCH_TYPES)
    torch.save(everything, FIXTURES / "everything.pt")
    torch.save(torch_values(TORCH_TYPES), FIXTURES / "everything_legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(module().state_dict(), FIXTURES / "module.pt")
    torch.save(module().state_dict(), FIXTURES / "module_legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(dict(module().named_parameters()), FIXTURES / "parameters.pt")
    torch.save({"numpy": np.arange(6).reshape(2, 3), "plain": plain_values()}, FIXTURES / "mixed.pt")
    torch.save(torch.arange(3), FIXTURES / "bare_tensor.pt")
    torch.save({"images": [torch.zeros(4, 4, 3, dtype=torch.uint8)]}, FIXTURES / "protocol5.pt", pickle_protocol=5)

    small = {"a": torch.arange(6, dtype=torch.int32).reshape(2, 3), "b": torch.arange(4, dtype=torch.float64)}
    new = io.BytesIO()
    torch.save(small, new)
    dropped = {".format_version", ".storage_alignment", "byteorder", ".data/serialization_id"}
    repack(new, FIXTURES / "torch16.pt", lambda name, data: None if name in dropped else data)
    sizes = {"data/0": 4, "data/1": 8}

    def to_big(name, data):
        if name == "byteorder":
            return b"big"
        if name in sizes:
            return np.frombuffer(data, f"<u{sizes[name]}").byteswap().tobytes()
        return data

    repack(new, FIXTURES / "big_endian.pt", to_big)


def make_numpy_files():
    rng = np.random.default_rng(11)
    for i, name in enumerate(NUMPY_TYPES):
        np.save(FIXTURES / f"array_{i:02}.npy", numpy_array(name, (3, 4), rng))
    array = numpy_array("f4", (3, 4), rng)
    np.save(FIXTURES / "fortran.npy", np.asfortranarray(array))
    np.save(FIXTURES / "big_fortran.npy", np.asfortranarray(array.astype(">f4")))
    np.save(FIXTURES / "zero_d.npy", np.float64(2.5))
    np.save(FIXTURES / "empty.npy", array[:0])
    np.save(FIXTURES / "object_dict.npy", {"images": {"base": array}, "labels": np.ones(3, "f4")}, allow_pickle=True)
    objects = np.empty((2, 2), dtype=object)
    objects[:] = [[1, "a"], [None, array]]
    np.save(FIXTURES / "objects.npy", np.asfortranarray(objects), allow_pickle=True)
    for version in [(2, 0), (3, 0)]:
        with open(FIXTURES / f"version{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, array, version=version)
    np.savez(FIXTURES / "stored.npz", a=array, b=np.arange(3), c=np.asfortranarray(array))
    np.savez_compressed(FIXTURES / "compressed.npz", a=array, zeros=np.zeros(50000, "u1"), text=np.array(["a", "bcd"]))
    np.savez(FIXTURES / "objects.npz", o=np.array({"a": [1, 2]}, dtype=object))


def make_refused():
    def pkl(name, value, protocol=4):
        (REFUSED / name).write_bytes(pickle.dumps(value, protocol))

    structured = np.zeros(2, dtype=[("a", "<f4"), ("b", "<i8")])
    pkl("structured.pkl", structured)
    np.save(REFUSED / "structured.npy", structured)
    pkl("longdouble.pkl", np.zeros(2, np.longdouble))
    np.save(REFUSED / "longdouble.npy", np.zeros(2, np.longdouble))
    pkl("void.pkl", np.zeros(2, "V4"))
    pkl("masked.pkl", np.ma.masked_array([1, 2], [True, False]))
    pkl("matrix.pkl", np.matrix([[1, 2]]))
    pkl("range.pkl", range(3))
    pkl("path.pkl", pathlib.PurePosixPath("/a/b"))
    pkl("torch_conjugate.pkl", torch.complex(torch.ones(2), torch.ones(2)).conj())
    torch.save(torch.eye(3).to_sparse(), REFUSED / "sparse.pt")
    torch.save(torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8), REFUSED / "quantised.pt")
    torch.save(torch.ones(3, device="meta"), REFUSED / "meta.pt")
    torch.save(module(), REFUSED / "whole_module.pt")
    buffers = []
    out_of_band = pickle.dumps(np.arange(5), 5, buffer_callback=buffers.append)
    (REFUSED / "out_of_band.pkl").write_bytes(out_of_band)
    loop = []
    loop.append(loop)
    pkl("loop.pkl", loop)
    looped = {}
    looped["self"] = (looped,)
    pkl("loop_dict.pkl", looped)


def main():
    FIXTURES.mkdir(exist_ok=True)
    REFUSED.mkdir(exist_ok=True)
    make_pickles()
    make_torch_files()
    make_numpy_files()
    make_refused()
    seen = {}
    for path in sorted(p for p in FIXTURES.rglob("*") if p.is_file()):
        out = []
        leaves("", load(path), out)
        seen[str(path.relative_to(FIXTURES))] = out
    write_leaves(seen)
    print(f"{len(seen)} files, {sum(map(len, seen.values()))} leaves")


def write_leaves(seen):
    """Files with the same leaves as an earlier one only name it."""
    first, parts = {}, []
    for name, out in seen.items():
        rows = ",\n".join(json.dumps(row) for row in out)
        same = first.setdefault(rows, name)
        parts.append(f"{json.dumps(name)}: " + (f"[\n{rows}\n]" if same == name else json.dumps(same)))
    (HERE / "leaves.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()

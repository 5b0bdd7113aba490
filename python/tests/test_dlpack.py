"""Tensors on a model's GPU: what is taken where it lies, what goes by way of the CPU, and what is refused.

Capsules are made here of ctypes, so that nothing needs a GPU; `gpu_tensors.py` beside this file compares scores where there is one.
"""

import ctypes
import gc

import pytest

import plaudit
from plaudit._plaudit import dlpack_of

CUDA, CPU, UNSIGNED, FLOAT = 2, 1, 1, 2
ADDRESS = 0x7F00_0000_1000


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("axes", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


# A handle of its own: others say what functions of `ctypes.pythonapi` take, and differently.
python = ctypes.PyDLL(None)
Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, Destructor]
python.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


# Capsules keep the address of a name and of a function, and may go after their tensor: nothing that they point to ever goes.
KEPT = []


class OnAGpu:
    """A tensor that makes capsules as torch does: one that nobody took gives back what is in it when it goes."""

    def __init__(self, shape, strides=None, *, versioned=True, device=(CUDA, 0), inside=None, **fields):
        self.device, self.versioned, self.released, self.streams = device, versioned, 0, []
        kind, index = inside or device
        tensor = Tensor(
            data=ADDRESS, device_kind=kind, device_index=index, axes=len(shape), code=UNSIGNED, bits=8, lanes=1,
            shape=(ctypes.c_int64 * len(shape))(*shape),
            strides=(ctypes.c_int64 * len(strides))(*strides) if strides else None,
        )
        major = fields.pop("major", 1)
        flags = fields.pop("flags", 0)
        for name, value in fields.items():
            setattr(tensor, name, value)
        deleter = Deleter(self.release)
        if versioned:
            self.held = Versioned(major=major, minor=0, context=None, deleter=deleter, flags=flags, tensor=tensor)
        else:
            self.held = Managed(tensor=tensor, context=None, deleter=deleter)
        self.deleter = deleter

    def release(self, address):
        assert address == ctypes.addressof(self.held)
        self.released += 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append((stream, max_version))
        name = b"dltensor_versioned" if self.versioned else b"dltensor"

        def gone(capsule):
            if python.PyCapsule_IsValid(capsule, name):
                self.release(ctypes.addressof(self.held))

        destructor = Destructor(gone)
        KEPT.append((self, name, destructor))
        return python.PyCapsule_New(ctypes.addressof(self.held), name, destructor)


def taken(tensor, index=0):
    try:
        return dlpack_of(tensor, index, stream=77)
    finally:
        gc.collect()
        if tensor.streams:
            assert tensor.released == 1, "given back just once"


SHAPE = [2, 4, 5, 3]


@pytest.mark.parametrize("versioned", [True, False])
def test_bytes_on_the_gpu_are_taken_where_they_lie(versioned):
    tensor = OnAGpu(SHAPE, versioned=versioned)
    assert taken(tensor) == (ADDRESS, SHAPE, [60, 15, 3, 1])
    assert tensor.streams == [(77, (1, 0))]
    planes = OnAGpu([2, 3, 4, 5], [60, 20, 5, 1], versioned=versioned, byte_offset=7)
    assert taken(planes) == (ADDRESS + 7, [2, 3, 4, 5], [60, 20, 5, 1])
    cut = OnAGpu(SHAPE, [240, 30, 3, 1], versioned=versioned)
    assert taken(cut) == (ADDRESS, SHAPE, [240, 30, 3, 1])


def test_a_tensor_that_may_only_be_read_is_read():
    assert taken(OnAGpu(SHAPE, flags=1)) == (ADDRESS, SHAPE, [60, 15, 3, 1])


def test_nothing_of_no_images_needs_an_address():
    assert taken(OnAGpu([0, 4, 5, 3], data=None))[1] == [0, 4, 5, 3]


@pytest.mark.parametrize(
    "tensor",
    [
        OnAGpu(SHAPE, code=FLOAT, bits=32),
        OnAGpu(SHAPE, code=0),
        OnAGpu(SHAPE, bits=16),
        OnAGpu(SHAPE, lanes=4),
        OnAGpu(SHAPE, device=(CUDA, 1)),
        OnAGpu(SHAPE, device=(CPU, 0)),
        OnAGpu(SHAPE, device=(10, 0)),
        [1, 2, 3],
    ],
    ids=["float32", "int8", "uint16", "lanes", "another GPU", "CPU", "another make", "no tensor"],
)
def test_what_is_no_bytes_on_that_gpu_goes_another_way(tensor):
    found = taken(tensor) if isinstance(tensor, OnAGpu) else dlpack_of(tensor)
    assert found is None


@pytest.mark.parametrize(
    "tensor, words",
    [
        (OnAGpu(SHAPE, inside=(CUDA, 3)), "a capsule of device 2:3 from a tensor on 2:0"),
        (OnAGpu(SHAPE, inside=(CPU, 0)), "a capsule of device 1:0"),
        (OnAGpu(SHAPE, major=2), "DLPack of version 2.0"),
        (OnAGpu(SHAPE, [-60, 15, 3, 1]), "go backwards"),
        (OnAGpu([2, -4, 5, 3]), "shape [2, -4, 5, 3]"),
        (OnAGpu(SHAPE, data=None), "no address"),
        (OnAGpu(SHAPE, byte_offset=2**64 - 1), "past the end"),
        (OnAGpu(SHAPE, axes=99), "99 axes"),
    ],
)
def test_a_capsule_that_contradicts_itself_is_refused(tensor, words):
    with pytest.raises(plaudit.InputError) as refused:
        taken(tensor)
    assert words in str(refused.value), refused.value
    assert "DLPack 0 or 1" in refused.value.hint


def test_a_maker_that_knows_no_versions_is_asked_without():
    class Older(OnAGpu):
        def __dlpack__(self, *, stream=None):
            return super().__dlpack__(stream=stream)

    tensor = Older(SHAPE, versioned=False)
    assert taken(tensor) == (ADDRESS, SHAPE, [60, 15, 3, 1])
    assert tensor.streams == [(77, None)]


def test_what_gives_no_capsule_says_so():
    class Odd(OnAGpu):
        def __dlpack__(self, **_):
            return "a capsule"

    with pytest.raises(plaudit.InputError, match="gave a str and no capsule"):
        dlpack_of(Odd(SHAPE))

    class Full(OnAGpu):
        def __dlpack__(self, **_):
            raise RuntimeError("CUDA error: out of memory")

    with pytest.raises(plaudit.InputError, match="cannot be read: RuntimeError: CUDA error"):
        dlpack_of(Full(SHAPE))


def test_a_capsule_that_was_taken_is_not_taken_again():
    class Once(OnAGpu):
        def __dlpack__(self, **words):
            self.capsule = getattr(self, "capsule", None) or super().__dlpack__(**words)
            return self.capsule

    tensor = Once(SHAPE)
    assert taken(tensor)
    with pytest.raises(plaudit.InputError, match="somebody has taken already"):
        dlpack_of(tensor)
    tensor.capsule = None  # it goes now, and not with the interpreter, when nothing can be called any more
    assert tensor.released == 1

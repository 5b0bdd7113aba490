"""What every Python side of the bridge starts with; the program that it runs follows in the same file.

Standard input is a socket and standard output a memory file when it starts; both are taken over before any other
code runs, so that `print` and `input` of what is bridged cannot disturb them.
"""

import importlib
import importlib.util
import json
import mmap
import os
import select
import signal
import struct
import sys
import time
import traceback


class Refused(Exception):
    """Something the user can fix, with an explanation."""


class Link:
    """The socket and the memory file."""

    def __init__(self):
        self.socket, self.memory = os.dup(0), os.dup(1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        self.poll = select.poll()
        self.poll.register(self.socket, select.POLLIN)
        self.spin_secs, self.spins = 0.0, True
        # A worker that an environment forks must not keep the socket open after we are gone.
        os.register_at_fork(after_in_child=lambda: os.close(self.socket))

    def read(self, count):
        parts = b""
        while len(parts) < count:
            part = os.read(self.socket, count - len(parts))
            if not part:
                raise EOFError
            parts += part
        return parts

    def read_order(self):
        """The next order, empty at the end. It is looked for without sleeping if the last one came soon."""
        began = time.perf_counter()
        while self.spins and not self.poll.poll(0) and time.perf_counter() - began < self.spin_secs:
            os.sched_yield()
        order = os.read(self.socket, 2)
        self.spins = time.perf_counter() - began < self.spin_secs
        return order

    def read_json(self):
        return json.loads(self.read(struct.unpack("<I", self.read(4))[0]).decode())

    def send(self, mark, message):
        body = json.dumps(message).encode()
        rest = memoryview(mark + struct.pack("<I", len(body)) + body)
        while rest:
            rest = rest[os.write(self.socket, rest) :]

    def map(self, layout):
        """Arrays by name, from `{name: [dtype, shape, offset]}`."""
        shared = np.frombuffer(mmap.mmap(self.memory, os.fstat(self.memory).st_size), np.uint8)
        arrays = {}
        for name, (dtype, shape, offset) in layout.items():
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            arrays[name] = shared[offset : offset + size].view(dtype).reshape(shape)
        return arrays


def die_with_parent():
    """Asks Linux to end this process when plaudit ends, however it ends."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    except Exception:
        pass  # the closed socket ends us too, at the next wait


def explain_crashes():
    """Lets a crash, and a hang that plaudit asks about, dump the traceback of Python."""
    import faulthandler

    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)


def bring_in(name):
    """Imports a module by its name, or by its path when the name ends in `.py`."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    stem = os.path.splitext(os.path.basename(name))[0]
    there = sys.modules.get(stem)
    if getattr(there, "__file__", None) and os.path.abspath(there.__file__) == os.path.abspath(name):
        return there
    spec = importlib.util.spec_from_file_location(stem, name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    spec.loader.exec_module(module)
    return module


def report_of(error, own):
    """What plaudit is told of an error. A missing module of `own` is one that the user should install."""
    report = {"kind": "raised", "error": ("%s: %s" % (type(error).__name__, error)).strip(), "traceback": ""}
    if isinstance(error, Refused):
        return dict(report, kind="refused", error=str(error))
    report["traceback"] = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-16000:]
    if isinstance(error, ModuleNotFoundError) and error.name in own:
        return dict(report, kind="no_module", module=error.name, executable=sys.executable)
    return report



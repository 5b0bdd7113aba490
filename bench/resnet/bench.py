"""Image networks compared with PyTorch and ONNX Runtime: one run, all in turns.

    cargo build --release -p plaudit-nn --example resnet_bench
    python bench/resnet/bench.py [--rounds 15] [--only TEXT] [--threads 2]   # torch, torchvision, onnx, onnxruntime

Each round measures every program once on each piece of work, one after the other, so that a busy moment of the machine
strikes all of them. A measurement is one call that does not count, since the program before has emptied the caches,
and the mean of as many calls as begin within the next 60 ms. Before and after it all cores spin for a moment; if
somebody else had a part of them (more than 5 %), it does not count and is made again, up to three times. Ratios are
taken within rounds.

PyTorch is measured with its memory kept between steps (GLIBC_TUNABLES, set below before it starts), which makes it
quicker; channels-last, `inference_mode`, with batch norm folded by hand (`fuse_conv_bn_eval`) where that is quicker.
Its times are of the network alone; plaudit's include the check and normalisation of the images.
"""

import argparse
import copy
import os
import pathlib
import statistics
import subprocess
import sys
import time

TUNED = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592"
if os.environ.get("GLIBC_TUNABLES") != TUNED:
    os.environ["GLIBC_TUNABLES"] = TUNED
    os.execv(sys.executable, [sys.executable, *sys.argv])

import torch
import torchvision

BINARY = pathlib.Path(__file__).parents[2] / "target/release/examples/resnet_bench"
BUSY = 0.95
MEASURED_SECONDS = 0.06  # as in resnet_bench


class Plaudit:
    """The example program, spoken to line by line."""

    def __init__(self, program, threads):
        env = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
        env.pop("GLIBC_TUNABLES")
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        assert answer and not answer.startswith("error"), (words, answer)
        return float(answer)


def network(arch):
    if arch == "resnet10":
        norm = lambda channels: torch.nn.GroupNorm(4, channels)
        model = torchvision.models.resnet.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], norm_layer=norm)
        model.fc = torch.nn.Identity()
        return model
    return torchvision.models.resnet18(num_classes=1)


class Torch:
    def __init__(self, arch, image, batch, autocast):
        torch.manual_seed(0)
        self.model = network(arch).eval().to(memory_format=torch.channels_last)
        self.input = torch.rand(batch, 3, image, image).to(memory_format=torch.channels_last)
        self.autocast = autocast

    def score(self):
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            return self.model(self.input)

    def prepare_training(self):
        self.model.train()
        self.labels = (torch.arange(len(self.input)) % 2).float()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def train(self):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            logits = self.model(self.input)[:, 0]
        torch.nn.functional.binary_cross_entropy_with_logits(logits.float(), self.labels).backward()
        self.optimizer.step()


class Onnx:
    def __init__(self, arch, image, batch, threads):
        import io
        import onnxruntime

        torch.manual_seed(0)
        self.input = torch.rand(batch, 3, image, image)
        file = io.BytesIO()
        torch.onnx.export(network(arch).eval(), (self.input,), file, input_names=["x"], dynamo=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
        self.input = self.input.numpy()

    def score(self):
        return self.session.run(None, {"x": self.input})


def timed(work):
    """Milliseconds of a call: the mean of those that begin within a moment, after one that is not counted."""
    work()
    start = end = time.perf_counter()
    calls = 0
    while end - start < MEASURED_SECONDS:
        work()
        calls += 1
        end = time.perf_counter()
    return (end - start) / calls * 1e3


def contenders(plaudit, kind, arch, image, batch, threads):
    """Name and a function that measures once, in milliseconds."""
    table = {}
    for name, autocast in [("PyTorch fp32", False), ("PyTorch bf16", True)]:
        model = Torch(arch, image, batch, autocast)
        if kind == "train":
            model.prepare_training()
        table[name] = lambda work=getattr(model, kind): timed(work)
    if kind == "score":
        table["ONNX Runtime"] = lambda model=Onnx(arch, image, batch, threads): timed(model.score)
    for precision in ["fp32", "bf16"]:
        table[f"plaudit {precision}"] = lambda precision=precision: plaudit.ask(kind, arch, image, batch, precision)
    for measure in table.values():
        measure(), measure()
    return table


class Quiet:
    """Knows how much of the CPU is free, as a part of the most it has ever been."""

    def __init__(self, plaudit):
        self.plaudit, self.most, self.last = plaudit, 0, 0
        for _ in range(5):
            self.free()

    def free(self):
        time.sleep(0.15)  # PyTorch's threads go on spinning for a while
        loops = self.plaudit.ask("free")
        self.most = max(self.most, loops)
        return loops / self.most

    def measured(self, work):
        for _ in range(3):
            if self.last < BUSY:
                self.last = self.free()
            before = self.last
            result = work()
            self.last = self.free()
            if min(before, self.last) >= BUSY:
                return result
        return None


WORK = [
    ("score", "resnet18", 128, 1),
    ("score", "resnet18", 128, 8),
    ("score", "resnet18", 128, 64),
    ("score", "resnet10", 64, 128),
    ("train", "resnet18", 128, 32),
]


def spread(numbers):
    return f"{statistics.median(numbers):.2f} ({min(numbers):.2f}-{max(numbers):.2f})" if numbers else "-"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="work whose title has this text")
    parser.add_argument("--program", default=BINARY, help="resnet_bench, where it was built")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    plaudit = Plaudit(options.program, options.threads)
    quiet = Quiet(plaudit)
    print(f"torch {torch.__version__}, {options.threads} threads; milliseconds: median (least-most)")
    for work in WORK:
        title = "{} {} {} px, batch {}".format(*work)
        if options.only not in title:
            continue
        table = contenders(plaudit, *work, options.threads)
        times = {name: [] for name in table}
        rounds = []
        for _ in range(options.rounds):
            round = {name: quiet.measured(measure) for name, measure in table.items()}
            rounds.append(round)
            for name, taken in round.items():
                if taken is not None:
                    times[name].append(taken)
        print(f"\n{title}")
        for name in table:
            print(f"  {name:13} {spread(times[name])}   {len(times[name])} of {options.rounds} counted")
        for ours in ["plaudit fp32", "plaudit bf16"]:
            for theirs in [name for name in table if not name.startswith("plaudit")]:
                both = [(r[ours], r[theirs]) for r in rounds if r[ours] is not None and r[theirs] is not None]
                print(f"  {ours} is {spread([b / a for a, b in both])} times as fast as {theirs}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

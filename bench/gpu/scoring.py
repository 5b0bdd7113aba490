"""Image classifiers on an NVIDIA GPU beside PyTorch's, in one sitting: checks, then times.

    python3 bench/gpu/scoring.py --program target/release/examples/classifier_gpu      # torch and torchvision with CUDA

Checks: logits of batches of many sizes against the CPU in fp32 (which the tests compare with PyTorch), beside what the CPU's own
rounding does. Times: a pass over images that lie on the GPU, as one CUDA graph, of plaudit and of PyTorch (also by torch.compile,
mode reduce-overhead, with --compile), in turns, so that both see the same machine. Prints a table, and all numbers as JSON with
--output.
"""

import argparse
import json
import statistics
import sys

from peer import Plaudit, add_options, torch_milliseconds

BATCHES = [1, 64, 256, 1024]
ROUNDS = 3
# Times the largest difference that the CPU's rounding to the same precision makes.
SLACK = {"bf16": 4.0, "fp16": 4.0}
FP32_OFF = 1e-3
CHECKS = [
    ("resnet18", 128, "fp32", "1 3 7 64 100"),
    ("resnet18", 128, "bf16", "1 2 3 5 7 11 64 100 200"),
    ("resnet18", 100, "bf16", "1 9 40"),
    ("resnet18", 128, "fp16", "1 33"),
    ("resnet50", 128, "fp32", "1 8 33"),
    ("resnet50", 128, "bf16", "1 8 33"),
    ("resnet10", 96, "bf16", "1 8 33"),
    ("resnet10_spatial", 96, "bf16", "1 8 33"),
]


def check(plaudit):
    worst = True
    for arch, side, precision, batches in CHECKS:
        result = plaudit.ask(f"check {arch} {side} {precision} {batches}")
        off = max(max(row["off"], row["by_features"]) for row in result["gpu"])
        allowed = FP32_OFF * max(1.0, result["spread"]) if precision == "fp32" else SLACK[precision] * result["cpu_off"]
        repeats = all(row["repeats"] for row in result["gpu"])
        good = off <= allowed and repeats
        worst &= good
        print(f"  {arch} {side} {precision}: off by {off:.2e} (CPU's rounding: {result['cpu_off']:.2e}; logits spread over "
              f"{result['spread']:.2f}), {'the same each time' if repeats else 'CHANGES'}: {'ok' if good else 'WRONG'}", flush=True)
    if not worst:
        sys.exit("the numbers are wrong: nothing is timed")


def torch_passes(batch, compiled):
    """A function that runs PyTorch's pass over a batch on the GPU, for each way."""
    import torch
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=1).eval().cuda().to(torch.bfloat16).to(memory_format=torch.channels_last)
    images = torch.rand(batch, 3, 128, 128, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    passes = {}
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(images)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(images)
    passes["graph"] = graph.replay
    if compiled:
        fast = torch.compile(model, mode="reduce-overhead")

        def run():
            with torch.no_grad():
                fast(images)

        for _ in range(4):
            run()
        passes["compile"] = run
    return passes


def time_all(plaudit, compiled):
    rows = []
    for batch in BATCHES:
        passes = torch_passes(batch, compiled)
        own, calls, theirs = [], [], {name: [] for name in passes}
        for _ in range(ROUNDS):
            answer = plaudit.ask(f"time resnet18 128 bf16 {batch} 5")
            own += answer["graph_ms"]
            calls += answer["call_ms"]
            for name, run in passes.items():
                theirs[name] += [torch_milliseconds(run) for _ in range(5)]
        medians = {name: statistics.median(times) for name, times in theirs.items()}
        best = min(medians.values())
        ratios = sorted(best / time for time in own)
        rows.append({"batch": batch, "plaudit": own, "plaudit_call": calls, "torch": theirs})
        others = ", ".join(f"PyTorch {name} {time:.3f}" for name, time in medians.items())
        print(f"  batch {batch}: plaudit {statistics.median(own):.3f} ms ({min(own):.3f} to {max(own):.3f}); {others}; ratio to its "
              f"best {best / statistics.median(own):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}); from bytes to logits in memory "
              f"{statistics.median(calls):.3f} ms", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    options = parser.parse_args()
    plaudit = Plaudit(options.program)
    if not options.skip_checks:
        print("largest difference of a logit")
        check(plaudit)
    if options.only_check:
        return
    print("ResNet-18, 128 px, bf16: milliseconds of a pass on the GPU")
    rows = time_all(plaudit, options.compile)
    layers = {batch: plaudit.ask(f"layers resnet18 128 bf16 {batch}") for batch in BATCHES}
    fp32 = plaudit.ask("time resnet18 128 fp32 256 5")
    print(f"  fp32, batch 256: {statistics.median(fp32['graph_ms']):.2f} ms")
    for arch in ("resnet50", "resnet10"):
        answer = plaudit.ask(f"time {arch} 128 bf16 256 5")
        print(f"  {arch}, batch 256: {statistics.median(answer['graph_ms']):.3f} ms")
    if options.output:
        with open(options.output, "w") as file:
            json.dump({"times": rows, "layers": layers, "fp32": fp32}, file)


if __name__ == "__main__":
    main()

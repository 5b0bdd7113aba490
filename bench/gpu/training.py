"""Training of image classifiers on an NVIDIA GPU, compared with PyTorch, checked before it is timed. See README.md beside this file.

    cargo build --release -p plaudit-nn --example classifier_training_gpu
    python3 bench/gpu/training.py --program target/release/examples/classifier_training_gpu      # torch and torchvision with CUDA

Checks: every gradient, the statistics, the moved weights, and whether the same calls give the same bits, beside the CPU in fp32 (which
the tests compare with PyTorch). Times: a whole step (forward, loss, backward, clipping, AdamW) as one CUDA graph over images that lie on
the GPU, of plaudit from bytes, of PyTorch with autocast to bf16, channels last and fused AdamW (also by torch.compile, mode
reduce-overhead, with --compile), in turns, so that both see the same machine. Prints a table, and all numbers as JSON with --output.
"""

import argparse
import json
import statistics
import sys

from peer import Plaudit, add_options, torch_milliseconds

ROUNDS = 3
TIMED = [("resnet18", 32), ("resnet18", 64), ("resnet18", 256), ("resnet50", 64), ("resnet50", 256)]
# Relative to the length of a tensor. Where rounding opens or closes no ReLU, gradients are within 3e-5; each unit that it does, among
# millions, may cost a hundredth. PyTorch's own single precision is as far from its double precision: relu.py counts the units, and
# finds up to 1.5e-2 for ResNet-34 and 7e-2 for ResNet-50. Seen here: 9e-3, 1.3e-2 and 3.5e-2; with group normalisation 4e-6.
FP32_GRADIENT = {"resnet10": 1e-5, "resnet10_spatial": 1e-5, "resnet18": 1.5e-2, "resnet34": 2e-2, "resnet50": 5e-2}
# Rounding to bf16 may turn the gradient this much further than the CPU's rounding does: feature maps are rounded as well.
COSINE_SLACK = 0.05
CHECKS = [
    "resnet18 64 fp32 5 hidden=32 dropout=0.3",
    "resnet18 50 fp32 3 width=67",
    "resnet34 64 fp32 3",
    "resnet50 64 fp32 4",
    "resnet10 64 fp32 4 hidden=64 dropout=0.2 focal=2",
    "resnet10_spatial 64 fp32 4 cameras=2 dropout=0.2",
    "resnet10_spatial 64 fp32 4 positions=false frozen=true",
    "resnet18 64 fp32 3 cameras=2 hidden=16",
    "resnet18 64 fp32 3 cameras=2 shared=false hidden=16",
    "resnet18 64 fp32 4 frozen=true hidden=16",
    "resnet18 64 fp32 4 bins=5 hidden=16",
    "resnet18 128 bf16 16 hidden=64",
    "resnet18 100 bf16 7 width=67",
    "resnet10 96 bf16 9 hidden=64",
    "resnet10_spatial 96 bf16 8 cameras=2",
    "resnet18 128 bf16 100",
]


def check(plaudit):
    all_good = True
    for case in CHECKS:
        found = plaudit.ask(f"check {case}")
        name, off = found["gradients"]["worst"][0]
        repeats = all(found["same_bits"].values()) and found["no_gradient_left"]
        repeats &= found["staged"]
        clean = all(found.get("not_finite", {}).values()) and not found["skipped"]
        if " fp32 " in case:
            close = float(off) <= FP32_GRADIENT[case.split()[0]] and float(found["moved"]["worst"][0][1]) <= 0.1
            detail = f"gradient of {name} off by {off}"
        else:
            rounding = found["cpu_rounding"]
            close = found["cosine"] >= rounding["cosine"] - COSINE_SLACK
            detail = f"cosine of the gradient {found['cosine']:.4f} (CPU's rounding: {rounding['cosine']:.4f})"
        good = close and repeats and clean
        all_good &= good
        print(f"  {case}: logits off by {found['logits_off']:.1e}, {detail}, "
              f"{'the same each time' if repeats else 'CHANGES'}: {'ok' if good else 'WRONG'}", flush=True)
    if not all_good:
        sys.exit("the numbers are wrong: nothing is timed")


def torch_steps(arch, batch, compiled):
    """Functions that run PyTorch's step over a batch on the GPU, for each way, and the bytes that it takes."""
    import torch
    import torchvision

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    images = torch.rand(batch, 3, 128, 128, device="cuda").to(memory_format=torch.channels_last)
    labels = (torch.arange(batch, device="cuda") % 2).float()

    def made(capturable):
        model = getattr(torchvision.models, arch)(num_classes=1).cuda().to(memory_format=torch.channels_last)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=capturable)

        def step(model=model):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = model(images).squeeze(1)
            torch.nn.functional.binary_cross_entropy_with_logits(logits.float(), labels).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            optimizer.step()

        return model, optimizer, step

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    _, _, step = made(True)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    memory = torch.cuda.max_memory_allocated()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    steps = {"graph": graph.replay}
    if compiled:
        model, _, step = made(True)
        fast = torch.compile(model, mode="reduce-overhead")

        def run():
            step(fast)

        for _ in range(5):
            run()
        steps["compile"] = run
    return steps, memory


def time_all(plaudit, compiled):
    rows = []
    for arch, batch in TIMED:
        steps, memory = torch_steps(arch, batch, compiled and arch == "resnet18")
        own, calls, theirs, own_memory = [], [], {name: [] for name in steps}, 0
        for _ in range(ROUNDS):
            answer = plaudit.ask(f"time {arch} 128 bf16 {batch} 5")
            own += answer["graph_ms"]
            calls += answer["staged_ms"]
            own_memory = answer["memory_mib"]
            for name, run in steps.items():
                theirs[name] += [torch_milliseconds(run) for _ in range(5)]
        medians = {name: statistics.median(times) for name, times in theirs.items()}
        best = min(medians.values())
        ratios = sorted(best / time for time in own)
        rows.append({"arch": arch, "batch": batch, "plaudit": own, "plaudit_call": calls, "torch": theirs,
                     "memory_mib": [own_memory, memory >> 20]})
        others = ", ".join(f"PyTorch {name} {time:.3f}" for name, time in medians.items())
        print(f"  {arch}, batch {batch}: plaudit {statistics.median(own):.3f} ms ({min(own):.3f} to {max(own):.3f}); {others}; ratio to "
              f"its best {best / statistics.median(own):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}); memory {own_memory} MiB, PyTorch "
              f"{memory >> 20} MiB; from bytes in memory, copied during the step before, {statistics.median(calls):.3f} ms", flush=True)
    return rows


def learn(plaudit):
    """The AUC after training, on the GPU and on the CPU."""
    rows = []
    for seed in range(3):
        found = {}
        for where, precision in (("gpu", "bf16"), ("gpu", "fp32"), ("cpu", "fp32")):
            answer = plaudit.ask(f"learn resnet18 64 {precision} 32 hidden=64 dropout=0.1 150 {seed} {where}")
            found[f"{where} {precision}"] = answer
        rows.append(found)
        text = ", ".join(f"{name} {answer['auc']:.4f} ({answer['seconds']:.1f} s)" for name, answer in found.items())
        print(f"  seed {seed}: {text}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--skip-learning", action="store_true", help="train nothing to the end")
    options = parser.parse_args()
    plaudit = Plaudit(options.program)
    if not options.skip_checks:
        print("a step beside the CPU's in fp32")
        check(plaudit)
    if options.only_check:
        return
    print("128 px, bf16: milliseconds of a training step on the GPU")
    rows = time_all(plaudit, options.compile)
    layers = {batch: plaudit.ask(f"layers resnet18 128 bf16 {batch}") for batch in (32, 64, 256)}
    learned = []
    if not options.skip_learning:
        print("AUC after 150 steps of 32 made images")
        learned = learn(plaudit)
    if options.output:
        with open(options.output, "w") as file:
            json.dump({"times": rows, "layers": layers, "learned": learned}, file)


if __name__ == "__main__":
    main()

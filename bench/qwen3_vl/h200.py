"""Trend windows through Qwen3-VL on an NVIDIA GPU compared with transformers: checks, then times, in one go.

    bench/qwen3_vl/h200.sh                # builds and runs all of this
    python bench/qwen3_vl/h200.py --program target/release/examples/qwen3_vl_cuda      # torch with CUDA, transformers

Weights are random bf16 numbers, the same on both sides. Parts, each of which goes on when one before it fails:

    matmul     a product of two square matrices, plaudit and torch
    tiny       the model of the tests, alone and with adapters: plaudit on the GPU compared with plaudit on the CPU in fp32 (which
               the tests compare with transformers), several sizes, batches and layouts
    shallow    the widths of Qwen3-VL-4B, 4 of 36 layers, 3 of 24 blocks: both in bf16 compared with transformers in fp32
    whole      all of Qwen3-VL-4B: logits compared with transformers', milliseconds in turns, and the time of each kernel

A window is two views of four frames of 128 pixels. transformers' calls begin with patches on the GPU, plaudit's with bytes of
images in CPU memory; both end with logits in CPU memory.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time
import traceback

import torch
from transformers import AutoProcessor, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from windows import batch

ROOT = pathlib.Path(__file__).parents[2]
LABELS = 256
# What rounding to bf16 may do: logits may be this share of the largest off, and on average and at most this many times as far
# from fp32 as those of transformers in bf16.
SHARE, RATIO = 0.03, 1.5


class Plaudit:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline() or '{"error": "the program ended"}')
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(answer["error"])
        return answer


def config(tiny, layers, blocks):
    """The widths of Qwen3-VL-4B with the tests' tokens."""
    written = json.loads((tiny / "config.json").read_text())
    text, vision = written["text_config"], written["vision_config"]
    text.update(hidden_size=2560, num_hidden_layers=layers, intermediate_size=9728, num_attention_heads=32,
                num_key_value_heads=8, head_dim=128, vocab_size=151936)
    text["rope_parameters"]["mrope_section"] = [24, 20, 20]
    vision.update(hidden_size=1024, depth=blocks, intermediate_size=4096, num_heads=16, out_hidden_size=2560,
                  deepstack_visual_indexes=[5, 11, 17] if blocks == 24 else [0, 1, 2])
    vision.pop("rope_parameters", None)
    written["dtype"] = "bfloat16"
    return Qwen3VLConfig.from_dict(written)


def make(folder, tiny, layers, blocks, device):
    """Random weights; also where new models have ones and zeros."""
    if not (folder / "config.json").exists():
        torch.manual_seed(0)
        torch.set_default_dtype(torch.bfloat16)
        with torch.device(device):
            model = Qwen3VLForConditionalGeneration(config(tiny, layers, blocks))
        torch.set_default_dtype(torch.float32)
        with torch.no_grad():
            for name, values in model.named_parameters():
                if values.ndim == 1:
                    values.add_(torch.randn_like(values) * 0.1)
                elif values.float().std() < 1e-3:
                    values.copy_(torch.randn_like(values) * 0.02)
        model.save_pretrained(folder)
        AutoProcessor.from_pretrained(tiny).save_pretrained(folder)
        del model
        torch.cuda.empty_cache()
    return folder


class Transformers:
    def __init__(self, folder, dtype, device):
        kind = {"dtype": dtype, "attn_implementation": "sdpa"}
        self.model = Qwen3VLForConditionalGeneration.from_pretrained(folder, **kind).to(device).eval()
        self.processor, self.dtype, self.device = AutoProcessor.from_pretrained(folder), dtype, device

    def inputs(self, windows):
        inputs = {k: v.to(self.device) for k, v in batch(self.processor, windows).items()}
        return dict(inputs, pixel_values_videos=inputs["pixel_values_videos"].to(self.dtype))

    def logits(self, inputs):
        with torch.inference_mode():
            return self.model(**inputs, logits_to_keep=1, use_cache=False).logits[:, -1].float().cpu()

    def generate(self, inputs):
        with torch.inference_mode():
            return self.model.generate(**inputs, max_new_tokens=4, min_new_tokens=4, do_sample=False).cpu()


def timed(call):
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def show(values):
    return f"{statistics.median(values):8.1f} ({min(values):.1f}-{max(values):.1f})"


def matmul(plaudit, options):
    for side in (8192, 4096):
        own = plaudit.ask("matmul", side)["flops"] / 1e12
        x, y = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        for _ in range(10):
            x @ y.T
        theirs = 20 * 2 * side**3 / timed(lambda: [x @ y.T for _ in range(20)]) / 1e9
        print(f"matmul of {side}: plaudit {own:.0f} TFLOP/s, torch {theirs:.0f} TFLOP/s", flush=True)
        if own < 400:
            print("  below 400: what follows is slower than this GPU should be")


def tiny(plaudit, options):
    adapters = options.tiny.parent / "lora"
    for result in plaudit.ask("check", options.tiny) + plaudit.ask("check", options.tiny, adapters):
        print(" ", json.dumps(result), flush=True)
        off = max(result["gpu"], result["gpu_sharing"], result["gpu_partly_kept"])
        assert off < SHARE * result["largest_logit"], f"off by {off}"
        assert result["repeats"], "the same windows, other logits"
    from_exact(plaudit, options.tiny, 64)


def largest(a, b):
    return (a - b).abs().max().item()


def from_exact(plaudit, folder, windows):
    """How far both in bf16 are from transformers in fp32."""
    exact = Transformers(folder, torch.float32, "cuda")
    expected = exact.logits(exact.inputs(windows))[:, :LABELS]
    del exact
    near = Transformers(folder, torch.bfloat16, "cuda")
    theirs = near.logits(near.inputs(windows))[:, :LABELS]
    del near
    torch.cuda.empty_cache()
    answer = plaudit.ask("logits", folder, windows, "videos")
    own = torch.tensor(answer["logits"])
    print(f"  {answer['tokens']} tokens a window; logits spread {expected.std():.3f}, largest {expected.abs().max():.3f}")
    own_off, their_off = largest(own, expected), largest(theirs, expected)
    own_mean, their_mean = (own - expected).abs().mean(), (theirs - expected).abs().mean()
    print(f"  from fp32: plaudit {own_off:.4f} (mean {own_mean:.5f}), transformers bf16 {their_off:.4f} (mean {their_mean:.5f})",
          flush=True)
    assert own_off < RATIO * their_off and own_mean < RATIO * their_mean, "further from fp32 than transformers is"


def shallow(plaudit, options):
    from_exact(plaudit, make(options.folder / "shallow", options.tiny, 4, 3, "cuda"), 8)


def eight_bits(plaudit, folder):
    """Memory of the model in bf16 and with weights of eight bits, with what 64 windows need, and how far logits are apart."""
    def used():
        free, total = torch.cuda.mem_get_info()
        return (total - free) / 2**20

    logits = {}
    for name in (f"int8:{folder}", folder):
        before = used()
        logits[name] = torch.tensor(plaudit.ask("logits", name, 64, "videos")["logits"])
        print(f"  {name}: {used() - before:.0f} MiB on the GPU for it and 64 windows", flush=True)
    eight, full = logits.values()
    print(f"  logits of 8 bits from bf16: {largest(eight, full):.4f} at most, {(eight - full).abs().mean():.5f} on average; spread {full.std():.3f}",
          flush=True)


def whole(plaudit, options):
    folder = make(options.folder / "whole", options.tiny, 36, 24, "cuda")
    eight_bits(plaudit, folder)
    peer = Transformers(folder, torch.bfloat16, "cuda")
    for windows, rounds in ((64, options.rounds), (1, 5), (8, 5), (32, 5)):
        inputs = peer.inputs(windows)
        print(f"{windows} windows of {inputs['input_ids'].shape[1]} tokens", flush=True)
        if windows == 64:
            own = torch.tensor(plaudit.ask("logits", folder, windows, "videos")["logits"])
            theirs = peer.logits(inputs)[:, :LABELS]
            print(f"  logits of both in bf16: largest difference {largest(own, theirs):.4f}, mean "
                  f"{(own - theirs).abs().mean():.5f}; spread {theirs.std():.3f}", flush=True)
        work = {
            "transformers prefill": lambda: timed(lambda: peer.logits(inputs)),
            "transformers generate, 4 tokens": lambda: timed(lambda: peer.generate(inputs)),
            "plaudit": lambda: plaudit.ask("score", folder, windows, "videos", 0, 1)["milliseconds"][0],
            "plaudit, shared prefix": lambda: plaudit.ask("score", folder, windows, "shared", 0, 1)["milliseconds"][0],
            "plaudit, prefix and pairs": lambda: plaudit.ask("score", folder, windows, "shared", 2, 1)["milliseconds"][0],
            "plaudit, 8 bits": lambda: plaudit.ask("score", f"int8:{folder}", windows, "videos", 0, 1)["milliseconds"][0],
        }
        for call in work.values():
            call()
        times = {name: [] for name in work}
        for _ in range(rounds):
            for name, call in work.items():
                times[name].append(call())
        for name, values in times.items():
            ratios = [a / b for a, b in zip(times["transformers prefill"], values)]
            print(f"  {name:32} ms {show(values)}  prefill of transformers is {statistics.median(ratios):.2f} times that "
                  f"({min(ratios):.2f}-{max(ratios):.2f})", flush=True)
    for layout in ("videos", "shared"):
        kernels = plaudit.ask("kernels", folder, 64, layout)
        print(f"kernels of 64 windows, {layout}: {sum(row['ms'] for row in kernels):.1f} ms")
        for row in kernels:
            print(f"  {row['kernel']:24} {row['ms']:8.2f} ms in {row['calls']} calls", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=ROOT / "target/release/examples/qwen3_vl_cuda")
    parser.add_argument("--tiny", type=pathlib.Path, default=ROOT / "crates/nn/tests/qwen3_vl/model")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/dev/shm/plaudit"), help="for 10 GB of weights")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="matmul tiny shallow whole")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    failed = []
    for part in (matmul, tiny, shallow, whole):
        if part.__name__ not in options.only.split():
            continue
        print(f"== {part.__name__}", flush=True)
        plaudit = Plaudit(options.program)
        start = time.perf_counter()
        try:
            part(plaudit, options)
        except Exception:  # the parts after it are still worth their time
            failed.append(part.__name__)
            traceback.print_exc(file=sys.stdout)
        plaudit.process.kill()
        torch.cuda.empty_cache()
        print(f"   {time.perf_counter() - start:.0f} s", flush=True)
    sys.exit(f"failed: {failed}" if failed else 0)


if __name__ == "__main__":
    main()

"""Training of adapters on Qwen3-VL on an NVIDIA GPU compared with transformers: checks, then times, in one go.

    python bench/qwen3_vl/lora.py --program target/release/examples/qwen3_vl_lora      # torch with CUDA, transformers

Rank 16 on all linear layers of the language model, AdamW, gradients clipped; three tokens of each answer are learned. Windows and random
weights are those of h200.py. Adapters of transformers are inserted here, as the peft package computes under bf16 autocast; with --peft,
whole also times the package itself. Parts, each of which goes on when one before it fails:

    tiny       the model of the tests, adapters on every linear layer: gradients and five losses on the GPU and on the CPU in fp32
    shallow    the widths of Qwen3-VL-4B, 4 of 36 layers, 3 of 24 blocks: both in bf16 compared with transformers in fp32
    whole      all of Qwen3-VL-4B: milliseconds in turns, memory, and the time of each kernel
"""

import argparse
import json
import pathlib
import statistics
import sys
import time
import traceback

import torch
from safetensors.torch import load_file
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

from h200 import ROOT, Plaudit, make, show
from windows import batch

# What rounding to bf16 may do to gradients: on the tests' model each may be this share of its length from fp32, and on average and
# at most they may be this many times as far as those of transformers in bf16.
SHARE, RATIO = 0.08, 1.5
RANK, LEARNING_RATE = 16, 1e-4
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class Lora(torch.nn.Module):
    def __init__(self, base, down, up, scale):
        super().__init__()
        self.base, self.scale = base, scale
        self.down, self.up = (torch.nn.Parameter(x.to(base.weight.device, torch.float32)) for x in (down, up))

    def forward(self, x):
        down, up = self.down.to(x.dtype), self.up.to(x.dtype)
        return self.base(x) + (x @ down.T) @ up.T * self.scale


class Peer:
    """transformers with adapters."""

    def __init__(self, folder, adapter, dtype, device):
        kind = {"dtype": dtype, "attn_implementation": "sdpa"}
        self.model = Qwen3VLForConditionalGeneration.from_pretrained(folder, **kind).to(device).train()
        self.model.requires_grad_(False)
        self.model.config.use_cache = False
        self.processor, self.dtype, self.device = AutoProcessor.from_pretrained(folder), dtype, device
        scale = json.loads((adapter / "adapter_config.json").read_text())["lora_alpha"] / RANK
        stored = load_file(adapter / "adapter_model.safetensors")
        self.adapters = {}
        for name, layer in list(self.model.named_modules()):
            down = stored.get(f"base_model.model.{name}.lora_A.weight")
            if down is None:
                continue
            lora = Lora(layer, down, stored[f"base_model.model.{name}.lora_B.weight"], scale)
            parent, last = name.rsplit(".", 1)
            setattr(self.model.get_submodule(parent), last, lora)
            self.adapters[name] = lora
        assert len(self.adapters) == len(stored) // 2
        self.parameters = [x for lora in self.adapters.values() for x in (lora.down, lora.up)]
        fused = {"fused": True} if device == "cuda" else {}
        self.optimizer = torch.optim.AdamW(self.parameters, lr=LEARNING_RATE, weight_decay=0.01, **fused)

    def inputs(self, windows, ids):
        """Prompts with what plaudit says of answers."""
        inputs = {k: v.to(self.device) for k, v in batch(self.processor, windows).items()}
        ids = torch.tensor(ids, device=self.device)
        prompt = inputs["input_ids"].shape[1]
        assert torch.equal(ids[:, :prompt], inputs["input_ids"]), "other prompts"
        more = ids.shape[1] - prompt
        for name, values in inputs.items():
            if values.shape == (windows, prompt):
                tail = torch.full_like(values[:, :more], 1 if name == "attention_mask" else 0)
                inputs[name] = torch.cat([values, tail], 1)
        inputs["input_ids"] = ids
        return dict(inputs, pixel_values_videos=inputs["pixel_values_videos"].to(self.dtype))

    def loss(self, inputs, targets):
        kept = inputs["input_ids"].shape[1] - targets[0][0][0]
        logits = self.model(**inputs, logits_to_keep=kept, use_cache=False).logits[:, : len(targets[0])]
        tokens = torch.tensor([[token for _, token in row] for row in targets], device=self.device)
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())

    def gradients(self, inputs, targets):
        self.optimizer.zero_grad()
        loss = self.loss(inputs, targets)
        loss.backward()
        found = {}
        for name, lora in self.adapters.items():
            found[f"base_model.model.{name}.lora_A.weight"] = lora.down.grad.clone()
            found[f"base_model.model.{name}.lora_B.weight"] = lora.up.grad.clone()
        return loss.item(), found

    def step(self, inputs, targets):
        self.optimizer.zero_grad()
        loss = self.loss(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        return loss


class PeftPeer(Peer):
    """transformers with the adapters of peft, as it loads them: of 32 bits, and so are the products with them."""

    def __init__(self, folder, adapter, dtype, device):
        from peft import PeftModel

        kind = {"dtype": dtype, "attn_implementation": "sdpa"}
        base = Qwen3VLForConditionalGeneration.from_pretrained(folder, **kind).to(device)
        base.config.use_cache = False
        self.model = PeftModel.from_pretrained(base, adapter, is_trainable=True).train()
        self.processor, self.dtype, self.device = AutoProcessor.from_pretrained(folder), dtype, device
        self.parameters = [x for x in self.model.parameters() if x.requires_grad]
        fused = {"fused": True} if device == "cuda" else {}
        self.optimizer = torch.optim.AdamW(self.parameters, lr=LEARNING_RATE, weight_decay=0.01, **fused)


def tiny(plaudit, options):
    for targets in ("all", "q_proj,v_proj", "qkv,proj"):
        result = plaudit.ask("check", options.tiny, targets)
        print(" ", targets, json.dumps(result), flush=True)
        assert result["recomputing_is_the_same"] and result["repeats"] and result["resumes"], "other bits"
        assert result["worst"][0][0] < SHARE, "gradients are off"
        for (cpu, gpu), _ in result["losses_and_norms"]:
            assert abs(cpu - gpu) < 0.02 * abs(cpu), "losses are off"


def distances(found, expected):
    return [((found[name] - values).norm() / values.norm()).item() for name, values in expected.items()]


def shallow(plaudit, options):
    folder = options.tiny if options.device == "cpu" else make(options.folder / "shallow", options.tiny, 4, 3, "cuda")
    adapter, file, windows = options.folder / "adapter", options.folder / "gradients.safetensors", 3 if options.device == "cpu" else 8
    print(" ", plaudit.ask("open", folder, "auto"))
    plaudit.ask("write", adapter)
    answer = plaudit.ask("gradients", windows, file)
    own = {name: values.to(options.device) for name, values in load_file(file).items()}
    results = {}
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        peer = Peer(folder, adapter, dtype, options.device)
        inputs = peer.inputs(windows, answer["ids"])
        loss, gradients = peer.gradients(inputs, answer["targets"])
        losses = [peer.step(inputs, answer["targets"]).item() for _ in range(5)]
        results[name] = loss, gradients, losses
        del peer
        if options.device == "cuda":
            torch.cuda.empty_cache()
    exact, theirs = results["fp32"], results["bf16"]
    print(f"  loss: plaudit {answer['loss']:.5f}, transformers fp32 {exact[0]:.5f}, bf16 {theirs[0]:.5f}")
    own_off, their_off = distances(own, exact[1]), distances(theirs[1], exact[1])
    print(f"  gradients of {len(own_off)} matrices from fp32, relative: plaudit {statistics.mean(own_off):.4f} on average, {max(own_off):.4f} at most; "
          f"transformers bf16 {statistics.mean(their_off):.4f}, {max(their_off):.4f}", flush=True)
    plaudit.ask("open", folder, "true")
    print(f"  losses of five steps: plaudit {plaudit.ask('losses', windows, 5)['losses']}\n    transformers fp32 {exact[2]}\n    bf16 {theirs[2]}", flush=True)
    assert max(own_off) < RATIO * max(their_off) and statistics.mean(own_off) < RATIO * statistics.mean(their_off), "further from fp32"


def timed(call):
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def whole(plaudit, options):
    folder = make(options.folder / "whole", options.tiny, 36, 24, "cuda")
    adapter = options.folder / "whole-adapter"
    mebibytes = lambda count: f"{count / 2**20:.0f} MiB"
    before = torch.cuda.mem_get_info()
    print("  in use before:", mebibytes(before[1] - before[0]))
    cases = ((1, "false"), (8, "false"), (32, "false"), (1, "true"), (8, "true"), (32, "true"), (64, "auto"))
    own = {}
    for recompute in ("true", "false", "auto"):
        opened = plaudit.ask("open", folder, recompute)
        print(f"  opened ({recompute}): {opened['seconds']:.1f} s, {mebibytes(opened['memory'])} in use", flush=True)
        for windows in [windows for windows, wanted in cases if wanted == recompute]:
            answer = plaudit.ask("step", windows, options.rounds)
            own[windows, recompute] = answer["milliseconds"]
            print(f"  plaudit, {windows} windows of {answer['tokens']} tokens, recomputes {answer['recomputes']}: ms {show(answer['milliseconds'])}, "
                  f"{mebibytes(answer['memory'])} in use by all", flush=True)
        if recompute == "false":
            plaudit.ask("write", adapter)
            for windows in (8, 32):
                kernels = plaudit.ask("kernels", windows)
                print(f"  kernels of {windows} windows: {sum(row['ms'] for row in kernels):.1f} ms")
                for row in kernels:
                    print(f"    {row['kernel']:32} {row['ms']:8.2f} ms in {row['calls']} calls", flush=True)
    answer = plaudit.ask("gradients", 32, options.folder / "unused.safetensors")
    plaudit.process.kill()
    if options.no_peer:
        return
    for name, kind in [("transformers", Peer)] + [("transformers and peft", PeftPeer)] * options.peft:
        peer = kind(folder, adapter, torch.bfloat16, "cuda")
        for windows in (1, 8, 32):
            inputs, targets = peer.inputs(windows, answer["ids"][:windows]), answer["targets"][:windows]
            torch.cuda.reset_peak_memory_stats()
            for _ in range(2):
                peer.step(inputs, targets)
            theirs = [timed(lambda: peer.step(inputs, targets)) for _ in range(options.rounds)]
            ratios = [a / b for a, b in zip(sorted(theirs), sorted(own[windows, "false"]))]
            print(f"  {name}, {windows} windows: ms {show(theirs)}, {mebibytes(torch.cuda.max_memory_allocated())} allocated; "
                  f"{statistics.median(ratios):.2f} times plaudit ({min(ratios):.2f}-{max(ratios):.2f})", flush=True)
        del peer
        torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=ROOT / "target/release/examples/qwen3_vl_lora")
    parser.add_argument("--tiny", type=pathlib.Path, default=ROOT / "crates/nn/tests/qwen3_vl/model")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/dev/shm/plaudit"), help="for 10 GB of weights")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cuda", help="of transformers; `cpu` compares on the tests' model alone")
    parser.add_argument("--no-peer", action="store_true", help="without the times of transformers")
    parser.add_argument("--peft", action="store_true", help="also time the peft package")
    parser.add_argument("--only", default="tiny shallow whole")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    failed = []
    for part in (tiny, shallow, whole):
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
        if options.device == "cuda":
            torch.cuda.empty_cache()
        print(f"   {time.perf_counter() - start:.0f} s", flush=True)
    sys.exit(f"failed: {failed}" if failed else 0)


if __name__ == "__main__":
    main()

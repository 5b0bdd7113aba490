"""Goldens of a tiny random Qwen3-VL, made smaller for this repository.

usage: python compact_goldens.py FOLDER

FOLDER holds `cases/*.safetensors` as transformers 5.22.2 and peft 0.21.2 (torch 2.15, f32, eager) computed them with
the model and adapter beside this file. Kept here are what the tests read; pixel values
become the bytes they were made of, and frames that two cases share are kept once.
"""

import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file

KEPT = ("input_ids", "position_ids", "rope_deltas", "generated", "label_first_logprob", "logits_last", "logits_mid")


def main() -> None:
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent / "cases"
    target.mkdir(exist_ok=True)
    for file in sorted((source / "cases").glob("*.safetensors")):
        case = load_file(file)
        kept = {k: v for k, v in case.items() if k in KEPT or k.startswith(("vision.merged", "vision.deepstack"))}
        if file.stem not in ("dualview_5frames", "lora_dualview_rlinf"):
            kept |= {k: v for k, v in case.items() if k.startswith("raw.")}
        if "pixel_values" in case:
            levels = (case["pixel_values"] + 1) * 127.5
            assert torch.allclose(levels, levels.round(), atol=1e-3)
            kept["pixel_bytes"] = levels.round().to(torch.uint8)
        save_file(kept, target / file.name)


main()

"""Adapters of every kind that the peft package saves for the tiny model beside this file, and the logits with them.

usage: python make_adapters.py    (peft 0.21, transformers 5.23, torch 2.15, f32, eager)

Written: `adapters/NAME/` as peft saves it, and `adapters/NAME.safetensors` with the logits of the window of `three_frames`.
"""

import json
import pathlib
import shutil

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file

from make_more import HERE, load, metadata, processor, video, window_text

CASES = {
    "bias_all": dict(target_modules=["q_proj", "qkv"], bias="all"),
    "bias_lora_only": dict(target_modules=["qkv", "linear_fc1"], bias="lora_only"),
    "dora": dict(target_modules=["q_proj", "down_proj", "proj"], use_dora=True),
    "embeddings": dict(target_modules=["embed_tokens", "v_proj"]),
    "modules_to_save": dict(target_modules=["o_proj"], modules_to_save=["merger", "norm1", "q_norm"]),
    "rslora": dict(target_modules=["gate_proj", "up_proj"], use_rslora=True),
}


def main() -> None:
    few = [video(3000, 3, 64, 64), video(3100, 3, 64, 64)]
    inputs = processor(text=[window_text("Push")], videos=few, video_metadata=metadata(few, 2.0),
                       do_sample_frames=False, return_tensors="pt")
    inputs = {k: v for k, v in inputs.items() if isinstance(v, torch.Tensor)}
    plain = load()
    with torch.no_grad():
        base = plain(**inputs).logits[0]
    (HERE / "adapters").mkdir(exist_ok=True)
    for name, settings in CASES.items():
        model = get_peft_model(load(), LoraConfig(r=2, lora_alpha=3, lora_dropout=0.0, **settings)).eval()
        torch.manual_seed(len(name))
        # As if it was trained: everything that learns is elsewhere now.
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data += 0.1 * torch.randn_like(parameter)
        with torch.no_grad():
            logits = model(**inputs).logits[0]
        assert (logits - base).abs().max() > 1e-2, name
        folder = HERE / "adapters" / name
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        config = json.loads((folder / "adapter_config.json").read_text())
        config["base_model_name_or_path"] = None
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
        kept = {"input_ids": inputs["input_ids"], "logits_last": logits[-1:], "logits_mid": logits[len(logits) // 2][None]}
        save_file({k: v.contiguous() for k, v in kept.items()}, HERE / "adapters" / f"{name}.safetensors")
        print(name, (logits - base).abs().max().item())


if __name__ == "__main__":
    main()

"""Logits that transformers and peft give for prompts that plaudit prepared. Needs torch, transformers and peft.

    python logits.py BASE ADAPTER PROMPTS

PROMPTS is JSON: a list of {ids, grids, patches}, patches being bytes of pixels. Prints a list of logits of the last token.
"""

import json
import sys

import torch
from peft import PeftModel
from transformers import Qwen3VLForConditionalGeneration


def last_logits(model, prompt):
    ids = torch.tensor([prompt["ids"]])
    shown = {}
    if prompt["grids"]:
        pixels = torch.tensor(prompt["patches"], dtype=torch.float32)
        # The processors' scale: bytes to -1 .. 1.
        shown["pixel_values_videos"] = (pixels / 255.0 - 0.5) / 0.5
        shown["video_grid_thw"] = torch.tensor(prompt["grids"])
        shown["mm_token_type_ids"] = torch.tensor([[2 if id == model.config.video_token_id else 0 for id in prompt["ids"]]])
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=torch.ones_like(ids), **shown).logits[0, -1].tolist()


def main(base, adapter, prompts):
    torch.set_num_threads(1)
    model = Qwen3VLForConditionalGeneration.from_pretrained(base, dtype=torch.float32)
    with open(prompts) as file:
        prompts = json.load(file)
    plain = [last_logits(model, prompt) for prompt in prompts]
    tuned = PeftModel.from_pretrained(model, adapter)
    tuned.eval()
    layers = sum(name.endswith("lora_A.default.weight") for name in tuned.state_dict())
    print(json.dumps({"layers": layers, "plain": plain, "tuned": [last_logits(tuned, prompt) for prompt in prompts]}))


main(*sys.argv[1:])

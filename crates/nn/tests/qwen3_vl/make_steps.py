"""One step of training, by transformers 5.22.2 and peft 0.21.2 (torch 2.15, f32, eager).

usage: python make_steps.py

`more/lora_step.safetensors`: RLinf's fine-tuning with the adapter beside this file: the loss on the answer with the
template around it, every gradient, and every adapter after one step of AdamW, clipped. `more/full_step.safetensors`:
all weights learn the first token of the answer; of each gradient its length and first numbers.
"""

import torch
from make_more import HERE, load, metadata, processor, video, window_text
from peft import PeftModel
from safetensors.torch import save_file

ROWS = [
    ("Pick up the red cube and place it on the green spot on the table.", "positive"),
    ("Open the drawer slowly", "unclear"),
    ("put the blue mug inside", "negative"),
]
FIRST = 32


def batch(tail: bool):
    """The windows with their answers and, as RLinf has it, the beginning of another answer."""
    videos = [video(4000 + 100 * i, 5, 128, 128) for i in range(2 * len(ROWS))]
    prompts = [window_text(task) for task, _ in ROWS]
    ends = [f"{answer}<|im_end|>\n<|im_start|>assistant\n" if tail else "" for _, answer in ROWS]
    inputs = processor(text=[p + e for p, e in zip(prompts, ends)], videos=videos, padding=True,
                       video_metadata=metadata(videos, 24.0), do_sample_frames=True, return_tensors="pt")
    return {k: v for k, v in inputs.items() if isinstance(v, torch.Tensor)}


def lora_step() -> None:
    model = PeftModel.from_pretrained(load(), HERE / "lora", is_trainable=True)
    inputs = batch(tail=True)
    labels = torch.full_like(inputs["input_ids"], -100)
    for row, (_, answer) in enumerate(ROWS):
        end = len(processor.tokenizer(f"{answer}<|im_end|>\n<|im_start|>assistant\n")["input_ids"])
        labels[row, -end:] = inputs["input_ids"][row, -end:]
    learned = {n: p for n, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(learned.values(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    loss = model(**inputs, labels=labels).loss
    loss.backward()
    kept = {"loss": loss.detach()[None]}
    name = lambda n: n.replace(".default.", ".")
    kept |= {f"grad.{name(n)}": p.grad.clone() for n, p in learned.items()}
    kept["grad_norm"] = torch.nn.utils.clip_grad_norm_(learned.values(), 1.0)[None]
    optimizer.step()
    kept |= {f"after.{name(n)}": p.detach().clone() for n, p in learned.items()}
    with torch.no_grad():
        kept["loss_after"] = model(**inputs, labels=labels).loss[None]
    save_file({k: v.contiguous() for k, v in kept.items()}, HERE / "more" / "lora_step.safetensors")


def full_step() -> None:
    model = load()
    inputs = batch(tail=False)
    logits = model(**inputs).logits[:, -1]
    targets = torch.tensor([processor.tokenizer(answer)["input_ids"][0] for _, answer in ROWS])
    loss = torch.nn.functional.cross_entropy(logits, targets)
    loss.backward()
    kept = {"loss": loss.detach()[None]}
    for name, p in model.named_parameters():
        kept[f"length.{name}"] = p.grad.norm()[None]
        kept[f"first.{name}"] = p.grad.flatten()[:FIRST].clone()
    save_file(kept, HERE / "more" / "full_step.safetensors")


lora_step()
full_step()

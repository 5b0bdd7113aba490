"""Further cases with the tiny model beside this file, computed by transformers 5.22.2 (torch 2.15, f32, eager).

usage: python make_more.py

Frames come from a formula that the test repeats, so that they need not be stored. Written: `more/*.safetensors`.
"""

import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoProcessor, Qwen3VLConfig, Qwen3VLForConditionalGeneration

HERE = pathlib.Path(__file__).parent
QUESTION = (
    "You are currently performing the task: {}. You are given two synchronized 5-frame videos from different camera "
    "views (main view and third-person view) of the same robot action window. Judge whether the action trend is "
    "positive, negative, or unclear. Answer with exactly one word: positive, negative, or unclear."
)


def image(seed: int, height: int, width: int) -> np.ndarray:
    """A horizontal ramp with noise."""
    i = np.arange(height * width * 3, dtype=np.uint64)
    noise = ((i * 2654435761 + seed * 40503 + 12345) % 2**32) >> 24
    ramp = (i // 3 % width) * 128 // width
    return (noise // 2 + ramp).astype(np.uint8).reshape(height, width, 3)


def video(seed: int, frames: int, height: int, width: int) -> torch.Tensor:
    stack = np.stack([image(seed + t, height, width) for t in range(frames)])
    return torch.from_numpy(stack).permute(0, 3, 1, 2)


def window_text(task: str) -> str:
    content = "<|video_pad|>\n<|video_pad|>\n\n" + QUESTION.format(task)
    return f"<|im_start|>user\n{content}<|im_end|>\n<|im_start|>assistant\n"


def metadata(videos, fps):
    return [{"total_num_frames": len(v), "fps": fps, "frames_indices": list(range(len(v)))} for v in videos]


def save(name: str, model, inputs, new_tokens: int = 0) -> None:
    inputs = {k: v for k, v in inputs.items() if isinstance(v, torch.Tensor)}
    with torch.no_grad():
        out = model(**inputs)
        positions, _ = model.model.get_rope_index(
            inputs["input_ids"], inputs["mm_token_type_ids"], inputs.get("image_grid_thw"),
            inputs.get("video_grid_thw"), attention_mask=inputs["attention_mask"],
        )
    kept = {k: inputs[k] for k in ("input_ids", "attention_mask")}
    kept["position_ids"] = positions
    rows = [m.nonzero().flatten() for m in inputs["attention_mask"]]
    kept["logits_last"] = torch.stack([l[r[-1]] for l, r in zip(out.logits, rows)])
    kept["logits_mid"] = torch.stack([l[r[len(r) // 2]] for l, r in zip(out.logits, rows)])
    if new_tokens:
        with torch.no_grad():
            answer = model.generate(**inputs, max_new_tokens=new_tokens, do_sample=False, eos_token_id=[])
        kept["generated"] = answer[:, inputs["input_ids"].shape[1]:]
    (HERE / "more").mkdir(exist_ok=True)
    save_file({k: v.contiguous() for k, v in kept.items()}, HERE / "more" / f"{name}.safetensors")


processor = AutoProcessor.from_pretrained(HERE / "model")


def load(**more):
    kind = {"attn_implementation": "eager", "dtype": torch.float32, **more}
    return Qwen3VLForConditionalGeneration.from_pretrained(HERE / "model", **kind).eval()


def main() -> None:
    model = load()

    tasks = ["Pick up the red cube.", "Stack", "Insert the peg into the hole of the box on the table, slowly"]
    videos = [video(100 * i, 5, 64, 96) for i in range(6)]
    for side in ("left", "right"):
        processor.tokenizer.padding_side = side
        inputs = processor(text=[window_text(t) for t in tasks], videos=videos, video_metadata=metadata(videos, 24.0),
                           do_sample_frames=True, padding=True, return_tensors="pt")
        save(f"batch3_{side}", model, inputs, 5 if side == "left" else 0)

    sizes = [(64, 64), (32, 96), (64, 64), (50, 70), (33, 128), (64, 64), (128, 32), (80, 48), (64, 64), (96, 96)]
    images = [image(1000 + i, h, w) for i, (h, w) in enumerate(sizes)]
    text = "<|im_start|>user\n" + "<|vision_start|><|image_pad|><|vision_end|>" * 10 + "Which one?<|im_end|>\n"
    save("ten_images", model, processor(text=[text + "<|im_start|>assistant\n"], images=images, return_tensors="pt",
                                        size={"shortest_edge": 1024, "longest_edge": 8192}))

    clips = [video(2000, 7, 20, 50), video(2100, 11, 96, 160)]
    text = ("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n<|vision_start|><|video_pad|><|vision_end|>"
            "<|vision_start|><|image_pad|><|vision_end|>Then: <|vision_start|><|video_pad|><|vision_end|>"
            "What’s new, naïve café № 7?\n\n  Tell\tme 123!<|im_end|>\n<|im_start|>assistant\n")
    save("mixed", model, processor(text=[text], images=[image(2200, 40, 60)], videos=clips,
                                   video_metadata=metadata(clips, 4.0), do_sample_frames=True, return_tensors="pt"))

    few = [video(3000, 3, 64, 64), video(3100, 3, 64, 64)]
    save("three_frames", model, processor(text=[window_text("Push")], videos=few, video_metadata=metadata(few, 2.0),
                                          do_sample_frames=False, return_tensors="pt"))

    # A head of its own, from a formula.
    config = Qwen3VLConfig.from_pretrained(HERE / "model")
    config.tie_word_embeddings = config.text_config.tie_word_embeddings = False
    untied = load(config=config)
    i = torch.arange(512 * 64, dtype=torch.float64).reshape(512, 64)
    untied.lm_head.weight.data = (0.2 * torch.sin(0.37 * i)).float()
    save("untied", untied, processor(text=[window_text("Push")], videos=few, video_metadata=metadata(few, 2.0),
                                     do_sample_frames=False, return_tensors="pt"))

    for dtype in ("bfloat16",):
        half = load().to(getattr(torch, dtype))
        inputs = processor(text=[window_text("Push")], videos=few, video_metadata=metadata(few, 2.0),
                           do_sample_frames=False, return_tensors="pt")
        inputs["pixel_values_videos"] = inputs["pixel_values_videos"].to(half.dtype)
        save("bf16", half, inputs)

    # The windows of `batch3_left` one by one in bf16: how far rounding alone may lead.
    inputs_of = lambda i: processor(
        text=[window_text(tasks[i])], videos=videos[2 * i:2 * i + 2], do_sample_frames=True, return_tensors="pt",
        video_metadata=metadata(videos[2 * i:2 * i + 2], 24.0),
    )
    last = []
    for i in range(3):
        inputs = {k: v for k, v in inputs_of(i).items() if isinstance(v, torch.Tensor)}
        inputs["pixel_values_videos"] = inputs["pixel_values_videos"].to(half.dtype)
        with torch.no_grad():
            last.append(half(**inputs).logits[0, -1].float())
    save_file({"logits_last": torch.stack(last)}, HERE / "more" / "bf16_windows.safetensors")


if __name__ == "__main__":
    main()

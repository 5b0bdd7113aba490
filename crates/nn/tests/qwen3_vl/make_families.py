"""Tiny random models of Qwen2.5-VL and Qwen3-VL-MoE, and what transformers computes with them.

usage: python make_families.py    (transformers 5.23, peft 0.21, torch 2.15, f32, eager)

Written: `families/NAME/` (config.json, model.safetensors in bf16, settings of processors; the tokenizer is that of `model/`) and
`families/NAME_CASE.safetensors`. Frames come from the formula of `make_more.py`.
"""

import json

import torch
from make_more import HERE, image, metadata, video
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import (
    AutoTokenizer, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor, Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor, Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration, Qwen3VLProcessor, Qwen3VLVideoProcessor,
)

SPECIAL = {"image_token_id": 452, "video_token_id": 453, "vision_start_token_id": 449, "vision_end_token_id": 450}
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
OUT = HERE / "families"
tokenizer = AutoTokenizer.from_pretrained(HERE / "model")


def random(model, seed: int):
    """Weights of bf16 that make a difference everywhere."""
    torch.manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn_like(parameter)
        is_scale = name.endswith(("norm.weight", "norm1.weight", "norm2.weight", "ln_q.weight"))
        parameter.data = (1 + 0.2 * noise) if is_scale else noise * (0.3 if "experts" in name or "gate" in name else 0.15)
        parameter.data = parameter.data.bfloat16().float()
    return model.eval()


def save(name: str, model, inputs, new_tokens: int = 0) -> None:
    inputs = {k: v for k, v in inputs.items() if isinstance(v, torch.Tensor)}
    with torch.no_grad():
        out = model(**inputs)
        more = {"second_per_grid_ts": inputs["second_per_grid_ts"]} if "second_per_grid_ts" in inputs else {}
        positions, _ = model.model.get_rope_index(
            inputs["input_ids"], inputs["mm_token_type_ids"], inputs.get("image_grid_thw"), inputs.get("video_grid_thw"),
            attention_mask=inputs["attention_mask"], **more)
    logits = out.logits[0]
    kept = {"input_ids": inputs["input_ids"], "position_ids": positions,
            "logits_last": logits[-1:].clone(), "logits_mid": logits[len(logits) // 2][None].clone()}
    if new_tokens:
        with torch.no_grad():
            answer = model.generate(**inputs, max_new_tokens=new_tokens, do_sample=False, eos_token_id=[], pad_token_id=0)
        kept["generated"] = answer[:, inputs["input_ids"].shape[1]:]
    save_file({k: v.contiguous() for k, v in kept.items()}, OUT / f"{name}.safetensors")
    print(name, inputs["input_ids"].shape, logits[-1].abs().max().item())


def written(name: str, model):
    """The model as it comes back from its folder; `to` would have rounded frequencies too."""
    model.to(torch.bfloat16).save_pretrained(OUT / name)
    (OUT / name / "generation_config.json").unlink(missing_ok=True)
    return type(model).from_pretrained(OUT / name, attn_implementation="eager", dtype=torch.float32).eval()


def qwen2_5_vl() -> None:
    name = "qwen2_5_vl"
    config = Qwen2_5_VLConfig(
        text_config=dict(vocab_size=512, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
                         num_key_value_heads=1, max_position_embeddings=4096, rms_norm_eps=1e-6, tie_word_embeddings=True,
                         rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[2, 3, 3])),
        vision_config=dict(depth=2, hidden_size=24, intermediate_size=44, num_heads=1, patch_size=14, spatial_merge_size=2,
                           temporal_patch_size=2, tokens_per_second=2, window_size=56, fullatt_block_indexes=[1],
                           out_hidden_size=32),
        tie_word_embeddings=True, **SPECIAL)
    model = random(Qwen2_5_VLForConditionalGeneration._from_config(config, attn_implementation="eager", dtype=torch.float32), 25)
    model = written(name, model)
    settings = dict(min_pixels=28 * 28, max_pixels=28 * 28 * 64, patch_size=14, temporal_patch_size=2, merge_size=2, **CLIP)
    (OUT / name / "preprocessor_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    processor = Qwen2_5_VLProcessor(Qwen2VLImageProcessor(**settings), tokenizer, Qwen2VLVideoProcessor(**settings))
    ask = lambda content: ("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
                           f"<|im_start|>user\n{content}<|im_end|>\n<|im_start|>assistant\n")
    shown = "<|vision_start|><|video_pad|><|vision_end|>"

    def videos(clips, rate, **more):
        content = "\n".join([shown] * len(clips)) + "\n\nIs it done?"
        return processor(text=[ask(content)], videos=clips, video_metadata=metadata(clips, rate), return_tensors="pt", **more)

    save(f"{name}_window", model, videos([video(5000, 5, 84, 140), video(5100, 5, 84, 140)], 3.0, do_sample_frames=False), 5)
    save(f"{name}_sampled", model, videos([video(5200, 11, 100, 60)], 4.0, do_sample_frames=True, fps=2.0))
    content = "<|vision_start|><|image_pad|><|vision_end|>" * 2 + "Which one?"
    save(f"{name}_images", model, processor(text=[ask(content)], images=[image(5300, 90, 200), image(5301, 56, 56)],
                                            return_tensors="pt"), 5)

    # An adapter on layers of both halves.
    torch.manual_seed(3)
    tuned = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "down_proj", "qkv"], init_lora_weights=False))
    window = videos([video(5000, 5, 84, 140), video(5100, 5, 84, 140)], 3.0, do_sample_frames=False)
    inputs = {k: v for k, v in window.items() if isinstance(v, torch.Tensor)}
    with torch.no_grad():
        logits = tuned(**inputs).logits[0]
    tuned.save_pretrained(OUT / f"{name}_lora")
    (OUT / f"{name}_lora" / "README.md").unlink(missing_ok=True)
    file = OUT / f"{name}_lora" / "adapter_config.json"
    adapter = json.loads(file.read_text())
    adapter["base_model_name_or_path"] = None
    file.write_text(json.dumps(adapter, indent=1, sort_keys=True) + "\n")
    save_file({"logits_last": logits[-1:].clone()}, OUT / f"{name}_tuned.safetensors")


def qwen3_vl_moe() -> None:
    name = "qwen3_vl_moe"
    config = Qwen3VLMoeConfig(
        text_config=dict(vocab_size=512, hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=2,
                         num_key_value_heads=1, head_dim=16, max_position_embeddings=4096, rms_norm_eps=1e-6,
                         num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, decoder_sparse_step=1,
                         mlp_only_layers=[1], norm_topk_prob=True,
                         rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_section=[4, 2, 2],
                                              mrope_interleaved=True)),
        vision_config=dict(depth=2, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=8, spatial_merge_size=2,
                           temporal_patch_size=2, num_position_embeddings=64, deepstack_visual_indexes=[0],
                           out_hidden_size=32),
        tie_word_embeddings=False, **SPECIAL)
    model = random(Qwen3VLMoeForConditionalGeneration._from_config(config, attn_implementation="eager", dtype=torch.float32), 30)
    model = written(name, model)
    settings = dict(size=dict(shortest_edge=16 * 16, longest_edge=16 * 16 * 64), patch_size=8, temporal_patch_size=2,
                    merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    for file in ("preprocessor_config.json", "video_preprocessor_config.json"):
        (OUT / name / file).write_text(json.dumps(settings, indent=1) + "\n")
    processor = Qwen3VLProcessor(Qwen2VLImageProcessor(**settings), tokenizer, Qwen3VLVideoProcessor(**settings))
    clips = [video(6000, 4, 48, 64)]
    text = "<|im_start|>user\n<|video_pad|>\n\nIs it done?<|im_end|>\n<|im_start|>assistant\n"
    save(f"{name}_window", model, processor(text=[text], videos=clips, video_metadata=metadata(clips, 2.0),
                                            do_sample_frames=False, return_tensors="pt"), 5)


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    qwen2_5_vl()
    qwen3_vl_moe()

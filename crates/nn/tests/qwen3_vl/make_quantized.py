"""The tiny model beside this file with quantised layers, by the packages that write such folders, and what transformers computes with it.

usage: python make_quantized.py    (transformers 5.23, compressed-tensors 0.20, gptqmodel 7.7, torch 2.15, f32, eager)

Written: `quantized/NAME.safetensors`: the tensors that take the place of the weights of two layers, `expected.*` (a layer's weights
dequantised by the package, and logits of the window of `three_frames`), and `quantization_config` in the metadata.

FP8 and compressed-tensors folders are opened by transformers itself, which dequantises them; AWQ and GPTQ layers are packed and
dequantised by gptqmodel (its scales widened to f32 first, so that nothing is rounded to half precision on the way).
"""

import json
import pathlib
import shutil
import tempfile
from types import SimpleNamespace

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationScheme
from gptqmodel.nn_modules.qlinear.torch import TorchLinear
from gptqmodel.nn_modules.qlinear.torch_awq import AwqTorchLinear
from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module
from make_more import HERE, load, metadata, processor, video, window_text
from safetensors.torch import load_file, save_file
from transformers import CompressedTensorsConfig, FineGrainedFP8Config, Qwen3VLForConditionalGeneration

PARTS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
         "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
LAYERS = [f"model.language_model.layers.{i}.{part}" for i in (0, 2) for part in PARTS]
SHOWN = "model.language_model.layers.2.mlp.down_proj"
GROUP = 32


def fp8_tensors(name: str, weight: torch.Tensor) -> dict:
    """E4M3 with scales of blocks, as `weight_scale_inv`."""
    rows, columns = weight.shape
    blocks = weight.reshape(rows // 32, 32, columns // 16, 16)
    scale = blocks.abs().amax((1, 3), keepdim=True) / 448
    codes = (blocks / scale).to(torch.float8_e4m3fn).reshape(rows, columns)
    return {f"{name}.weight": codes, f"{name}.weight_scale_inv": scale[:, 0, :, 0].contiguous()}


def scales_and_zeros(weight: torch.Tensor, bits: int, group: int, symmetric: bool, groups: torch.Tensor):
    """Scale and zero point of each group of each row, and the group of each input."""
    top, count = 2**bits - 1, weight.shape[1] // group
    scales, zeros = torch.empty(weight.shape[0], count), torch.empty(weight.shape[0], count)
    for g in range(count):
        part = weight[:, groups == g]
        low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
        if symmetric:
            high = torch.maximum(-low, high)
            low = -high
        scales[:, g] = ((high - low) / top).clamp(min=1e-8).half().float()
        zeros[:, g] = torch.full_like(low, 2 ** (bits - 1)) if symmetric else torch.round(-low / scales[:, g]).clamp(0, top)
    return scales, zeros


def linear_of(weight: torch.Tensor) -> torch.nn.Linear:
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    linear.weight.data = weight.clone()
    return linear


def awq_tensors(name: str, weight: torch.Tensor, expected: dict) -> dict:
    outputs, inputs = weight.shape
    groups = torch.arange(inputs) // GROUP
    scales, zeros = scales_and_zeros(weight, 4, GROUP, False, groups)
    module = AwqTorchLinear(bits=4, group_size=GROUP, sym=False, desc_act=False, in_features=inputs, out_features=outputs)
    # As AWQ does, which packs weights that were rounded before.
    scale, zero = scales[:, groups], zeros[:, groups]
    rounded = ((weight / scale).round() + zero).clamp(0, 15)
    module.pack(linear_of((rounded - zero) * scale), scales, zeros)
    expected[name] = dequantize_gemm(module.qweight, module.qzeros, module.scales.float(), 4, GROUP).T
    return {f"{name}.{part}": getattr(module, part) for part in ("qweight", "qzeros", "scales")}


def gptq_tensors(name: str, weight: torch.Tensor, expected: dict, bits: int, group: int, symmetric: bool, ordered: bool,
                 second: bool) -> dict:
    outputs, inputs = weight.shape
    size = inputs if group == -1 else group
    groups = torch.arange(inputs) // size
    if ordered:
        torch.manual_seed(inputs)
        groups = groups[torch.randperm(inputs)]
    groups = groups.to(torch.int32)
    scales, zeros = scales_and_zeros(weight, bits, size, symmetric, groups)
    module = TorchLinear(bits=bits, group_size=group, sym=symmetric, desc_act=ordered, in_features=inputs, out_features=outputs)
    module.pack_original(linear_of(weight), scales, zeros, groups)
    stored = {part: getattr(module, part).clone() for part in ("qweight", "qzeros", "scales", "g_idx")}
    module.scales = module.scales.float()
    module.post_init()
    expected[name] = module.dequantize_weight().T
    if not second:
        other = TorchLinear(bits=bits, group_size=group, sym=symmetric, desc_act=ordered, in_features=inputs, out_features=outputs)
        other.pack_original(linear_of(weight), scales, zeros, groups)
        convert_gptq_v2_to_v1_format_module(other, SimpleNamespace(bits=bits, pack_dtype=torch.int32))
        stored["qzeros"] = other.qzeros.clone()
    return {f"{name}.{part}": tensor for part, tensor in stored.items()}


def compressed_tensors(name: str, weight: torch.Tensor, kind: str, scheme: dict) -> dict:
    scheme = QuantizationScheme.model_validate(scheme)
    weights = scheme.weights
    bits, top = weights.num_bits, 2 ** (weights.num_bits - 1)
    size = weights.group_size or weight.shape[1]
    groups = torch.arange(weight.shape[1]) // size
    if weights.type == "float":
        scales, zeros = weight.abs().amax(1, keepdim=True) / 448, None
    else:
        scales, zeros = scales_and_zeros(weight, bits, size, weights.symmetric, groups)
        zeros = (zeros - top).to(torch.int8)
    state = {"weight": weight.clone(), "weight_scale": scales.to(torch.bfloat16).float()}
    if zeros is not None:
        state["weight_zero_point"] = zeros
    state = BaseCompressor.get_value_from_registry(kind).compress(state, scheme)
    return {f"{name}.{part}": tensor for part, tensor in state.items() if tensor is not None}


def weights_of(num_bits: int, kind: str = "int", strategy: str = "group", symmetric: bool = True) -> dict:
    return {"num_bits": num_bits, "type": kind, "strategy": strategy, "symmetric": symmetric, "dynamic": False,
            "group_size": GROUP if strategy == "group" else None, "actorder": None}


def compressed_config(kind: str, weights: dict, ignored: list, activations=None) -> dict:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations, "output_activations": None}
    return {"quant_method": "compressed-tensors", "format": kind, "quantization_status": "compressed", "ignore": ignored,
            "config_groups": {"group_0": group}, "kv_cache_scheme": None, "global_compression_ratio": None}


def main() -> None:
    few = [video(3000, 3, 64, 64), video(3100, 3, 64, 64)]
    inputs = processor(text=[window_text("Push")], videos=few, video_metadata=metadata(few, 2.0),
                       do_sample_frames=False, return_tensors="pt")
    inputs = {k: v for k, v in inputs.items() if isinstance(v, torch.Tensor)}
    plain = load()
    with torch.no_grad():
        base = plain(**inputs).logits[0]
    linears = [name for name, module in plain.named_modules() if isinstance(module, torch.nn.Linear)]
    untouched = [name for name in linears if name not in LAYERS]
    stored = load_file(HERE / "model" / "model.safetensors")
    (HERE / "quantized").mkdir(exist_ok=True)

    def write(name: str, config: dict, tensors: dict, model, shown: torch.Tensor) -> None:
        with torch.no_grad():
            logits = model(**inputs).logits[0].float()
        off = (logits - base).abs().max().item()
        assert (shown - weight(SHOWN)).abs().max() < 0.1 * weight(SHOWN).abs().max(), name
        assert 1e-3 < off < base.abs().max(), (name, off)
        kept = {k: v.contiguous() for k, v in tensors.items()}
        kept |= {"expected.weight": shown.float().contiguous(), "expected.logits_last": logits[-1:].clone(),
                 "expected.logits_mid": logits[len(logits) // 2][None].clone()}
        file = HERE / "quantized" / f"{name}.safetensors"
        save_file(kept, file, metadata={"quantization_config": json.dumps(config)})
        print(name, file.stat().st_size, f"{off:.4f} from the weights before")

    def opened(config: dict, tensors: dict, **settings):
        """By transformers, from a folder of these tensors."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            shutil.copytree(HERE / "model", folder, dirs_exist_ok=True)
            all = {k: v for k, v in stored.items() if k.removesuffix(".weight") not in LAYERS} | tensors
            save_file({k: v.contiguous() for k, v in all.items()}, folder / "model.safetensors", metadata={"format": "pt"})
            model_config = json.loads((folder / "config.json").read_text())
            model_config["quantization_config"] = config
            (folder / "config.json").write_text(json.dumps(model_config))
            return Qwen3VLForConditionalGeneration.from_pretrained(
                folder, attn_implementation="eager", dtype=torch.float32, **settings).eval().float()

    def replaced(expected: dict):
        """The model with these weights."""
        model = load()
        for name, weight in expected.items():
            model.get_submodule(name).weight.data = weight.float().contiguous()
        return model

    weight = lambda name: stored[f"{name}.weight"]

    config = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [32, 16],
              "modules_to_not_convert": untouched}
    tensors = {k: v for name in LAYERS for k, v in fp8_tensors(name, weight(name)).items()}
    model = opened(config, tensors, quantization_config=FineGrainedFP8Config(
        weight_block_size=(32, 16), modules_to_not_convert=untouched, dequantize=True))
    write("fp8", config, tensors, model, model.get_submodule(SHOWN).weight)

    expected = {}
    tensors = {k: v for name in LAYERS for k, v in awq_tensors(name, weight(name), expected).items()}
    config = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True,
              "modules_to_not_convert": ["visual", "lm_head"]}
    write("awq", config, tensors, replaced(expected), expected[SHOWN])

    for name, bits, group, symmetric, ordered, second in [
        ("gptq", 4, GROUP, True, False, False), ("gptq_asymmetric", 4, GROUP, False, False, False),
        ("gptq_act_order_v2", 4, GROUP, False, True, True), ("gptq_8bit_rows", 8, -1, True, False, False),
    ]:
        expected = {}
        tensors = {k: v for layer in LAYERS for k, v in
                   gptq_tensors(layer, weight(layer), expected, bits, group, symmetric, ordered, second).items()}
        config = {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": symmetric, "desc_act": ordered,
                  "checkpoint_format": "gptq_v2" if second else "gptq", "lm_head": False}
        write(name, config, tensors, replaced(expected), expected[SHOWN])

    dynamic = {"num_bits": 8, "type": "int", "strategy": "token", "symmetric": True, "dynamic": True}
    for name, kind, weights, activations in [
        ("compressed_w4a16", "pack-quantized", weights_of(4), None),
        ("compressed_w4a16_asymmetric", "pack-quantized", weights_of(4, symmetric=False), None),
        ("compressed_w8a16", "pack-quantized", weights_of(8, strategy="channel"), None),
        ("compressed_fp8", "float-quantized", weights_of(8, kind="float", strategy="channel"), None),
        ("compressed_w8a8", "int-quantized", weights_of(8, strategy="channel"), dynamic),
    ]:
        config = compressed_config(kind, weights, untouched, activations)
        scheme = {"targets": ["Linear"], "weights": weights}
        tensors = {k: v for layer in LAYERS for k, v in compressed_tensors(layer, weight(layer), kind, scheme).items()}
        # Activations stay as they are here, and so they do in what is compared with.
        quiet = compressed_config(kind, weights, untouched)
        model = opened(quiet, tensors, quantization_config=CompressedTensorsConfig(dequantize=True))
        write(name, config, tensors, model, model.get_submodule(SHOWN).weight)


if __name__ == "__main__":
    main()

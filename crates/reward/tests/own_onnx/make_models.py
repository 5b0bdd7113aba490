"""Reward models of another making, as torch.onnx writes them, and what onnxruntime computes with them.

    pip install torch onnx onnxscript onnxruntime numpy
    python make_models.py        # rewrites the .onnx files and expected.json beside this file

The weights are random and tiny: what is tested is that files are read as they are meant, and that the numbers are those of
onnxruntime. `external.onnx` keeps its weights in a file of their own, which is what torch.onnx does by default.
"""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

HERE = Path(__file__).parent
BATCH, SIDE = 3, 16
MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]


def images(camera, height=SIDE, width=SIDE):
    """As `image_bytes` of the test has them."""
    count = BATCH * height * width * 3
    at = np.arange(count, dtype=np.int64)
    return ((at * 7919 + at // 97 * 31 + camera * 13) % 251).astype(np.uint8).reshape(BATCH, height, width, 3)


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.GELU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 12, 3, 1, 1, groups=4), nn.GroupNorm(3, 12), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )

    def forward(self, image):
        return self.layers(image)


class Logit(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.head = Trunk(), nn.Linear(12, 1)

    def forward(self, image):
        return self.head(self.trunk(image))


class Probability(Logit):
    def forward(self, image):
        return torch.sigmoid(super().forward(image)).squeeze(1)


class TwoCameras(nn.Module):
    """Classes: failure, success, nothing to see."""

    def __init__(self):
        super().__init__()
        self.trunk, self.head = Trunk(), nn.Linear(24, 3)

    def forward(self, main, wrist):
        features = torch.cat([self.trunk(main), self.trunk(wrist)], 1)
        return torch.softmax(self.head(features), 1)


class Bytes(nn.Module):
    """Takes bytes as cameras give them, of any size."""

    def __init__(self):
        super().__init__()
        self.trunk, self.head = Trunk(), nn.Linear(12, 1)

    def forward(self, image):
        image = image.to(torch.float32).permute(0, 3, 1, 2) / 255
        return self.head(self.trunk(image))


class Attention(nn.Module):
    """Patches, attention, layer norm: what is no convolutional network."""

    def __init__(self):
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 16, 4, 4), nn.LayerNorm(16)
        self.qkv, self.out, self.head = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(self.norm(x)).reshape(-1, 16, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, 16, 16))
        return self.head(x.mean(1))


def normalised(raw):
    return ((raw.astype(np.float32) / 255 - np.float32(MEAN)) / np.float32(STD)).transpose(0, 3, 1, 2)


def plain(raw):
    return (raw.astype(np.float32) / 255).transpose(0, 3, 1, 2)


def main():
    float_image = torch.zeros(2, 3, SIDE, SIDE)
    batch = torch.export.Dim("batch")
    cases = {
        # name: model, example inputs, names, dynamic axes, what the test's card says, inputs for onnxruntime, external data
        "logit": (Logit, (float_image,), ["image"], {"image": {0: batch}}, [normalised(images(0))], False),
        "probability": (Probability, (float_image,), ["image"], {"image": {0: batch}}, [plain(images(0))], False),
        "two_cameras": (
            TwoCameras, (float_image, float_image), ["main", "wrist"], {"main": {0: batch}, "wrist": {0: batch}},
            [plain(images(0)), plain(images(1))], False,
        ),
        "bytes": (
            Bytes, (torch.zeros(2, 24, 20, 3, dtype=torch.uint8),), ["image"],
            {"image": {0: batch, 1: torch.export.Dim("height"), 2: torch.export.Dim("width")}}, [images(0, 24, 20)], False,
        ),
        "attention": (Attention, (float_image,), ["image"], {"image": {0: batch}}, [plain(images(0))], False),
        "external": (Logit, (float_image,), ["image"], {"image": {0: batch}}, [plain(images(0))], True),
        "batch_of_one": (Logit, (float_image[:1],), ["image"], None, [plain(images(0))], False),
    }
    found = {}
    for seed, (name, (kind, example, names, axes, inputs, external)) in enumerate(cases.items()):
        torch.manual_seed(seed)
        model = kind().eval()
        for module in model.modules():  # statistics that are not those of a fresh network
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.uniform_(-0.3, 0.3)
                module.running_var.uniform_(0.5, 1.5)
        path = HERE / f"{name}.onnx"
        shapes = None if axes is None else tuple(axes.values())
        torch.onnx.export(
            model, example, path, input_names=names, output_names=["out"], dynamic_shapes=shapes, dynamo=True,
            external_data=external, verbose=False,
        )
        strip(path, external)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        if axes is None:
            out = np.concatenate([session.run(None, {names[0]: inputs[0][at : at + 1]})[0] for at in range(BATCH)])
        else:
            out = session.run(None, dict(zip(names, inputs)))[0]
        found[name] = {"shape": list(out.shape), "out": out.astype(np.float64).ravel().tolist()}
    text = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
    (HERE / "expected.json").write_text("{\n" + text + "\n}\n")
    print(f"{len(found)} models, torch {torch.__version__}, onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")


def strip(path, external):
    """Leaves out what the exporter says about the machine and the source it was run from."""
    model = onnx.load(path, load_external_data=not external)
    for node in model.graph.node:
        del node.metadata_props[:]
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info, *model.graph.initializer]:
        del value.metadata_props[:]
    del model.graph.metadata_props[:]
    onnx.save(model, path)
    onnx.checker.check_model(path)


main()

"""Makes networks.json, images.json and losses.json. Needs torch and torchvision (CPU); run it in this folder.

The oracle computes in double precision, on weights that `formula.py` gives, so that what differs is our rounding. Of
every tensor only its norm, its product with a fixed random vector, and four entries are kept.
"""

import json

import numpy as np
import torch
import torchvision

import formula
import models

BASE = {
    "arch": "resnet18", "hidden_dim": None, "dropout": 0.0, "image_size": [3, 64, 64], "normalize": True,
    "precision": "fp32", "image_keys": ["main_images"], "shared_trunk": True, "num_spatial_blocks": 8,
    "use_pretrain": None, "freeze_encoder": False,
}
TWO = ["wrist", "side"]
CASES = {
    "resnet18": {"hidden_dim": 32},
    "resnet18 plain head": {"image_size": [3, 48, 80]},
    "resnet18 frozen": {"hidden_dim": 32, "freeze_encoder": True},
    "resnet18 two cameras, one trunk": {"hidden_dim": 16, "image_keys": TWO},
    "resnet18 two cameras, two trunks": {"hidden_dim": 16, "image_keys": TWO, "shared_trunk": False},
    "resnet34": {"arch": "resnet34"},
    "resnet50": {"arch": "resnet50", "hidden_dim": 8},
    "resnet101": {"arch": "resnet101", "eval_only": True},
    "resnet152": {"arch": "resnet152", "eval_only": True},
    "resnet10": {"arch": "resnet10", "hidden_dim": 32, "normalize": False},
    "resnet10 frozen": {"arch": "resnet10", "hidden_dim": 32, "freeze_encoder": True},
    "resnet10 spatial": {"arch": "resnet10_spatial", "hidden_dim": 32, "normalize": False, "use_pretrain": True},
    "resnet10 spatial, pooled, frozen": {
        "arch": "resnet10_spatial", "hidden_dim": 32, "use_pretrain": False, "freeze_encoder": True,
        "num_spatial_blocks": 4,
    },
    "resnet10 spatial, two cameras": {
        "arch": "resnet10_spatial", "hidden_dim": 16, "use_pretrain": True, "image_keys": TWO,
    },
}
# A unit of ReLU or max pooling that sits on its kink goes one way in double precision and the other in single, and one
# such unit can move a gradient by a hundredth, in PyTorch as here. Of forty sets of images these keep all units furthest
# from it (3e-6 of the layer's size and more); for resnet50, both precisions of PyTorch agree on it.
IMAGES = {
    "resnet18": 24, "resnet18 plain head": 29, "resnet18 two cameras, one trunk": 2,
    "resnet18 two cameras, two trunks": 23, "resnet34": 38, "resnet50": 7, "resnet10": 26, "resnet10 spatial": 12,
    "resnet10 spatial, two cameras": 30,
}
BATCH = 4
LR, CLIP, EPS, DECAY = 1e-3, 1.0, 1e-3, 0.01


def digest(name, tensor):
    x = tensor.detach().double().flatten().numpy()
    probe = formula.fractions("probe " + name, len(x))
    places = [len(x) * k // 4 for k in range(4)] if len(x) >= 4 else list(range(len(x)))
    return [float(f"{v:.7g}") for v in [np.sqrt((x * x).sum()), (x * probe).sum(), *x[places]]]


def images(settings, number):
    _, height, width = settings["image_size"]
    shape = (BATCH, height, width, 3)
    count = int(np.prod(shape))
    return {key: formula.bytes_(f"picture {number} {key}", count).reshape(shape) for key in settings["image_keys"]}


def network(case, overrides):
    settings = {**BASE, **{k: v for k, v in overrides.items() if k != "eval_only"}}
    model = models.build(settings)
    state = {name: torch.from_numpy(formula.weight(name, tuple(t.shape))) for name, t in model.state_dict().items()}
    model.load_state_dict(state)
    model.double()
    views = [models.preprocess(x, settings).double() for x in images(settings, IMAGES.get(case, 0)).values()]
    model.eval()
    with torch.no_grad():
        result = {"settings": settings, "images": IMAGES.get(case, 0), "eval_logits": model(views).tolist()}
    if "eval_only" in overrides:
        return result
    model.train()
    models.freeze(model, settings)
    labels = torch.tensor([i % 2 for i in range(BATCH)]).double()
    weights = torch.tensor([1.0, 2.0, 0.5, 1.5]).double()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LR, eps=EPS, weight_decay=DECAY)
    steps = []
    for step in range(2):
        optimizer.zero_grad()
        logits = model(views)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, weight=weights)
        loss.backward()
        seen = {"loss": loss.item(), "logits": logits.tolist()}
        if step == 0:
            grads = {n: digest(n, p.grad) for n, p in model.named_parameters() if p.grad is not None}
            buffers = {n: digest(n, b) for n, b in model.named_buffers() if "running" in n}
            result.update(gradients=grads, statistics=buffers)
        seen["grad_norm"] = torch.nn.utils.clip_grad_norm_(trained, CLIP).item()
        optimizer.step()
        steps.append(seen)
    after = {n: digest(n, p - state[n].double()) for n, p in model.named_parameters() if p.requires_grad}
    return {**result, "steps": steps, "moved": after}


def image_cases():
    cases = []
    for name, shape, size, kind, normalize in [
        ("bytes, same size", (2, 6, 5, 3), (6, 5), "u8", True),
        ("bytes, larger", (1, 5, 7, 3), (9, 8), "u8", True),
        ("bytes, smaller", (2, 13, 11, 3), (4, 6), "u8", False),
        ("bytes, channels first", (1, 3, 9, 10), (6, 7), "u8", True),
        ("floats, same size", (2, 6, 5, 3), (6, 5), "f32", True),
        ("floats, channels first, larger", (1, 3, 6, 5), (8, 11), "f32", False),
        ("floats, smaller by far", (1, 40, 31, 3), (3, 2), "f32", True),
    ]:
        count = int(np.prod(shape))
        raw = formula.bytes_(name, count).reshape(shape)
        images = raw if kind == "u8" else (raw.astype(np.float32) / np.float32(256.0))
        settings = {"image_size": [3, *size], "normalize": normalize}
        x = models.preprocess(images, settings).permute(0, 2, 3, 1)
        cases.append({
            "name": name, "shape": shape, "size": size, "kind": kind, "normalize": normalize,
            "expected": [float(f"{v:.8g}") for v in x.flatten().tolist()],
        })
    return cases


def loss_cases():
    logits = [-30.0, -4.0, -0.5, 0.0, 0.25, 3.0, 25.0]
    cases = []
    for gamma in [None, 0.5, 2.0]:
        for label in [0.0, 1.0, 0.3]:
            x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
            y = torch.full_like(x, label)
            if gamma is None:
                loss = torch.nn.functional.binary_cross_entropy_with_logits(x, y, reduction="none")
            else:
                loss = torchvision.ops.sigmoid_focal_loss(x, y, alpha=-1, gamma=gamma, reduction="none")
            loss.sum().backward()
            cases.append({
                "gamma": gamma, "label": label, "logits": logits, "loss": loss.tolist(), "gradient": x.grad.tolist(),
            })
    return cases


if __name__ == "__main__":
    torch.manual_seed(0)
    networks = {name: network(name, overrides) for name, overrides in CASES.items()}
    for file, content in [
        ("networks.json", networks), ("images.json", image_cases()), ("losses.json", loss_cases())
    ]:
        with open(file, "w") as out:
            json.dump(content, out, separators=(",", ":"))
            out.write("\n")

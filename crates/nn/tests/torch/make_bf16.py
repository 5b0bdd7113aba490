"""Makes bf16.json: how far PyTorch's own bf16 autocast turns a gradient. Needs torch and torchvision (CPU).

For each case: the cosine between the gradient of all parameters in single precision and under autocast, and the largest
difference of a logit in training mode. What rounding costs PyTorch is what it may cost here.
"""

import json

import torch

import formula
import make_fixtures
import models

CASES = ["resnet18", "resnet10 spatial"]


def gradient(case, autocast):
    settings = {**make_fixtures.BASE, **make_fixtures.CASES[case]}
    model = models.build(settings)
    state = model.state_dict()
    model.load_state_dict({name: torch.from_numpy(formula.weight(name, tuple(t.shape))) for name, t in state.items()})
    images = make_fixtures.images(settings, make_fixtures.IMAGES[case])
    views = [models.preprocess(x, settings) for x in images.values()]
    model.train()
    models.freeze(model, settings)
    labels = torch.tensor([i % 2 for i in range(make_fixtures.BATCH)]).float()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        logits = model(views)
    torch.nn.functional.binary_cross_entropy_with_logits(logits.float(), labels).backward()
    grads = [p.grad.double().flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat(grads), logits.detach().double()


def compare(case):
    (exact, exact_logits), (rounded, rounded_logits) = gradient(case, False), gradient(case, True)
    return {
        "cosine": float(f"{torch.nn.functional.cosine_similarity(exact, rounded, dim=0).item():.6f}"),
        "logits": float(f"{(exact_logits - rounded_logits).abs().max().item():.6f}"),
    }


if __name__ == "__main__":
    with open("bf16.json", "w") as out:
        json.dump({case: compare(case) for case in CASES}, out, indent=2)
        out.write("\n")

"""Loads files that plaudit wrote into PyTorch's models, strictly, and prints their logits on the made images.

    load_strictly.py SETTINGS_JSON FILE...

Needs torch and torchvision, and safetensors where a file is one.
"""

import json
import sys

import torch

import make_fixtures
import models


def read(path):
    if path.endswith(".safetensors"):
        from safetensors.torch import load_file

        return load_file(path)
    return torch.load(path, weights_only=True)


if __name__ == "__main__":
    settings, files = json.loads(sys.argv[1]), sys.argv[2:]
    views = [models.preprocess(x, settings) for x in make_fixtures.images(settings, 0).values()]
    logits = []
    for file in files:
        model = models.build(settings)
        model.load_state_dict(read(file), strict=True)
        model.eval()
        with torch.no_grad():
            logits.append(model(views).tolist())
    print(json.dumps(logits))

"""Makes checkpoints/*.pt: the same few tensors, as training scripts wrap them. Needs torch; run it in this folder."""

from collections import OrderedDict

import torch

PLAIN = OrderedDict([
    ("backbone.fc.weight", torch.arange(8, dtype=torch.float32).reshape(2, 4) / 4),
    ("backbone.fc.bias", torch.tensor([-1.5, 0.25])),
    ("backbone.bn1.num_batches_tracked", torch.tensor(7)),
])


def renamed(prefix):
    return OrderedDict((prefix + name, tensor) for name, tensor in PLAIN.items())


def checkpoint(state):
    return {"epoch": 3, "model_state_dict": state, "optimizer_state_dict": {"state": {}, "param_groups": []},
            "train_loss": 0.5, "train_acc": 0.9}


FILES = {
    "plain": PLAIN,
    "data_parallel": renamed("module."),
    "compiled": renamed("_orig_mod."),
    "wrapped_model": renamed("module._orig_mod.model."),
    "with_constants": OrderedDict([("_mean", torch.zeros(1, 3, 1, 1)), *PLAIN.items(), ("std", torch.ones(3))]),
    "training_script": checkpoint(PLAIN),
    "step": {"model_state_dict": renamed("module."), "global_step": 40},
    "lightning": {"state_dict": renamed("model."), "epoch": 1},
    "nested": {"model": {"state_dict": PLAIN}, "optimizer": {}},
    "half": OrderedDict((k, v.bfloat16() if v.is_floating_point() else v) for k, v in PLAIN.items()),
    "parameters": OrderedDict((k, torch.nn.Parameter(v) if v.is_floating_point() else v) for k, v in PLAIN.items()),
    "no_weights": {"images": ["a", "b"], "labels": [0, 1]},
}

if __name__ == "__main__":
    for name, content in FILES.items():
        torch.save(content, f"checkpoints/{name}.pt")
    torch.save(PLAIN, "checkpoints/old_format.pt", _use_new_zipfile_serialization=False)

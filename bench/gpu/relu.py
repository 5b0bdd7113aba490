"""How far single precision is from double precision in PyTorch, on the CPU, and how many ReLUs it opens or closes.

    python3 bench/gpu/relu.py      # torch and torchvision

The networks and batches of `training.py`, and the encoder with keypoints of image policies, with random weights. If no unit is on the
other side of its kink, gradients differ by rounding alone. If one is, its whole gradient is there in the one and not in the other, and
so in all layers before it: this is what limits how exact gradients can be compared between any two programs.
"""

import argparse
import copy

import torch
import torchvision


def lively(model):
    """Normalisation that does something."""
    with torch.no_grad():
        for name, values in model.named_parameters():
            if values.dim() == 1:
                random = torch.rand_like(values)
                values.copy_(0.5 + random if name.endswith("weight") else (random - 0.5) * 0.4)
    return model.train()


class Keypoints(torch.nn.Module):
    """Four convolutions, and where each channel is brightest: `crates/nn/src/dense/encoder`."""

    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for at, stride in enumerate((2, 2, 1, 1)):
            layers += [torch.nn.Conv2d(channels, 32, 3, stride, bias=at < 3), torch.nn.ReLU()]
            channels = 32
        self.layers = torch.nn.Sequential(*layers[:-1])
        self.linear = torch.nn.Linear(64, 1)

    def forward(self, images):
        maps = self.layers(images)
        shares = maps.flatten(2).softmax(2).unflatten(2, maps.shape[2:])
        places = torch.linspace(-1, 1, maps.shape[2], dtype=maps.dtype)
        points = torch.cat([(shares.sum(3) * places).sum(2), (shares.sum(2) * places).sum(2)], 1)
        return self.linear(points)


def shaded(batch, side):
    """Images as those of `policy_gpu check`: light that falls off, and a square."""
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    images = []
    for _ in range(batch):
        top, left, shade = (torch.randint(0, most, ()).item() for most in (side - 8, side - 8, 156))
        value = shade + rows + columns // 2
        value[top : top + 8, left : left + 8] = 255
        images.append(torch.stack([value, value // 2 + torch.randint(0, 9, value.shape), 255 - value]))
    return torch.stack(images).float() / 255


def gradients(model, images, labels, dtype):
    """The gradients of a step, in double precision, and which units are open."""
    model, is_open = copy.deepcopy(model).to(dtype), []
    for layer in model.modules():
        if isinstance(layer, torch.nn.ReLU):
            layer.inplace = False
            layer.register_forward_hook(lambda _, __, output: is_open.append(output > 0))
    logits = model(images.to(dtype)).squeeze(1)
    torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.to(dtype)).backward()
    return {name: values.grad.double() for name, values in model.named_parameters()}, is_open


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="one of the networks")
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    cases = [("resnet18", 64, 5), ("resnet34", 64, 3), ("resnet50", 64, 4), ("keypoints", 64, 128)]
    for name, side, batch in [case for case in cases if options.only in (None, case[0])]:
        for seed in range(options.seeds):
            torch.manual_seed(seed)
            model = Keypoints() if name == "keypoints" else lively(getattr(torchvision.models, name)(num_classes=1))
            images = (torch.randint(0, 256, (batch, 3, side, side)) / 255 - 0.45) / 0.225
            images = shaded(batch, side) if name == "keypoints" else images
            labels = (torch.arange(batch) % 2).float()
            single, open_in_single = gradients(model, images, labels, torch.float32)
            double, open_in_double = gradients(model, images, labels, torch.float64)
            off = max(((single[key] - double[key]).norm() / double[key].norm()).item() for key in double)
            turned = sum((a != b).sum().item() for a, b in zip(open_in_single, open_in_double))
            units = sum(layer.numel() for layer in open_in_double)
            print(f"{name}, seed {seed}: gradients up to {off:.1e} off, {turned} of {units} units turned", flush=True)


if __name__ == "__main__":
    main()

"""Makes networks.json, optimisers.json and encoders.json: what PyTorch computes
for small networks, for tests/dense.rs and tests/encoders.rs.

Needs torch. Run from this folder: python make.py
"""

import json

import torch
from torch import nn

torch.manual_seed(7)
torch.set_num_threads(1)


class BatchRenorm(nn.Module):
    """Ioffe 2017, with constant limits; batch norm where there are none."""

    def __init__(self, width, eps, momentum, limits):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.bias = nn.Parameter(torch.randn(width) * 0.1)
        self.register_buffer("mean", torch.randn(width) * 0.1)
        self.register_buffer("var", torch.rand(width) + 0.5)
        self.eps, self.momentum, self.limits = eps, momentum, limits

    def forward(self, x):
        running_std = (self.var + self.eps).sqrt()
        if not self.training:
            return (x - self.mean) / running_std * self.weight + self.bias
        mean, var = x.mean(0), x.var(0, unbiased=False)
        hat = (x - mean) / (var + self.eps).sqrt()
        with torch.no_grad():
            if self.limits is not None:
                r_max, d_max = self.limits
                r = ((var + self.eps).sqrt() / running_std).clamp(1 / r_max, r_max)
                d = ((mean - self.mean) / running_std).clamp(-d_max, d_max)
            self.mean += self.momentum * (mean - self.mean)
            self.var += self.momentum * (var - self.var)
        if self.limits is not None:
            hat = hat * r + d
        return hat * self.weight + self.bias


ACTIVATIONS = {"none": nn.Identity, "tanh": nn.Tanh, "relu": nn.ReLU}


class Layer(nn.Module):
    def __init__(self, inputs, width, bias=True, norm=False, activation="none", input_norm=None):
        super().__init__()
        self.input_norm = BatchRenorm(inputs, *input_norm) if input_norm else nn.Identity()
        self.linear = nn.Linear(inputs, width, bias=bias)
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()
        if norm:
            nn.init.uniform_(self.norm.weight, 0.5, 1.5)
            nn.init.normal_(self.norm.bias, std=0.1)
        self.activation = ACTIVATIONS[activation]()
        self.spec = dict(width=width, bias=bias, norm=norm, activation=activation, input_norm=input_norm)

    def forward(self, x):
        return self.activation(self.norm(self.linear(self.input_norm(x))))

    def tensors(self, pick):
        found = {"weight": pick(self.linear.weight)}
        if self.linear.bias is not None:
            found["bias"] = pick(self.linear.bias)
        if isinstance(self.norm, nn.LayerNorm):
            found |= {"norm_weight": pick(self.norm.weight), "norm_bias": pick(self.norm.bias)}
        if isinstance(self.input_norm, BatchRenorm):
            found |= {
                "input_norm_weight": pick(self.input_norm.weight),
                "input_norm_bias": pick(self.input_norm.bias),
            }
        return found

    def statistics(self):
        if isinstance(self.input_norm, BatchRenorm):
            return {"running_mean": numbers(self.input_norm.mean), "running_var": numbers(self.input_norm.var)}
        return {}


def numbers(tensor):
    return [float(f"{x:.9g}") for x in tensor.detach().flatten().tolist()]


def case(name, inputs, batch, layers, frozen=False):
    built, width = [], inputs
    for layer in layers:
        built.append(Layer(width, **layer))
        width = layer["width"]
    net = nn.Sequential(*built).train(not frozen)
    x = torch.randn(batch, inputs, requires_grad=True)
    params = [layer.tensors(numbers) | layer.statistics() for layer in built]
    y = net(x)
    grad_out = torch.randn(batch, width)
    y.backward(grad_out)
    return dict(
        name=name,
        inputs=inputs,
        batch=batch,
        frozen=frozen,
        layers=[layer.spec for layer in built],
        params=params,
        x=numbers(x),
        y=numbers(y),
        grad_out=numbers(grad_out),
        grads=[layer.tensors(lambda p: numbers(p.grad)) for layer in built],
        grad_x=numbers(x.grad),
        statistics=[layer.statistics() for layer in built],
    )


def tanh(width, **more):
    return dict(width=width, activation="tanh", **more)


def networks():
    renorm = [1e-3, 0.01, [1.1, 0.05]]
    wide_renorm = [1e-3, 0.001, [3.0, 5.0]]
    batch_norm = [1e-5, 0.1, None]
    return [
        case("policy", 7, 13, [tanh(40), tanh(33), dict(width=5)]),
        case("value without last bias", 7, 13, [tanh(32), dict(width=1, bias=False)]),
        case("relu", 3, 70, [dict(width=48, activation="relu"), dict(width=17, activation="relu"), dict(width=2)]),
        case("layer norm", 9, 20, [tanh(40, norm=True), tanh(35, norm=True), dict(width=1)]),
        case("one row", 5, 1, [tanh(33, norm=True), dict(width=3)]),
        case("batch norm", 6, 24, [dict(width=34, activation="relu", input_norm=batch_norm), dict(width=1, input_norm=batch_norm)]),
        case("renorm within limits", 6, 24, [dict(width=34, activation="relu", input_norm=wide_renorm), dict(width=1, input_norm=wide_renorm)]),
        case("renorm at its limits", 6, 24, [dict(width=20, activation="relu", input_norm=renorm), dict(width=9, norm=True, input_norm=renorm), dict(width=1)]),
        case("renorm frozen", 6, 24, [dict(width=34, activation="relu", input_norm=renorm), dict(width=1, input_norm=renorm)], frozen=True),
    ]


def optimiser(name, kind, clip, **settings):
    """Five steps on two groups of parameters with learning rates of their own, gradients clipped before each."""
    params = [nn.Parameter(torch.randn(21)), nn.Parameter(torch.randn(10))]
    start = [numbers(p) for p in params]
    rates = [3e-2, 1e-3]
    adam = kind([dict(params=[p], lr=lr) for p, lr in zip(params, rates)], **settings)
    gradients, norms = [], []
    for step in range(5):
        for p in params:
            p.grad = torch.randn_like(p) * 10.0 ** (step - 3)
        gradients.append([numbers(p.grad) for p in params])
        norms.append(float(nn.utils.clip_grad_norm_(params, clip)))
        adam.step()
    betas, eps = list(adam.defaults["betas"]), adam.defaults["eps"]
    decay = adam.defaults["weight_decay"]
    end = [numbers(p) for p in params]
    return dict(name=name, betas=betas, eps=eps, weight_decay=decay, clip=clip, rates=rates, start=start, gradients=gradients, norms=norms, end=end)


def optimisers():
    return [
        optimiser("adam", torch.optim.Adam, 1e9),
        optimiser("adam clipped", torch.optim.Adam, 0.5, betas=(0.8, 0.95), eps=1e-5),
        optimiser("adamw", torch.optim.AdamW, 10.0, weight_decay=0.01),
    ]


class SpatialEncoder(nn.Module):
    """Weighted sums over the image, for each channel; then linear, layer norm, tanh. No dropout here."""

    def __init__(self, channels, height, width, features, outputs):
        super().__init__()
        self.pooling = nn.Parameter(torch.randn(channels, height, width, features))
        self.linear = nn.Linear(channels * features, outputs)
        self.norm = nn.LayerNorm(outputs)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias, std=0.1)

    def forward(self, x):
        pooled = torch.einsum("bchw,chwf->bcf", x, self.pooling).flatten(1)
        return torch.tanh(self.norm(self.linear(pooled)))

    def tensors(self, pick):
        return dict(pooling=pick(self.pooling)) | head_tensors(self, pick)


class ConvEncoder(nn.Module):
    """Convolutions with ReLU, then linear, layer norm, tanh.

    With keypoints, a spatial softmax follows the last convolution.
    """

    def __init__(self, channels, size, layers, outputs, keypoints=False):
        super().__init__()
        self.layers = nn.ModuleList()
        self.keypoints = keypoints
        for i, (out, kernel, stride) in enumerate(layers):
            last = i + 1 == len(layers)
            self.layers.append(nn.Conv2d(channels, out, kernel, stride, bias=not (keypoints and last)))
            channels, size = out, (size - kernel) // stride + 1
        self.linear = nn.Linear(channels * (2 if keypoints else size * size), outputs)
        self.norm = nn.LayerNorm(outputs)

    def forward(self, images):
        x = images.permute(0, 3, 1, 2).float() / 255 - 0.5
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        x = self.layers[-1](x)
        x = self.points(x) if self.keypoints else torch.relu(x).flatten(1)
        return torch.tanh(self.norm(self.linear(x)))

    @staticmethod
    def points(x):
        rows, columns = (torch.linspace(-1, 1, size) for size in x.shape[2:])
        p = x.flatten(2).softmax(2).unflatten(2, x.shape[2:])
        return torch.cat([(p.sum(2) * columns).sum(2), (p.sum(3) * rows).sum(2)], 1)

    def tensors(self, pick):
        found = {}
        for i, layer in enumerate(self.layers):
            found[f"conv_weight_{i}"] = pick(layer.weight)
            if layer.bias is not None:
                found[f"conv_bias_{i}"] = pick(layer.bias)
        return found | head_tensors(self, pick)


def head_tensors(net, pick):
    return dict(
        weight=pick(net.linear.weight),
        bias=pick(net.linear.bias),
        norm_weight=pick(net.norm.weight),
        norm_bias=pick(net.norm.bias),
    )


def encoder(net, x, **shape):
    y = net(x)
    grad_out = torch.randn_like(y)
    y.backward(grad_out)
    return shape | dict(
        params=net.tensors(numbers),
        x=numbers(x),
        y=numbers(y),
        grad_out=numbers(grad_out),
        grads=net.tensors(lambda p: numbers(p.grad)),
    )


def encoders():
    sizes = dict(channels=19, height=2, width=3, features=4, outputs=24)
    spatial = encoder(SpatialEncoder(**sizes), torch.randn(7, 19, 2, 3), kind="spatial", batch=7, **sizes)
    layers, size, outputs = [[32, 3, 2], [8, 3, 1], [20, 3, 1]], 14, 17
    net = ConvEncoder(3, size, layers, outputs)
    images = torch.randint(0, 256, (5, size, size, 3), dtype=torch.uint8)
    shape = dict(batch=5, size=size, layers=layers, outputs=outputs)
    conv = encoder(net, images, kind="conv", **shape)
    net = ConvEncoder(3, size, layers, outputs, keypoints=True)
    return [spatial, conv, encoder(net, images, kind="keypoints", **shape)]


for name, cases in dict(networks=networks(), optimisers=optimisers(), encoders=encoders()).items():
    with open(f"{name}.json", "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")

"""The networks as PyTorch has them, from torchvision's parts."""

import torch
from torch import nn
from torchvision.models import resnet
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

DEPTHS = {
    "resnet18": (BasicBlock, [2, 2, 2, 2]),
    "resnet34": (BasicBlock, [3, 4, 6, 3]),
    "resnet50": (Bottleneck, [3, 4, 6, 3]),
    "resnet101": (Bottleneck, [3, 4, 23, 3]),
    "resnet152": (Bottleneck, [3, 8, 36, 3]),
}
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)


def preprocess(images, settings):
    """RLinf's: [n, h, w, c] or [n, c, h, w], bytes or floats, to [n, 3, height, width]."""
    x = torch.as_tensor(images)
    if x.shape[-1] in (1, 3, 4):
        x = x.permute(0, 3, 1, 2)
    x = x.float() / 255.0 if x.dtype == torch.uint8 else x
    _, height, width = settings["image_size"]
    if tuple(x.shape[2:]) != (height, width):
        x = nn.functional.interpolate(x, size=(height, width), mode="bilinear", align_corners=False)
    return (x - MEAN) / STD if settings["normalize"] else x


def trunk_forward(trunk, x):
    x = trunk.maxpool(trunk.relu(trunk.bn1(trunk.conv1(x))))
    return trunk.layer4(trunk.layer3(trunk.layer2(trunk.layer1(x))))


class Cameras(nn.Module):
    """RLinf's model, for one camera exactly so; for several, features of all are joined before the head."""

    def __init__(self, settings):
        super().__init__()
        block, layers = DEPTHS[settings["arch"]]
        keys = settings["image_keys"]
        self.shared = len(keys) == 1 or settings["shared_trunk"]
        width = 512 * block.expansion * len(keys)
        hidden = settings["hidden_dim"]
        if hidden:
            head = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(0.0), nn.Linear(hidden, 1))
        else:
            head = nn.Linear(width, 1)
        if self.shared:
            self.backbone = ResNet(block, layers)
        else:
            self.backbones = nn.ModuleDict({key: ResNet(block, layers) for key in keys})
            for trunk in self.backbones.values():
                del trunk.fc
            self.backbone = nn.Module()
        self.backbone.fc = head

    def forward(self, views):
        if self.shared:
            maps = trunk_forward(self.backbone, torch.cat(views)).chunk(len(views))
        else:
            maps = [trunk_forward(t, x) for t, x in zip(self.backbones.values(), views)]
        return self.backbone.fc(torch.cat([x.mean(dim=(2, 3)) for x in maps], dim=1)).squeeze(-1)


def resnet10():
    return ResNet(BasicBlock, [1, 1, 1, 1], norm_layer=lambda channels: nn.GroupNorm(4, channels))


class ResNet10Classifier(nn.Module):
    """Averaged features of ResNet-10 and a small classifier; its sigmoid is left to the loss."""

    def __init__(self, settings):
        super().__init__()
        hidden = settings["hidden_dim"]
        self.backbone = resnet10()
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(512, hidden), nn.ReLU(), nn.Dropout(0.0), nn.Linear(hidden, 1)
        )

    def forward(self, views):
        return self.classifier(trunk_forward(self.backbone, views[0]).mean(dim=(2, 3))).squeeze(-1)


class SpatialLearnedEmbeddings(nn.Module):
    def __init__(self, height, width, channel, features):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(channel, height, width, features))

    def forward(self, x):
        return torch.einsum("bchw,chwf->bcf", x, self.kernel).flatten(1)


class Encoder(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.over_places = settings["use_pretrain"]
        _, height, width = settings["image_size"]
        size = (-(-height // 32), -(-width // 32)) if self.over_places else (1, 1)
        blocks, hidden = settings["num_spatial_blocks"], settings["hidden_dim"]
        self.resnet_backbone = resnet10()
        self.pooling_layer = SpatialLearnedEmbeddings(*size, 512, blocks)
        self.mlp = nn.Sequential(nn.Linear(512 * blocks, hidden), nn.LayerNorm(hidden), nn.Tanh())

    def forward(self, x):
        x = trunk_forward(self.resnet_backbone, x)
        x = x if self.over_places else x.mean(dim=(2, 3), keepdim=True)
        return self.mlp(self.pooling_layer(x))


class BinaryRewardClassifier(nn.Module):
    def __init__(self, settings):
        super().__init__()
        keys, hidden = settings["image_keys"], settings["hidden_dim"]
        self.encoders = nn.ModuleDict({key: Encoder(settings) for key in keys})
        self.classifier = nn.Sequential(
            nn.Linear(hidden * len(keys), hidden), nn.Dropout(0.0), nn.LayerNorm(hidden), nn.ReLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, views):
        encoded = [encoder(x) for encoder, x in zip(self.encoders.values(), views)]
        return self.classifier(torch.cat(encoded, dim=1)).squeeze(-1)


def build(settings):
    if settings["arch"] == "resnet10":
        return ResNet10Classifier(settings)
    if settings["arch"] == "resnet10_spatial":
        return BinaryRewardClassifier(settings)
    return Cameras(settings)


def freeze(model, settings):
    """A frozen trunk has no gradient, and its batch norm keeps its statistics."""
    for name, parameter in model.named_parameters():
        unused = settings["arch"].startswith("resnet10") and "backbone.fc." in name
        head = name.startswith("backbone.fc.") and not unused
        if unused or (settings["freeze_encoder"] and "backbone" in name and not head):
            parameter.requires_grad_(False)
    if settings["freeze_encoder"]:
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()

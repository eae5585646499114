"""The networks of `torch_families` as modules, in the names of torchvision and insightface.

Needs torch, which CI has not.
"""

from __future__ import annotations

import torch
from torch import nn


def cbr(ins, outs, kernel=1, stride=1, groups=1, last=nn.ReLU):
    parts = [nn.Conv2d(ins, outs, kernel, stride, kernel // 2, groups=groups, bias=False),
             nn.BatchNorm2d(outs)]
    return nn.Sequential(*parts, *([last()] if last else []))


class Block(nn.Module):
    def __init__(self, ins, width, stride, bottleneck):
        super().__init__()
        outs = width * (4 if bottleneck else 1)
        sizes = (1, 3, 1) if bottleneck else (3, 3)
        channels = [ins, *[width] * (len(sizes) - 1), outs]
        for i, size in enumerate(sizes, 1):
            step = stride if size == 3 and (bottleneck or i == 1) else 1
            setattr(self, f"conv{i}", nn.Conv2d(channels[i - 1], channels[i], size, step,
                                                size // 2, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(channels[i]))
        self.count = len(sizes)
        self.downsample = cbr(ins, outs, 1, stride, last=None) if (
            stride > 1 or ins != outs) else None

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = torch.relu(y) if i < self.count else y
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, bottleneck):
        super().__init__()
        grow = 4 if bottleneck else 1
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(Block(8, 8, 1, bottleneck),
                                    Block(8 * grow, 8, 1, bottleneck))
        self.layer2 = nn.Sequential(Block(8 * grow, 16, 2, bottleneck),
                                    Block(16 * grow, 16, 1, bottleneck))
        self.fc = nn.Linear(16 * grow, 5)

    def forward(self, x):
        x = self.layer2(self.layer1(torch.relu(self.bn1(self.conv1(x)))))
        return self.fc(x.mean((2, 3)))


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()

        def unit(ins, outs, stride):
            return nn.Sequential(*cbr(ins, ins, 3, stride, ins), *cbr(ins, outs))

        self.model = nn.Sequential(cbr(3, 8, 3, 2), unit(8, 16, 1), unit(16, 32, 2),
                                   unit(32, 32, 1))
        self.fc = nn.Linear(32, 5)

    def forward(self, x):
        return self.fc(self.model(x).mean((2, 3)))


class Inverted(nn.Module):
    def __init__(self, ins, wide, outs, stride, joined):
        super().__init__()
        expand = [cbr(ins, wide)] if wide > 8 else []
        self.conv = nn.Sequential(*expand, cbr(wide, wide, 3, stride, wide),
                                  nn.Conv2d(wide, outs, 1, bias=False), nn.BatchNorm2d(outs))
        self.joined = joined

    def forward(self, x):
        return x + self.conv(x) if self.joined else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(cbr(3, 8, 3, 2), Inverted(8, 8, 8, 1, True),
                                      Inverted(8, 48, 16, 2, False),
                                      Inverted(16, 96, 16, 1, True))
        self.classifier = nn.Sequential(nn.Dropout(), nn.Linear(16, 5))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Vgg(nn.Module):
    def __init__(self, batch_norm):
        super().__init__()
        layers, ins = [], 3
        for filters in (8, 16):
            for _ in range(2):
                layers += [nn.Conv2d(ins, filters, 3, padding=1),
                           *([nn.BatchNorm2d(filters)] if batch_norm else []), nn.ReLU()]
                ins = filters
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(256, 24), nn.ReLU(), nn.Dropout(), nn.Linear(24, 24), nn.ReLU(),
            nn.Dropout(), nn.Linear(24, 5))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Unit(nn.Module):
    def __init__(self, ins, outs, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(ins)
        self.conv1 = nn.Conv2d(ins, outs, 3, 1, 1, bias=False)
        self.bn2, self.prelu = nn.BatchNorm2d(outs), nn.PReLU(outs)
        self.conv2 = nn.Conv2d(outs, outs, 3, stride, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outs)
        self.downsample = cbr(ins, outs, 1, stride, last=None) if stride > 1 else None

    def forward(self, x):
        y = self.prelu(self.bn2(self.conv1(self.bn1(x))))
        y = self.bn3(self.conv2(y))
        return y + (x if self.downsample is None else self.downsample(x))


class IResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.prelu = nn.PReLU(8)
        self.layer1 = nn.Sequential(Unit(8, 8, 2), Unit(8, 8, 1))
        self.layer2 = nn.Sequential(Unit(8, 16, 2), Unit(16, 16, 1))
        self.bn2, self.fc = nn.BatchNorm2d(16), nn.Linear(256, 12)
        self.features = nn.BatchNorm1d(12)

    def forward(self, x):
        x = self.layer2(self.layer1(self.prelu(self.bn1(self.conv1(x)))))
        return self.features(self.fc(self.bn2(x).flatten(1)))


MODULES = {"resnet18": lambda: ResNet(False), "resnet50": lambda: ResNet(True),
           "mobilenet": MobileNet, "mobilenet_v2": MobileNetV2, "vgg": lambda: Vgg(False),
           "vgg_bn": lambda: Vgg(True), "arcface": IResNet}


def torch_module(family):
    """The module, with random values in norms and slopes, so that they are not all 1 and 0."""
    torch.manual_seed(1)
    module = MODULES[family]()
    for name, tensor in module.state_dict().items():
        if tensor.ndim == 1 and name != "features.weight":    # which its symbol fixes
            tensor.uniform_(0.5, 1.5)
    return module.eval()

"""ResNet-18's training step in PyTorch, by SGD with momentum."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from .training import Training, classification


@dataclass(frozen=True)
class Sizes:
    width: int = 64
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    side: int = 64
    batch: int = 8
    classes: int = 1000


TINY = Sizes(width=4, blocks=(1, 1), side=16, batch=4, classes=5)
LEARNING_RATE, MOMENTUM, DECAY = 0.001, 0.9, 1e-4


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inner: int, outer: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.shortcut = nn.Sequential()
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Images (batch, 3, side, side) to logits."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, sizes.width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(sizes.width)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        blocks, inner = [], sizes.width
        for group, count in enumerate(sizes.blocks):
            outer = sizes.width << group
            for index in range(count):
                blocks.append(Block(inner, outer, 2 if group and not index else 1))
                inner = outer
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inner, sizes.classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.pool(functional.relu(self.bn1(self.conv1(images))))
        return self.head(functional.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1))


def make(sizes: Sizes) -> Training:
    torch.manual_seed(1)
    return classification(
        ResNet(sizes),
        sizes,
        lambda parameters: torch.optim.SGD(
            parameters, lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=DECAY
        ),
    )


def step(device: torch.device) -> Callable[[], torch.Tensor]:
    return make(Sizes()).step(device)

"""A vision transformer's training step in PyTorch, by AdamW."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from .training import Training, classification


@dataclass(frozen=True)
class Sizes:
    """ViT-Ti/16's, on smaller images."""

    width: int = 192
    heads: int = 3
    layers: int = 12
    patch: int = 16
    side: int = 128
    batch: int = 4
    classes: int = 1000


TINY = Sizes(width=16, heads=2, layers=2, patch=4, side=12, batch=3, classes=5)
LEARNING_RATE, DECAY = 1e-3, 0.05


class VisionTransformer(nn.Module):
    """Images (batch, 3, side, side) to logits."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.patches = nn.Conv2d(3, sizes.width, sizes.patch, sizes.patch)
        count = (sizes.side // sizes.patch) ** 2
        self.first = nn.Parameter(0.02 * torch.randn(1, 1, sizes.width))
        self.positions = nn.Parameter(0.02 * torch.randn(count + 1, sizes.width))
        self.layers = nn.Sequential(
            *(
                nn.TransformerEncoderLayer(
                    sizes.width,
                    sizes.heads,
                    4 * sizes.width,
                    dropout=0.0,
                    activation="gelu",
                    batch_first=True,
                    norm_first=True,
                )
                for _ in range(sizes.layers)
            )
        )
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.layers(x))[:, 0])


def make(sizes: Sizes) -> Training:
    torch.manual_seed(1)
    return classification(
        VisionTransformer(sizes),
        sizes,
        lambda parameters: torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=DECAY),
    )


def step(device: torch.device) -> Callable[[], torch.Tensor]:
    return make(Sizes()).step(device)

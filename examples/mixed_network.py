"""A digit classifier whose middle lives on another device than its two ends."""

import copy

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


class MixedNetwork(nn.Module):
    """Stem and head on `device`, the block between them on `eager_device`.

    The forward pass crosses the border once each way, so the backward pass does too.
    Every layer is smooth: with ReLU or maximum pooling two correct devices drift apart within
    50 steps by 6e-2, because a rounding error decides which branch is taken; here by 2e-6.
    """

    def __init__(self, side: int, device: torch.device, eager_device: torch.device):
        super().__init__()
        width = 32
        # Larger images are halved early, so that 28x28 costs what it should.
        early = [nn.AvgPool2d(2)] if side > 16 else []
        inner = side // 2 if early else side
        self.stem = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.GELU(), *early,
            nn.Conv2d(width, width, 3, padding=1), nn.GELU(),
        )  # fmt: skip
        self.block = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.GELU(), nn.AvgPool2d(2)
        )
        flat = 2 * width * (inner // 2) ** 2
        self.head = nn.Sequential(
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.GELU(), nn.Flatten(),
            nn.Linear(flat, 64), nn.GELU(), nn.Linear(64, 10),
        )  # fmt: skip
        for layer in self.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(layer.weight)
        self.device, self.eager_device = device, eager_device
        self.stem.to(device)
        self.block.to(eager_device)
        self.head.to(device)

    def copy_on(self, device: torch.device) -> "MixedNetwork":
        """A copy that is wholly on one device."""
        network = copy.deepcopy(self).to(device)
        network.device = network.eager_device = device
        return network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.stem(images.to(self.device))
        hidden = self.block(hidden.to(self.eager_device))
        return self.head(hidden.to(self.device))


def flop_shares(network: MixedNetwork, images: torch.Tensor) -> tuple[float, float]:
    """Shares of a training step's arithmetic in (stem and head, block), counted by PyTorch."""
    parts = {name: 0 for name in ("stem", "block", "head")}
    hidden = images
    for name in parts:
        part = copy.deepcopy(getattr(network, name)).cpu()
        with FlopCounterMode(display=False) as counter:
            hidden = part(hidden)
            hidden.sum().backward()
        parts[name] = counter.get_total_flops()
        hidden = hidden.detach().requires_grad_()
    total = sum(parts.values())
    return (parts["stem"] + parts["head"]) / total, parts["block"] / total

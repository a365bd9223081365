"""What a training step needs, in PyTorch, and the step itself on any device."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Training:
    """A network in its initial state, a batch, and how the loss and the optimizer are made."""

    network: nn.Module
    batch: tuple[torch.Tensor, ...]
    loss: Callable[..., torch.Tensor]  # of the network and the batch
    optimizer: Callable[..., torch.optim.Optimizer]  # of the parameters

    def arrays(self) -> dict[str, np.ndarray]:
        """Parameters and buffers by name; a tied parameter has one name."""
        values = [*self.network.named_parameters(), *self.network.named_buffers()]
        return {name: value.detach().numpy() for name, value in values}

    def to(self, dtype: torch.dtype) -> "Training":
        """The same with floating numbers of another type."""
        batch = (part.to(dtype) if part.is_floating_point() else part for part in self.batch)
        return replace(self, network=self.network.to(dtype), batch=tuple(batch))

    def step(self, device: torch.device) -> Callable[[], torch.Tensor]:
        """Moves all to the device. Returns a function that makes one step and returns its loss,
        still on the device."""
        network = self.network.to(device)
        batch = [part.to(device) for part in self.batch]
        optimizer = self.optimizer(network.parameters())

        def one() -> torch.Tensor:
            optimizer.zero_grad()
            loss = self.loss(network, *batch)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return one


def classification(
    network: nn.Module,
    sizes,
    optimizer: Callable[..., torch.optim.Optimizer],
) -> Training:
    """Of random square images; `sizes` has their batch, side and classes."""
    images = torch.randn(sizes.batch, 3, sizes.side, sizes.side)
    labels = torch.arange(sizes.batch) % sizes.classes
    return Training(
        network,
        (images, labels),
        lambda network, images, labels: functional.cross_entropy(network(images), labels),
        optimizer,
    )

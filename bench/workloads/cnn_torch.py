"""The CNN's training step in PyTorch: plain user code on any device."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from . import cnn_weights as given


def step(device: torch.device) -> Callable[[], torch.Tensor]:
    """A function that makes one step and returns its loss, still on the device."""
    network = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 8 * 8, 128), nn.ReLU(), nn.Linear(128, given.CLASSES),
    )  # fmt: skip
    network.load_state_dict({name: torch.from_numpy(a) for name, a in given.weights().items()})
    network.to(device)
    images, labels = (torch.from_numpy(array).to(device) for array in given.batch())
    optimizer = torch.optim.SGD(network.parameters(), lr=given.LEARNING_RATE)

    def one() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return one

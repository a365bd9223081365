"""The transformer's training step in PyTorch: plain user code on any device."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional

from . import transformer_weights as given

sys.path.append(str(Path(__file__).parents[2] / "examples"))
from decoder import Decoder


def loss(device: torch.device, backend: str | Callable | None = None) -> Callable:
    """A function that computes the loss; it has the network as its attribute `network`. With a
    `backend`, forward and backward are compiled by it."""
    network = Decoder(
        given.ALPHABET,
        width=given.WIDTH,
        heads=given.HEADS,
        layers=given.LAYERS,
        length=given.LENGTH,
    )
    weights = {name: torch.from_numpy(array) for name, array in given.weights().items()}
    weights["logits.weight"] = weights["characters.weight"]
    network.load_state_dict(weights)
    network.to(device)
    codes, targets = (torch.from_numpy(array).to(device) for array in given.batch())

    def loss_of(codes: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(network(codes).flatten(0, 1), targets.flatten())

    if backend:
        loss_of = torch.compile(loss_of, backend=backend, fullgraph=True)

    call = functools.partial(loss_of, codes, targets)
    call.network = network
    return call


def step(device: torch.device, backend: str | None = None) -> Callable[[], torch.Tensor]:
    """A function that makes one step and returns its loss, still on the device. With a `backend`,
    the forward and backward passes are compiled by it."""
    compute = loss(device, backend)
    optimizer = torch.optim.AdamW(
        compute.network.parameters(),
        lr=given.LEARNING_RATE,
        betas=given.BETAS,
        eps=given.EPSILON,
        weight_decay=given.DECAY,
    )

    def one() -> torch.Tensor:
        optimizer.zero_grad()
        result = compute()
        result.backward()
        optimizer.step()
        return result.detach()

    return one

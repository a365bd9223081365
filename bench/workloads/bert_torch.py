"""A training step of BERT's layers in PyTorch, by AdamW; words at the end of a text are padding."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from .training import Training


@dataclass(frozen=True)
class Sizes:
    """BERT base has 12 layers and 30,522 words."""

    width: int = 768
    heads: int = 12
    layers: int = 4
    words: int = 4096
    length: int = 64
    batch: int = 4


TINY = Sizes(width=16, heads=2, layers=2, words=32, length=8, batch=3)
LEARNING_RATE, DECAY = 1e-4, 0.01
IGNORED = -100


class Bert(nn.Module):
    """Words (batch, length), and which of them are padding, to logits of the words."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.words = nn.Embedding(sizes.words, sizes.width)
        self.positions = nn.Embedding(sizes.length, sizes.width)
        self.norm = nn.LayerNorm(sizes.width)
        layer = nn.TransformerEncoderLayer(
            sizes.width,
            sizes.heads,
            4 * sizes.width,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
        )
        self.encoder = nn.TransformerEncoder(layer, sizes.layers, enable_nested_tensor=False)
        self.head = nn.Linear(sizes.width, sizes.words)

    def forward(self, words: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        places = torch.arange(words.shape[1], device=words.device)
        x = self.norm(self.words(words) + self.positions(places))
        return self.head(self.encoder(x, src_key_padding_mask=padding))


def make(sizes: Sizes) -> Training:
    torch.manual_seed(1)
    network = Bert(sizes)
    shape = (sizes.batch, sizes.length)
    words, hidden = torch.randint(sizes.words, shape), torch.randint(sizes.words, shape)
    lengths = sizes.length - torch.arange(sizes.batch) * sizes.length // (2 * sizes.batch)
    padding = torch.arange(sizes.length) >= lengths[:, None]
    hidden = hidden.masked_fill(padding | (torch.arange(sizes.length) % 5 != 0), IGNORED)
    return Training(
        network,
        (words, padding, hidden),
        lambda network, words, padding, hidden: functional.cross_entropy(
            network(words, padding).flatten(0, 1), hidden.flatten(), ignore_index=IGNORED
        ),
        lambda parameters: torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=DECAY),
    )


def step(device: torch.device) -> Callable[[], torch.Tensor]:
    return make(Sizes()).step(device)

"""GPT-2's training step in PyTorch, by AdamW."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from .training import Training


@dataclass(frozen=True)
class Sizes:
    """GPT-2 small has a width of 768, 12 heads, 12 layers and 50,257 words."""

    width: int = 384
    heads: int = 6
    layers: int = 6
    words: int = 8192
    length: int = 128
    batch: int = 2


SMALL = Sizes(width=768, heads=12, layers=12, words=50257)
TINY = Sizes(width=16, heads=2, layers=2, words=32, length=8, batch=2)
LEARNING_RATE, DECAY = 1e-4, 0.01


class Block(nn.Module):
    """Causal self-attention and a perceptron, each normalised before."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).chunk(3, -1)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """Words (batch, length) to logits (batch, length, words)."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.wte = nn.Embedding(sizes.words, sizes.width)
        self.wpe = nn.Embedding(sizes.length, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes.width, sizes.heads) for _ in range(sizes.layers))
        self.ln_f = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.words, bias=False)
        self.head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        places = torch.arange(words.shape[1], device=words.device)
        x = self.wte(words) + self.wpe(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


def make(sizes: Sizes) -> Training:
    torch.manual_seed(1)
    network = Gpt2(sizes)
    words = torch.randint(sizes.words, (sizes.batch, sizes.length + 1))
    return Training(
        network,
        (words[:, :-1].contiguous(), words[:, 1:].contiguous()),
        lambda network, words, following: functional.cross_entropy(
            network(words).flatten(0, 1), following.flatten()
        ),
        lambda parameters: torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=DECAY),
    )


def step(device: torch.device) -> Callable[[], torch.Tensor]:
    return make(Sizes()).step(device)

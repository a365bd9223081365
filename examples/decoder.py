"""A small decoder-only transformer."""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Causal self-attention and a two-layer perceptron, each normalised before."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        packed = self.query_key_value(self.attention_norm(x))
        packed = packed.view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):
    """Character codes (batch, length) to logits (batch, length, alphabet)."""

    def __init__(
        self, alphabet: int, *, width=128, heads=4, layers=4, length=64, dropout: float = 0.0
    ):
        super().__init__()
        self.length = length
        self.characters = nn.Embedding(alphabet, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.logits = nn.Linear(width, alphabet, bias=False)
        # Tied weights: one parameter read at both ends.
        self.logits.weight = self.characters.weight
        nn.init.normal_(self.characters.weight, std=0.02)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        x = self.characters(codes) + self.positions[: codes.shape[1]]
        return self.logits(self.norm(self.blocks(x)))

"""`torch.manual_seed` and `torch.seed` reach device xla: PyTorch itself does not call it."""

import functools

import torch

from . import xla


def install() -> None:
    stock_manual_seed, stock_seed = torch.random.manual_seed, torch.random.seed

    @functools.wraps(stock_manual_seed)
    def manual_seed(seed):
        generator = stock_manual_seed(seed)
        xla.manual_seed_all(generator.initial_seed())
        return generator

    @functools.wraps(stock_seed)
    def seed():
        number = stock_seed()
        xla.manual_seed_all(number)
        return number

    for module in (torch, torch.random):
        module.manual_seed = manual_seed
        module.seed = seed

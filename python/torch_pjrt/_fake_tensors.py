"""Fake tensors, which torch.compile and torch.export compute with, have the index of their device.

For devices that it knows PyTorch takes the current one's. What `device="xla"` makes in a compiled
function would seem to be on another device than the function's arguments.
"""

import functools

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import xla


def install() -> None:
    stock = FakeTensorMode.__torch_dispatch__

    @functools.wraps(stock)
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        device = kwargs.get("device") if kwargs else None
        # Before PyTorch looks whether it knows the result: it does not tell current devices apart.
        if isinstance(device, torch.device) and device.type == "xla" and device.index is None:
            kwargs = {**kwargs, "device": torch.device("xla", xla.current_device())}
        return stock(self, func, types, args, kwargs or {})

    FakeTensorMode.__torch_dispatch__ = __torch_dispatch__

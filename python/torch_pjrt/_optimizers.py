"""Programs run after every optimizer step, so that training loops need no marks."""

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from . import _C


def _execute(optimizer, args, kwargs) -> None:
    # A step inside a compiled function is a part of that function's program.
    if not torch.compiler.is_compiling():
        _C.execute_all()


def install() -> None:
    register_optimizer_step_post_hook(_execute)

"""What `torch.func` asks of device xla alone."""

import torch
from torch.func import functionalize, grad, vmap

from agreement import compare


def test_functionalized_functions_of_batches():
    def writes(x):
        y = x.clone()
        y[1].add_(1)
        y.view(-1)[0].mul_(3)
        return y, y.t().mul_(2)

    x = torch.randn(2, 3, 4)
    compare(vmap(functionalize(writes)), x)
    compare(functionalize(vmap(writes)), x)
    compare(vmap(grad(lambda x: functionalize(writes)(x)[0].sum())), x)

"""F.unfold and F.fold equal the cpu's."""

import pytest
import torch
import torch.nn.functional as F

from agreement import compare


@pytest.mark.parametrize(
    "kernel, dilation, padding, stride", [((2, 3), 1, 0, 1), ((3, 3), 2, 2, (2, 1))]
)
def test_unfold_and_fold(kernel, dilation, padding, stride):
    x = torch.randn(2, 3, 7, 6).requires_grad_()
    compare(lambda x: F.unfold(x, kernel, dilation, padding, stride), x, backward=True)
    columns = F.unfold(x, kernel, dilation, padding, stride).detach().requires_grad_()
    compare(
        lambda c: F.fold(c, (7, 6), kernel, dilation, padding, stride),
        columns,
        backward=True,
        tolerance=1e-5,
    )

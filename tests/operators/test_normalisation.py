"""Batch, layer and group norm equal the cpu's, running statistics and gradients too."""

import pytest
import torch
import torch.nn.functional as F

from agreement import compare


def leaf(*sizes, dtype=torch.float32):
    return torch.randn(sizes).to(dtype).requires_grad_()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("sizes", [(6, 4), (3, 4, 5), (2, 4, 3, 5)])
def test_batch_norm(sizes, training):
    def normalise(x, w, b, mean, variance):
        y = F.batch_norm(x, mean, variance, w, b, training, 0.3, 1e-4)
        return y, mean, variance

    compare(
        normalise,
        leaf(*sizes),
        leaf(4),
        leaf(4),
        torch.randn(4),
        torch.rand(4) + 0.5,
        backward=True,
        tolerance=1e-4,
    )


def test_batch_norm_module_keeps_its_buffers_on_the_device():
    theirs = torch.nn.BatchNorm2d(3)
    mine = torch.nn.BatchNorm2d(3).to("xla")
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5)
        theirs(x), mine(x.to("xla"))
    torch.testing.assert_close(mine.running_mean.cpu(), theirs.running_mean)
    torch.testing.assert_close(mine.running_var.cpu(), theirs.running_var)
    theirs.eval(), mine.eval()
    torch.testing.assert_close(mine(x.to("xla")).cpu(), theirs(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("parameters", [torch.bfloat16, torch.float32], ids=str)
def test_half_precision_statistics_have_the_cpus_dtype(parameters):
    x, w = leaf(3, 4, 6, dtype=torch.bfloat16), leaf(4, dtype=parameters)
    compare(
        lambda x, w: torch.native_batch_norm(x, w, w, None, None, True, 0.1, 1e-5),
        x,
        w,
        tolerance=3e-2,
    )
    v = leaf(6, dtype=parameters)
    compare(lambda x, v: torch.native_layer_norm(x, [6], v, v, 1e-5), x, v, tolerance=3e-2)


@pytest.mark.parametrize("shape", [(5,), (4, 5)])
def test_layer_norm(shape):
    compare(
        lambda x, w, b: F.layer_norm(x, shape, w, b),
        leaf(2, 3, 4, 5),
        leaf(*shape),
        leaf(*shape),
        backward=True,
        tolerance=1e-4,
    )
    compare(lambda x: F.layer_norm(x, shape), leaf(2, 3, 4, 5), backward=True, tolerance=1e-4)


def test_group_norm():
    compare(
        lambda x, w, b: F.group_norm(x, 3, w, b),
        leaf(2, 6, 4, 5),
        leaf(6),
        leaf(6),
        backward=True,
        tolerance=1e-4,
    )
    compare(lambda x: F.group_norm(x, 2), leaf(2, 6, 4), backward=True, tolerance=1e-4)


def test_refuses_what_does_not_fit():
    x = torch.zeros(2, 3).to("xla")
    with pytest.raises(RuntimeError):
        F.layer_norm(x, (4,))
    with pytest.raises(RuntimeError, match="elements not"):
        torch.native_batch_norm(x, torch.ones(4).to("xla"), None, None, None, True, 0.1, 1e-5)
    with pytest.raises(NotImplementedError):
        F.layer_norm(x.to(torch.int32), (3,))

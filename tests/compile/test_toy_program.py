"""The program with a move in its middle that other backends refuse ("All tensors should be on
xla"), for every device of its input, its middle and its output."""

import itertools

import pytest
import torch

EVERY_WAY = list(itertools.product(("cpu", "xla"), repeat=3))


def toy(x, y, middle, end):
    a = torch.sin(x).to(middle)
    b = torch.sin(y).to(middle)
    return (a + b).to(end)


@pytest.mark.parametrize("start, middle, end", EVERY_WAY)
def test_forward_and_backward(start, middle, end):
    values = torch.randn(2, 1000)
    expected_inputs = [v.clone().requires_grad_() for v in values]
    expected = toy(*expected_inputs, "cpu", "cpu")
    (expected * expected).sum().backward()

    inputs = [v.to(start, copy=True).requires_grad_() for v in values]
    compiled = torch.compile(toy, backend="pjrt", fullgraph=True)
    result = compiled(*inputs, middle, end)
    (result * result).sum().backward()
    assert result.device.type == end
    torch.testing.assert_close(result.detach().cpu(), expected.detach())
    for mine, its in zip(inputs, expected_inputs, strict=True):
        assert mine.grad.device.type == start
        torch.testing.assert_close(mine.grad.cpu(), its.grad)


@pytest.mark.parametrize("start, middle, end", EVERY_WAY)
def test_inference_with_one_input_given_twice(start, middle, end):
    x = torch.randn(1000)
    compiled = torch.compile(toy, backend="pjrt", fullgraph=True)
    with torch.no_grad():
        given = x.to(start)
        result = compiled(given, given, middle, end)
    assert result.device.type == end
    torch.testing.assert_close(result.cpu(), 2 * torch.sin(x))


def test_without_a_move_the_error_is_that_of_eager():
    def mixed(x, y):
        return torch.sin(x) + y

    with pytest.raises(Exception, match="device"):
        torch.compile(mixed, backend="pjrt")(torch.ones(3, device="xla"), torch.ones(3))

"""The program with a move in its middle that other backends refuse ("All tensors should be on
xla"), for every device of its input, its middle and its output."""

import itertools

import pytest
import torch

import torch_pjrt
from compiled_agreement import bytes_copied, replays_of, toy

EVERY_WAY = list(itertools.product(("cpu", "xla"), repeat=3))


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


@pytest.mark.parametrize("start, middle, end", EVERY_WAY)
def test_what_runs_on_xla_is_replayed_and_nothing_is_copied(start, middle, end):
    run = torch.compile(toy, backend="pjrt", fullgraph=True)
    inputs = [v.to(start, copy=True).requires_grad_() for v in torch.randn(2, 1000)]

    def call():
        for x in inputs:
            x.grad = None
        made.append(run(*inputs, middle, end))
        made[-1].sum().backward()

    made = []
    # The caller's memory, x and the gradient of the result, is shared if the caller wants that.
    with torch_pjrt.zero_copy():
        for _ in range(3):
            call()
        parts = ("xla" in (start, middle)) + (start == "xla")  # forward, backward
        copied = []
        assert replays_of(lambda: copied.append(bytes_copied(call))) == parts
    assert copied == [0]
    assert len({result.untyped_storage()._cdata for result in made}) == len(made)
    x, y = (value.detach().cpu().requires_grad_() for value in inputs)
    toy(x, y, "cpu", "cpu").sum().backward()
    for mine, its in zip(inputs, (x, y), strict=True):
        torch.testing.assert_close(mine.grad.cpu(), its.grad)


def test_without_a_move_the_error_is_that_of_eager():
    def mixed(x, y):
        return torch.sin(x) + y

    with pytest.raises(Exception, match="device"):
        torch.compile(mixed, backend="pjrt")(torch.ones(3, device="xla"), torch.ones(3))

"""torch.amp.GradScaler and its two operators against the CPU."""

import math

import pytest
import torch
from torch import nn

from agreement import assert_same, compare, compare_errors, fallbacks

unscale_ = torch._amp_foreach_non_finite_check_and_unscale_
update_ = torch._amp_update_scale_


def unscaled(gradients, found, inverse):
    unscale_(gradients, found, inverse)


def count(steps):
    return torch.tensor(steps, dtype=torch.int32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_unscaled_gradients(dtype):
    finite = torch.tensor([60000.0, -3.0, 0.1]).to(dtype)
    lists = [[finite], [finite, torch.ones(2, 3, dtype=dtype).t(), finite[0]], [finite[:0]], []]
    for gradients in lists:
        compare(unscaled, gradients, torch.zeros(1), torch.tensor(1.3e-6))
        compare(unscaled, gradients, torch.tensor(1.0), torch.tensor([1.0]))  # found before
    for bad in (math.inf, -math.inf, math.nan):
        compare(unscaled, [finite, finite.clone().fill_(bad)], torch.tensor(0.0), torch.tensor(0.5))


def test_the_next_scale():
    for scale in (4.0, 1.1, 3e38):  # the last one would overflow
        for steps in (0, 1, 5):
            for found in (0.0, 1.0):
                numbers = torch.tensor(scale), count(steps), torch.tensor([found])
                compare(update_, *numbers, 2.0, 0.5, 2)
                compare(update_, *numbers, 1.1, 0.7, 1)


def test_refused():
    one, two = torch.tensor(1.0), torch.ones(2)
    for arguments in [
        ([two], two, one),
        ([two], one, two),
        ([two], one.double(), one),
        ([two], one, one.double()),
        ([two.int()], one, one),
        ([two + 1j], one, one),
    ]:
        compare_errors(unscaled, *arguments)
    for arguments in [
        (two, count(0), one),
        (one, torch.tensor(0), one),
        (one.double(), count(0), one),
        (one, count(0), one.double()),
    ]:
        compare_errors(update_, *arguments, 2.0, 0.5, 2)


def scaled_training(device):
    """Parameters and scales of steps of which the second overflows."""
    torch.manual_seed(0)
    model = nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, growth_interval=2)
    scales = []
    for factor in (1.0, math.inf, 1.0, 1.0):
        optimizer.zero_grad()
        scaler.scale((model(torch.ones(3, 4, device=device)) * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return list(model.parameters()), scales


def test_a_step_that_overflows_is_skipped():
    before = fallbacks()
    (expected, scales), (actual, same) = scaled_training("cpu"), scaled_training("xla")
    assert_same(expected, actual)
    assert scales == same and scales[1] == scales[0] / 2 < scales[3]
    assert fallbacks() == before

"""How many programs a training loop compiles."""

import pytest
import torch
from torch import nn

import torch_pjrt


def programs() -> int:
    return torch_pjrt.metrics.snapshot().get("compile.programs", 0)


def test_a_smaller_last_batch_is_one_more_program_once():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3)).to("xla")
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
    compiled = []
    for size in [8, 8, 8, 5] * 3:
        before = programs()
        inputs, targets = torch.randn(size, 6), torch.randint(3, (size,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(inputs.to("xla")), targets.to("xla"))
        loss.backward()
        optimizer.step()
        schedule.step()
        loss.item()
        compiled.append(programs() - before)
    assert compiled[1:] == [0, 0, 1] + [0] * 8


def test_a_number_that_differs_in_one_layer_compiles_at_most_twice_more():
    """Equal numbers are read from one place; those that part at some later step must not matter."""
    torch.manual_seed(0)
    weights = [torch.ones(4, device="xla") for _ in range(40)]
    expected = torch.ones(40, 4)
    for step in range(12):
        for layer, weight in enumerate(weights):
            scale = 1.5 if (layer * 7 + step * 5) % 11 < step else 0.5
            weight.mul_(scale)
            expected[layer] *= scale
        torch_pjrt.sync()
        if step == 0:
            before = programs()
    assert programs() - before <= 2
    assert torch.equal(torch.stack([weight.cpu() for weight in weights]), expected)


def test_programs_beyond_the_limit_are_dropped_and_compiled_again():
    limit = torch_pjrt.config.program_limit
    torch_pjrt.sync()
    try:
        torch_pjrt.config.program_limit = 2
        start = torch_pjrt.metrics.snapshot().get("compile.dropped", 0)
        compiled = []
        for size in (301, 302, 301, 303, 301, 302):
            before = programs()
            x = torch.arange(size, device="xla") * 3
            torch_pjrt.sync()
            compiled.append(programs() - before)
            assert torch.equal(x.cpu(), torch.arange(size) * 3)
        assert compiled == [1, 1, 0, 1, 0, 1]
        assert torch_pjrt.metrics.snapshot()["compile.dropped"] - start >= 2
    finally:
        torch_pjrt.config.program_limit = limit
    with pytest.raises(ValueError, match="expected at least 1"):
        torch_pjrt.config.program_limit = 0

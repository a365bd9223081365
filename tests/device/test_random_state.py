"""Seeds and states of the random stream."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint


def draw():
    return torch.randn(5, device="xla").cpu()


def test_manual_seed_repeats_the_stream():
    torch.manual_seed(7)
    first, second = draw(), draw()
    torch.manual_seed(7)
    assert torch.equal(draw(), first) and torch.equal(draw(), second)
    assert not torch.equal(first, second)


def test_seed_changes_the_stream():
    torch.manual_seed(7)
    first = draw()
    assert torch.xla.initial_seed() == 7
    torch.seed()
    assert torch.xla.initial_seed() == torch.initial_seed()
    assert not torch.equal(draw(), first)


def test_state_is_saved_and_restored():
    state = torch.xla.get_rng_state()
    first = draw()
    torch.xla.set_rng_state(state)
    assert torch.equal(draw(), first)
    with pytest.raises(RuntimeError, match="expected 16"):
        torch.xla.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_fork_rng_restores_the_stream():
    torch.manual_seed(3)
    expected = draw()
    torch.manual_seed(3)
    with torch.random.fork_rng(device_type="xla"):
        draw()
    assert torch.equal(draw(), expected)


def test_generator_of_ones_own():
    generator = torch.Generator("xla").manual_seed(5)
    first = torch.randn(4, device="xla", generator=generator).cpu()
    generator.manual_seed(5)
    assert torch.equal(torch.randn(4, device="xla", generator=generator).cpu(), first)
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(4, device="xla", generator=torch.Generator())


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_draws_again_what_it_drew(reentrant):
    masks = []

    def block(x):
        masks.append(torch.rand_like(x))
        return masks[-1] * x

    x = torch.ones(5, device="xla", requires_grad=True)
    checkpoint(block, x, use_reentrant=reentrant).sum().backward()
    torch.testing.assert_close(masks[1].cpu(), masks[0].cpu())
    torch.testing.assert_close(x.grad.cpu(), masks[0].cpu())

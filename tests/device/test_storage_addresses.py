"""Addresses of storages tell them apart, and sizes that no address can reach are refused."""

import pytest
import torch

import torch_pjrt  # noqa: F401


def holds(tensor, address):
    start = tensor.untyped_storage().data_ptr()
    return start <= address <= start + tensor.untyped_storage().nbytes()


def test_no_live_storage_shares_an_address_after_the_whole_space_was_used():
    held = [torch.empty(3, device="xla") for _ in range(4)]
    addresses = [t.data_ptr() for t in held]
    for _ in range(40):  # the space is 32 TiB
        other = torch.empty(1 << 40, dtype=torch.uint8, device="xla")
        small = torch.empty(3, device="xla")
        assert not any(holds(t, address) for t in (other, small) for address in addresses)
    assert len({*addresses, small.data_ptr()}) == 5


def test_a_storage_that_grows_keeps_clear_of_others():
    x, y = torch.arange(3.0, device="xla"), torch.empty(3, device="xla")
    view = x[1:]
    x.resize_(1000)
    assert not holds(x, y.data_ptr())
    assert view.data_ptr() == x.data_ptr() + 4
    assert x[:3].cpu().tolist() == [0, 1, 2] and view.cpu().tolist() == [1, 2]
    x.resize_(2)
    address = x.data_ptr()
    x.resize_(1000)
    assert x.data_ptr() == address


@pytest.mark.parametrize(
    "make",
    [
        lambda device: torch.empty(1 << 62, device=device),
        lambda device: torch.empty(1 << 40, 1 << 40, device=device),
        lambda device: torch.empty_strided((2, 2), (1 << 62, 1), device=device),
        lambda device: torch.ones(2, device=device).resize_(1 << 62),
        lambda device: torch.ones(1 << 20, 1, device=device).expand(1 << 20, 1 << 45) + 1,
        lambda device: torch.ones(1, device=device).as_strided((2,), (1 << 62,)),
        lambda device: torch.ones(1, device=device).set_(
            torch.ones(1, device=device).untyped_storage(), 1 << 61, (2,), (1,)
        ),
    ],
)
def test_sizes_beyond_any_memory_are_refused_as_on_cpu(make):
    for device in ("cpu", "xla"):
        with pytest.raises(RuntimeError):
            make(device)
    assert torch.ones(2, device="xla").sum().item() == 2

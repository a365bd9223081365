"""Views that share bytes, conjugates or negatives with their storage, against cpu."""

import pytest
import torch

import torch_pjrt  # noqa: F401


def complex_pair(device):
    return torch.tensor([1 + 2j, 3 - 4j]).to(device)


def clone_of_conjugate(device):
    return complex_pair(device).conj().clone()


def conjugate_itself(device):
    return complex_pair(device).conj()


def copy_from_conjugate(device):
    return torch.zeros(2, dtype=torch.complex64, device=device).copy_(complex_pair(device).conj())


def copy_into_conjugate(device):
    target = torch.zeros(2, dtype=torch.complex64, device=device)
    target.conj().copy_(complex_pair(device))
    return target


def copy_from_cpu_into_conjugate(device):
    target = torch.zeros(2, dtype=torch.complex64, device=device)
    target.conj().copy_(complex_pair("cpu"))
    return target


def copy_to_cpu_into_conjugate(device):
    target = torch.zeros(2, dtype=torch.complex64)
    target.conj().copy_(complex_pair(device))
    return target


def cast_of_conjugate(device):
    return complex_pair(device).conj().to(torch.complex128)


def negative_view(device):
    return complex_pair(device).conj().imag


def cast_of_negative_view(device):
    return complex_pair(device).conj().imag.to(torch.float64)


def item_of_conjugate(device):
    return torch.tensor(complex_pair(device).conj()[0].item())


def write_through_bool_view(device):
    x = torch.tensor([5, 6, 7], dtype=torch.int8).to(device)
    x.view(torch.bool)[0] = False
    return x


def write_through_wider_view_of_a_part(device):
    x = torch.arange(5, dtype=torch.int8).to(device)
    x[:4].view(torch.int32).fill_(7)
    return x


def write_behind_a_grown_storage(device):
    x = torch.tensor([1, 2], dtype=torch.int8).to(device)
    x.resize_(8).view(torch.int32)[1] = 5
    return x[:2].clone()


def twice_reinterpreted(device):
    x = torch.arange(6, dtype=torch.int32).to(device) + 1
    return x.view(torch.int16).clone().view(torch.uint8).clone()


CASES = [
    clone_of_conjugate,
    conjugate_itself,
    copy_from_conjugate,
    copy_into_conjugate,
    copy_from_cpu_into_conjugate,
    copy_to_cpu_into_conjugate,
    cast_of_conjugate,
    negative_view,
    cast_of_negative_view,
    item_of_conjugate,
    write_through_bool_view,
    write_through_wider_view_of_a_part,
    write_behind_a_grown_storage,
    twice_reinterpreted,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_equals_cpu(case):
    torch.testing.assert_close(case("xla").cpu(), case("cpu"), rtol=0, atol=0)


@pytest.mark.parametrize("write", ["copy_", "add_"])
def test_writing_to_overlapping_elements_raises_as_on_cpu(write):
    expanded = torch.zeros(1, device="xla").expand(3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        getattr(expanded, write)(torch.ones(3, device="xla"))


def test_filling_overlapping_elements_is_allowed_as_on_cpu():
    expanded = torch.zeros(1, device="xla").expand(3)
    assert expanded.fill_(2).tolist() == [2, 2, 2]

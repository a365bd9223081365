"""xla tensors by DLPack's C exchange API, which consumers call instead of `__dlpack__`."""

import gc

import pytest
import torch

from dlpack_exchange import Exchange, floats
from sharing import address, count, counted
from torch_pjrt import _C

pytestmark = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"),
    reason="this PyTorch has no DLPack exchange API",
)


def values(count=64):
    return torch.arange(float(count)) + 1


def described(tensor):
    return (
        tensor.data,
        (tensor.device.type, tensor.device.id),
        (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
        tensor.shape[: tensor.ndim],
        tensor.strides[: tensor.ndim],
        tensor.byte_offset,
    )


VIEWS = [
    lambda t: t,
    lambda t: t.reshape(8, 8).t(),
    lambda t: t[5:],
    lambda t: t.reshape(8, 8)[::2],
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", [torch.Tensor, torch.nn.Parameter])
def test_an_xla_tensor_comes_out_as_by_dlpack(kind, view):
    exchange, x = Exchange(kind), view(values().to("xla") + 1)
    given = exchange.give(x)
    lent = exchange.lend(x)
    expected = (
        address(x),
        (1, 0),
        (2, 32, 1),
        list(x.shape),
        list(x.stride()),
        0,
    )
    assert described(given.tensor) == described(lent) == expected
    assert (given.major, given.flags) == (1, 1)  # read-only, as __dlpack__ has it
    taken = exchange.take(given)
    assert taken.device.type == "cpu" and torch.equal(taken, view(values() + 1))


def test_the_memory_is_ready_and_is_released():
    exchange = Exchange()
    x = torch.ones(512, 512).to("xla")
    for _ in range(8):
        x = torch.tanh(x @ x / 512) + 1
    assert list(floats(exchange.lend(x))) == x.cpu().flatten().tolist()
    given = exchange.give(x)
    before = count("export.copied.alias.calls")
    x.cpu()
    assert count("export.copied.alias.calls") == before + 1
    exchange.release(given)
    assert address(x.cpu()) == address(x)


def test_a_lent_tensor_may_be_written_and_no_other_sees_it():
    exchange, x = Exchange(), values().to("xla")
    clone, kept, recorded = x.clone(), x.cpu(), x * 2
    with counted(dlpack__unshared__calls=1):
        lent = exchange.lend(x)
    floats(lent)[0] = -1
    assert x[0].item() == -1 and (x + 1)[0].item() == 0
    assert clone[0].item() == kept[0].item() == 1 and recorded[0].item() == 2


def test_a_parameter_is_taken_as_pytorch_takes_its_own():
    p = torch.nn.Parameter(values().to("xla"))
    assert floats(Exchange().lend(p))[3] == 4
    given = Exchange().give(p)
    assert given.tensor.data == address(p)
    Exchange.release(given)
    assert p.requires_grad


def test_special_tensors():
    exchange = Exchange()
    empty = exchange.give(torch.empty(3, 0, device="xla"))
    assert not empty.tensor.data and empty.tensor.shape[:2] == [3, 0]
    exchange.release(empty)
    assert not exchange.lend(torch.empty(0, device="xla")).data
    seven = torch.tensor(7.0).to("xla")  # to be kept while it is lent
    scalar = exchange.lend(seven)
    assert scalar.ndim == 0 and floats(scalar)[0] == 7
    half = exchange.lend(torch.zeros(3, dtype=torch.bfloat16).to("xla"))
    assert (half.dtype.code, half.dtype.bits) == (4, 16)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("by", ["give", "lend"])
def test_what_cannot_be_said_is_refused(by):
    call = getattr(Exchange(), by)
    for tensor in (
        torch.zeros(4, dtype=torch.complex64).to("xla").conj(),
        torch._neg_view(torch.zeros(4).to("xla")),
    ):
        with pytest.raises(BufferError):
            call(tensor)
    wide = torch.zeros(4, dtype=torch.complex32, device="xla")
    with pytest.raises(BufferError, match="no such elements"):
        call(wide)


def test_cpu_tensors_go_the_way_of_pytorch():
    exchange, t = Exchange(), values().reshape(8, 8).t()
    given = exchange.give(t)
    assert described(given.tensor) == described(exchange.lend(t))
    assert given.tensor.data == t.data_ptr() and given.flags == 0
    with counted(dlpack__exported__calls=0):
        taken = exchange.take(given)
    assert taken.data_ptr() == t.data_ptr() and torch.equal(taken, t)
    with pytest.raises(RuntimeError):
        exchange.give(torch.empty(3, device="meta"))


def test_what_a_consumer_keeps_outlives_the_tensor():
    exchange, x = Exchange(), values().to("xla") + 1
    given = exchange.give(x)
    del x
    gc.collect()
    assert _C.drain_reclaimer()
    others = [(values() * -1).to("xla") + i for i in range(20)]
    assert [other[0].item() for other in others] == [i - 1.0 for i in range(20)]
    assert list(floats(given.tensor)) == (values() + 1).tolist()
    exchange.release(given)

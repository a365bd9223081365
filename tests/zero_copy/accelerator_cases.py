"""An accelerator in whose memory the xla device computes: what is shared, what is copied,
gradients, and compiled functions. Run by test_accelerator.py."""

import ctypes
import errno
import itertools
import os
import sys
from pathlib import Path

import pytest
import torch

import torch_pjrt
from accelerator_support import FAR, NEAR, chaos, settle, simulator, values
from compiled_agreement import replays_of, toy
from sharing import LARGE, address, count, counted, live_aliases
from torch_pjrt import _C, zero_copy


def test_the_companion_is_found_by_memory_and_not_by_number():
    assert _C.companion(0) == NEAR


def test_the_host_cannot_touch_the_memory():
    libc = ctypes.CDLL(None, use_errno=True)
    _, pipe = os.pipe()
    for tensor in (values(4).to(NEAR), values(4).to("xla").to(NEAR)):
        assert libc.write(pipe, ctypes.c_void_p(address(tensor)), 4) == -1
        assert ctypes.get_errno() == errno.EFAULT


def test_export_has_the_same_address_and_neither_sees_the_others_writes():
    x = values().to("xla") + 1
    with counted(transfer__to_accelerator__adopted__bytes=4 * LARGE, export__materialised__calls=0):
        y = x.to(NEAR)
        assert y.device == torch.device(NEAR) and address(y) == address(x)
        assert torch.equal(y.cpu(), values() + 1)
    with counted(export__materialised__bytes=4 * LARGE):
        y.add_(1)
    assert address(y) != address(x)
    x.mul_(2)
    assert torch.equal(y.cpu(), values() + 2) and torch.equal(x.cpu(), 2 * values() + 2)


def test_a_write_to_the_xla_tensor_is_not_seen():
    x = values().to("xla") + 1
    y = x.to(NEAR)
    x.zero_()
    torch_pjrt.sync()
    assert torch.equal(y.cpu(), values() + 1)


@pytest.mark.skipif(
    torch.__version__ < (2, 13), reason="before PyTorch 2.13 every first write copies"
)
def test_the_last_reader_writes_in_place():
    y = (values().to("xla") + 1).to(NEAR)
    torch_pjrt.sync()
    where = address(y)
    with counted(export__written_in_place__calls=1, export__materialised__calls=0):
        y.add_(1)
    assert address(y) == where and torch.equal(y.cpu(), values() + 2)


def test_another_accelerator_gets_a_copy_by_way_of_the_host():
    x = values().to("xla")
    with counted(export__copied__device__calls=2, transfer__to_accelerator__calls=0):
        assert torch.equal(x.to(FAR).cpu(), values())  # also counted on the way to the host
    with counted(import__copied__device__calls=1, transfer__from_accelerator__calls=0):
        assert torch.equal(values().to(FAR).to("xla").cpu(), values())


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x.reshape(16, 4, -1).permute(1, 2, 0),
        lambda x: x[64:],
        lambda x: x.view(torch.int32),
    ],
)
def test_dense_views_are_shared_with_their_strides(view):
    host = values().reshape(256, 256)
    with counted(transfer__to_accelerator__adopted__calls=1):
        y = view(host.to("xla")).to(NEAR)
    assert y.stride() == view(host).stride() and torch.equal(y.cpu(), view(host))
    s = host.to(NEAR)
    with zero_copy(), counted(transfer__from_accelerator__adopted__calls=1):
        x = view(s).to("xla")
    assert x.stride() == view(host).stride() and torch.equal(x.cpu(), view(host))


@pytest.mark.parametrize(
    ("reason", "read"),
    [
        ("view", lambda x, d: x[0].to(d)),
        ("view", lambda x, d: x[:, ::2].to(d)),
        ("view", lambda x, d: x[:1].expand(256, 256).to(d)),
        ("layout", lambda x, d: x.t().to(d, memory_format=torch.contiguous_format)),
    ],
)
def test_what_cannot_be_exported_is_copied_on_the_device(reason, read):
    host = values().reshape(256, 256)
    x = host.to("xla")
    copied = {f"export__copied__{reason}__calls": 1, "transfer__to_accelerator__adopted__calls": 0}
    with counted(**copied, export__copied__device__calls=0):
        y = read(x, NEAR)
    assert torch.equal(y.cpu(), read(host, "cpu"))
    y.zero_()
    assert torch.equal(x.cpu(), host)


def test_casts_happen_on_the_device():
    x = values().to("xla")
    with counted(export__copied__device__calls=0, import__copied__device__calls=0):
        y = x.to(NEAR, torch.float64)
        z = y.to("xla", torch.int32)
    assert y.dtype == torch.float64 and torch.equal(y.cpu(), values().double())
    assert torch.equal(z.cpu(), values().int())


def test_copies_into_tensors_that_exist():
    x, y = torch.zeros(LARGE).to("xla"), torch.zeros(LARGE).to(NEAR)
    x.copy_(values().to(NEAR))
    y.copy_(x + 1)
    assert torch.equal(x.cpu(), values()) and torch.equal(y.cpu(), values() + 1)


def test_import_copies_by_default_on_the_accelerator():
    s = values().to(NEAR)
    with counted(
        transfer__from_accelerator__bytes=4 * LARGE,
        transfer__from_accelerator__adopted__bytes=0,
        transfer__host_to_device__bytes=0,
    ):
        x = s.to("xla")
    assert address(x) != address(s)
    s.zero_()
    assert torch.equal(x.cpu(), values())


def test_import_shares_where_zero_copy_is_wanted():
    s = values().to(NEAR)
    where = address(s)
    with zero_copy(), counted(transfer__from_accelerator__adopted__bytes=4 * LARGE):
        x = s.to("xla")
    assert address(x) == where
    with counted(import__materialised__bytes=4 * LARGE):
        s.add_(1)
    assert address(x) == where != address(s)
    x.mul_(2)
    assert torch.equal(s.cpu(), values() + 1) and torch.equal(x.cpu(), 2 * values())


def test_an_untouched_export_goes_back_without_a_copy():
    x = values().to("xla") + 1
    with counted(transfer__from_accelerator__adopted__calls=1):
        again = x.to(NEAR).to("xla")
    assert address(again) == address(x)


@pytest.mark.parametrize(
    ("reason", "view"),
    [
        ("view", lambda s: s[::2]),
        ("view", lambda s: s[:8]),
        ("misaligned", lambda s: s[1:]),
    ],
)
def test_what_cannot_be_imported_is_copied_and_counted(reason, view):
    s = values().to(NEAR)
    counts = {f"import__copied__{reason}__calls": 1}
    with zero_copy(), counted(transfer__from_accelerator__adopted__calls=0, **counts):
        x = view(s).to("xla")
    s.zero_()
    assert torch.equal(x.cpu(), view(values()))


def test_references_are_balanced():
    settle()
    chaos.configure()
    x = values().to("xla") + 1
    ys = [x.to(NEAR) for _ in range(3)]
    ys[0].add_(1)
    s = values().to(NEAR)
    with zero_copy():
        z = s.to("xla") + 1
    torch_pjrt.sync()
    del x, ys, s, z
    settle()
    assert live_aliases() == 0
    added, dropped = (
        chaos.count(f"PJRT_Buffer_{change}ExternalReferenceCount")
        for change in ("Increase", "Decrease")
    )
    assert added == dropped == 3


def test_dlpack_names_the_accelerator_and_shares_both_ways():
    x = values().to("xla")
    assert x.__dlpack_device__() == (12, 1)
    y = torch.from_dlpack(x)
    assert y.device == torch.device(NEAR) and address(y) == address(x)
    y[0] = 7
    torch.accelerator.synchronize(NEAR)
    assert x[0].item() == 7
    s = values().to(NEAR)
    z = torch_pjrt.from_dlpack(s)
    assert address(z) == address(s) and torch.equal(z.cpu(), values())
    with counted(dlpack__copied__asked__calls=1):
        own = torch_pjrt.from_dlpack(s, copy=True)
    s.zero_()
    torch.accelerator.synchronize(NEAR)
    assert torch.equal(own.cpu(), values()) and not z.cpu().any()
    with counted(dlpack__copied__misaligned__calls=1):
        assert torch.equal(torch_pjrt.from_dlpack(values().to(NEAR)[1:]).cpu(), values()[1:])
    x.__dlpack__(stream=-1, max_version=(1, 0))
    with counted(dlpack__copied__asked__calls=1):
        assert torch.equal(torch.from_dlpack(z + 1, copy=True).cpu(), torch.ones(LARGE))


def test_dlpack_of_the_host_is_another_device():
    with counted(dlpack__copied__device__calls=1):
        assert torch.equal(torch_pjrt.from_dlpack(values()).cpu(), values())
    with pytest.raises(BufferError, match="not on the device"):
        values().to("xla").__dlpack__(dl_device=(1, 0))


# Gradients.


def mixed(there, back):
    a = torch.randn(32, 32, generator=torch.Generator().manual_seed(0)).requires_grad_()
    weight = torch.randn(32, 32, generator=torch.Generator().manual_seed(1))
    weight = weight.to(back).requires_grad_()
    x = a.to(there)
    for _ in range(3):
        x = torch.tanh(x @ x.t() / 32)
        x = torch.sin(x.to(back) @ weight).to(there)
    (first,) = torch.autograd.grad(x.square().sum(), a, create_graph=True)
    first.square().sum().backward()
    assert a.grad.device.type == "cpu" and weight.grad.device == weight.device
    return [t.detach().cpu() for t in (x, first, a.grad, weight.grad)]


@pytest.mark.parametrize("sharing", [True, False])
def test_gradients_cross_any_number_of_times(sharing):
    simulator.delay(1)
    with zero_copy(sharing):
        found = mixed("xla", NEAR)
    for tensor, expected in zip(found, mixed("cpu", "cpu"), strict=True):
        assert (tensor - expected).norm() <= 1e-4 * expected.norm()


FIGURES = [
    f"transfer.{way}_accelerator.{kind}bytes" for way in ("to", "from") for kind in ("", "adopted.")
] + ["transfer.host_to_device.bytes", "transfer.device_to_host.bytes"]


def test_a_step_copies_nothing_at_the_border():
    torch.manual_seed(0)
    ends = torch.nn.Linear(64, 64).to("xla"), torch.nn.Linear(64, 64).to("xla")
    middle = torch.nn.Linear(64, 64).to(NEAR)
    modules = torch.nn.ModuleList([ends[0], middle, ends[1]])
    optimizer = torch.optim.SGD(modules.parameters(), lr=0.1, momentum=0.9)
    batch = torch.randn(64, 64).to("xla")
    for _ in range(3):
        before = {name: count(name) for name in FIGURES}
        optimizer.zero_grad()
        with zero_copy():
            loss = ends[1](middle(ends[0](batch).to(NEAR)).to("xla")).square().mean()
        loss.backward()
        optimizer.step()
        crossed = [count(name) - was for name, was in before.items()]
    assert crossed == [2 * 4 * 64 * 64] * 4 + [0, 0]


def test_the_mixed_model_learns_the_same_and_copies_nothing_at_the_border():
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    import mixed_mnist

    assert mixed_mnist.main(["--eager-device", NEAR, "--steps", "50", "--check"]) == 0


# Compiled functions.


@pytest.mark.parametrize("start, middle, end", list(itertools.product((NEAR, "xla"), repeat=3)))
def test_a_compiled_function_that_changes_devices_copies_nothing(start, middle, end):
    simulator.delay(2)
    run = torch.compile(toy, backend="pjrt", fullgraph=True)
    inputs = [v.to(start).requires_grad_() for v in torch.randn(2, LARGE)]

    def call():
        for x in inputs:
            x.grad = None
        result = run(*inputs, middle, end)
        result.square().sum().backward()
        return result

    copies = ["export.copied.device.bytes", "import.copied.device.bytes", *FIGURES[4:]]
    with zero_copy():
        for _ in range(3):
            call()
        before, results = [count(name) for name in copies], []
        parts = ("xla" in (start, middle)) + (start == "xla")  # forward, backward
        assert replays_of(lambda: results.append(call())) == parts
        assert [count(name) for name in copies] == before
    x, y = (value.detach().cpu().requires_grad_() for value in inputs)
    expected = toy(x, y, "cpu", "cpu")
    expected.square().sum().backward()
    assert results[0].device == torch.empty(0, device=end).device
    torch.testing.assert_close(results[0].detach().cpu(), expected.detach())
    for mine, its in zip(inputs, (x, y), strict=True):
        assert mine.grad.device == mine.device
        torch.testing.assert_close(mine.grad.cpu(), its.grad)

"""An accelerator in whose memory the xla device computes. Run by test_accelerator.py, in a process
whose plugin is the simulated accelerator's platform."""

import ctypes
import errno
import gc
import itertools
import os
import sys
import time
from pathlib import Path

import pytest
import torch

import simulated_support
from chaos_support import Chaos

simulator = simulated_support.load()  # before PyTorch counts its devices

import torch_pjrt  # noqa: E402
from compiled_agreement import replays_of, toy  # noqa: E402
from dlpack_exchange import Exchange  # noqa: E402
from sharing import LARGE, address, count, counted, live_aliases  # noqa: E402
from torch_pjrt import _C, zero_copy  # noqa: E402

chaos = Chaos()
NEAR, FAR = "simulated:1", "simulated:0"  # the plugin's memory is the second's
SMALL = 1 << 12  # elements: memory of this size is given out again at once
LATE = 150  # milliseconds
lateness = LATE
exchanges = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"),
    reason="this PyTorch has no DLPack exchange API",
)


@pytest.fixture(autouse=True)
def every_wait():
    yield
    simulator.delay(0)
    simulator.leave_out("")
    chaos.configure()
    torch.accelerator.synchronize(NEAR)


def values(count=LARGE):
    return torch.arange(float(count)) + 1


def heavy(times=12, size=SMALL):
    """Ones that the xla device takes long to compute."""
    a = torch.full((640, 640), 1e-3).to("xla")
    b = a
    for _ in range(times):
        b = torch.tanh(a @ b)
    return (b * 0 + 1).reshape(-1)[:size]


def settle():
    """Waits until nobody needs what was dropped."""
    gc.collect()
    torch_pjrt.sync()
    torch.accelerator.synchronize(NEAR)
    deadline = time.monotonic() + 10
    while count("export.live") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _C.drain_reclaimer()


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


# Order. Each of these reads or writes too early where its wait is left out.


def fresh():
    """Other values at each call: memory that is read too early may hold those of the last."""
    fresh.number += 1
    return values(SMALL) + fresh.number


fresh.number = 0


def computed_late(host):
    return heavy() * host.to("xla") + 1  # not what is in the memory of an operand


def written_late(host):
    s = torch.zeros(SMALL).to(NEAR)
    torch.accelerator.synchronize(NEAR)
    simulator.delay(lateness)
    s.copy_(host)
    simulator.delay(0)
    return s


def computes_during_the_call():
    """Whether the wrapped plugin has done a program's work when it says that it has begun."""
    address(computed_late(fresh()))  # compiles
    torch_pjrt.sync()
    x = computed_late(fresh())
    begin = time.monotonic()
    address(x)
    launched = time.monotonic() - begin
    torch_pjrt.sync()
    return launched > (time.monotonic() - begin) * 0.8


def skip_where_nothing_is_late():
    if all(computes_during_the_call() for _ in range(3)):
        pytest.skip("the wrapped plugin computes during the call, so nothing can come too early")


def exported_while_it_is_computed():
    host = fresh()
    return torch.equal((computed_late(host).to(NEAR) + 0).cpu(), host + 1)


def an_export_is_written_while_it_is_computed():
    host = fresh()
    x = computed_late(host)
    y = x.to(NEAR)
    y.add_(1)
    return torch.equal(y.cpu(), host + 2) and torch.equal(x.cpu(), host + 1)


def used_on_another_stream():
    host = fresh()
    x = computed_late(host)
    with torch.Stream(device=NEAR):
        z = (x.to(NEAR) * 2).to("xla")
    return torch.equal(z.cpu(), 2 * host + 2)


def imported_while_it_is_written():
    host = fresh()
    with zero_copy():
        x = written_late(host).to("xla")
    return torch.equal((x + 1).cpu(), host + 1)


def imported_by_a_copy_while_it_is_written():
    host = fresh()
    return torch.equal((written_late(host).to("xla") + 1).cpu(), host + 1)


def an_export_is_dropped_while_a_stream_reads_it(export=lambda x: x.to(NEAR)):
    host = fresh()
    x = host.to("xla") * 1
    y = export(x)
    torch_pjrt.sync()
    simulator.delay(lateness)
    copy = y + 0
    simulator.delay(0)
    del x, y
    gc.collect()
    time.sleep(0.03)
    others = [torch.full((SMALL,), float(i)).to("xla") * 2 for i in range(40)]
    torch_pjrt.sync()
    found = copy.cpu()
    del others
    return torch.equal(found, host)


def an_export_by_dlpack_is_dropped_while_a_stream_reads_it():
    return an_export_is_dropped_while_a_stream_reads_it(torch.from_dlpack)


def an_import_is_dropped_while_a_program_reads_it():
    host = fresh()
    s = host.to(NEAR)
    torch.accelerator.synchronize(NEAR)
    with zero_copy():
        x = s.to("xla")
    y = heavy(50) + x
    address(y)  # launches it
    del x, s
    time.sleep(0.01)
    others = [torch.full((SMALL,), 7.0).to(NEAR) for _ in range(3)]
    torch.accelerator.synchronize(NEAR)
    found = y.cpu()
    del others
    return torch.equal(found, host + 1)


def exported_by_dlpack_while_it_is_computed():
    host = fresh()
    return torch.equal((torch.from_dlpack(computed_late(host)) + 0).cpu(), host + 1)


def exported_by_dlpack_to_the_current_stream():
    host = fresh()
    x = computed_late(host)
    with torch.Stream(device=NEAR):
        return torch.equal((torch.from_dlpack(x) + 0).cpu(), host + 1)


def taken(x, stream):
    return torch.from_dlpack(x.__dlpack__(stream=stream, max_version=(1, 0)))


def exported_by_dlpack_to_a_given_stream():
    host = fresh()
    x = computed_late(host)
    stream = torch.Stream(device=NEAR)
    y = taken(x, stream.stream_id)
    with stream:
        return torch.equal((y + 0).cpu(), host + 1)


def exported_by_dlpack_with_none_to_the_default_stream():
    host = fresh()
    x = computed_late(host)
    with torch.Stream(device=NEAR):
        y = taken(x, None)
    return torch.equal((y + 0).cpu(), host + 1)


def an_export_by_dlpack_is_written_while_a_program_reads_it():
    host = fresh()
    x = host.to("xla") + 0
    torch_pjrt.sync()
    z = computed_late(torch.zeros(SMALL)) + x
    address(z)  # launches it
    y = torch.from_dlpack(x)
    y.fill_(-1)
    torch.accelerator.synchronize(NEAR)
    return torch.equal(z.cpu(), host + 1) and (x.cpu() == -1).all().item()


def others_take_freed_memory():
    time.sleep(0.03)
    others = [torch.full((SMALL,), -7.0).to(NEAR) for _ in range(3)]
    others += [torch.full((SMALL,), float(-i)).to("xla") * 2 for i in range(40)]
    torch_pjrt.sync()
    torch.accelerator.synchronize(NEAR)
    return others


def read_on_another_stream(y):
    """Late, on a stream that is neither the one that got the memory nor the one that drops it."""
    third = torch.Stream(device=NEAR)
    torch.accelerator.synchronize(NEAR)
    simulator.delay(3 * lateness)
    with third:
        copy = y + 0
    simulator.delay(0)
    if records:
        y.record_stream(third)
    return third, copy


def attempts():
    """Five, each with later streams than the one before: a busy machine may be late by itself."""
    global lateness
    try:
        for factor in (1, 2, 4, 8, 16):
            lateness = factor * LATE
            yield
    finally:
        lateness = LATE


records = True  # without: the other stream's work is not known


def dropped_while_another_stream_reads(give, shown):
    host = fresh()
    y = shown(give(host))
    third, copy = read_on_another_stream(y)
    del y
    gc.collect()
    others = others_take_freed_memory()
    with third:
        found = copy.cpu()
    del others
    return torch.equal(found, shown(host))


def exported(host):
    return (host.to("xla") * 1).to(NEAR)


def exported_by_dlpack(host):
    return torch.from_dlpack(host.to("xla") * 1)


def exported_in_inference_mode(host):
    with torch.inference_mode():
        return (host.to("xla") * 1).to(NEAR)


def lent(host):
    s = host.to(NEAR)
    with zero_copy():
        s.to("xla")
    return s


def lent_by_dlpack(host):
    s = host.to(NEAR)
    torch_pjrt.from_dlpack(s)
    return s


@pytest.mark.parametrize("shown", [lambda y: y, lambda y: y.view(64, -1)[1:]], ids=["all", "view"])
@pytest.mark.parametrize(
    "give", [exported, exported_by_dlpack, exported_in_inference_mode, lent, lent_by_dlpack]
)
def test_record_stream_keeps_shared_memory(give, shown, monkeypatch):
    assert dropped_while_another_stream_reads(give, shown)
    settle()
    monkeypatch.setitem(globals(), "records", False)
    if any(not dropped_while_another_stream_reads(give, shown) for _ in attempts()):
        return
    pytest.fail("the test does not notice that record_stream is missing")


def given_by_the_exchange_api_while_it_is_computed():
    host = fresh()
    exchange = Exchange()
    with torch.Stream(device=NEAR):
        given = exchange.give(computed_late(host))
        assert (given.tensor.device.type, given.tensor.device.id) == (12, 1)
        return torch.equal((exchange.take(given) + 0).cpu(), host + 1)


class Library:
    """Another library's array, which it writes late on a stream of its own."""

    def __init__(self, host):
        self.stream, self.asked = torch.Stream(device=NEAR), []
        with self.stream:
            self.array = written_late(host)

    def __dlpack_device__(self):
        return 12, 1

    def __dlpack__(self, *, stream=None, max_version=None, copy=None):
        self.asked.append(stream)
        kind = self.stream.device_type
        waiting = torch.Stream(stream_id=stream, device_index=1, device_type=kind)
        waiting.wait_stream(self.stream)
        return self.array.__dlpack__(max_version=max_version)


def imported_from_a_library_that_writes_late():
    host = fresh()
    return torch.equal((torch_pjrt.from_dlpack(Library(host)) + 1).cpu(), host + 1)


def imported_by_a_copy_from_a_library_that_writes_late():
    host = fresh()
    return torch.equal((torch_pjrt.from_dlpack(Library(host), copy=True) + 1).cpu(), host + 1)


@pytest.mark.parametrize(
    ("case", "left_out"),
    [
        (exported_by_dlpack_while_it_is_computed, "leave_out=wait_stream"),
        (exported_by_dlpack_to_the_current_stream, "leave_out=wait_stream"),
        (exported_by_dlpack_to_a_given_stream, "leave_out=wait_stream"),
        (exported_by_dlpack_to_a_given_stream, "stream"),
        (exported_by_dlpack_with_none_to_the_default_stream, "leave_out=wait_stream"),
        (an_export_by_dlpack_is_written_while_a_program_reads_it, "leave_out=wait_stream"),
        (an_export_by_dlpack_is_dropped_while_a_stream_reads_it, "host"),
        pytest.param(
            given_by_the_exchange_api_while_it_is_computed, "leave_out=wait_stream", marks=exchanges
        ),
        (imported_from_a_library_that_writes_late, "leave_out=view"),
        (imported_from_a_library_that_writes_late, "stream"),
        (imported_by_a_copy_from_a_library_that_writes_late, "stream"),
        (exported_while_it_is_computed, "leave_out=wait_stream"),
        (an_export_is_written_while_it_is_computed, "leave_out=wait_stream"),
        (used_on_another_stream, "leave_out=wait_stream"),
        (imported_while_it_is_written, "leave_out=view"),
        (imported_while_it_is_written, "stream"),
        (imported_by_a_copy_while_it_is_written, "leave_out=view"),
        (an_export_is_dropped_while_a_stream_reads_it, "host"),
        (an_import_is_dropped_while_a_program_reads_it, "leave_out=release"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_order_holds_and_is_noticed_where_a_wait_is_left_out(case, left_out):
    with counted(accelerator__host_waits=0):
        assert case()
    settle()
    if left_out == "leave_out=wait_stream":
        skip_where_nothing_is_late()
    for _ in attempts():
        if left_out.startswith("leave_out"):
            chaos.configure(left_out)
        else:
            simulator.leave_out(left_out)
        right = case()
        simulator.leave_out("")
        chaos.configure()
        settle()
        if not right:
            return
    pytest.fail(f"the test does not notice that {left_out} is missing")


def test_the_host_waits_where_the_plugin_has_no_stream_extension():
    skip_where_nothing_is_late()
    chaos.configure("hide_extensions=Stream")
    with counted(accelerator__host_waits=1):
        assert exported_while_it_is_computed()
    with counted(accelerator__host_waits=1):
        assert imported_while_it_is_written()


def test_the_host_waits_for_dlpack_where_the_plugin_has_no_stream_extension():
    skip_where_nothing_is_late()
    chaos.configure("hide_extensions=Stream")
    with counted(accelerator__host_waits=1):
        assert exported_by_dlpack_to_a_given_stream()
    library = Library(host := fresh())
    with counted(accelerator__host_waits=1):
        x = torch_pjrt.from_dlpack(library)
    assert library.asked == [torch.accelerator.current_stream(NEAR).stream_id]
    assert torch.equal(x.cpu(), host)


def late_reader(x):
    """Is computed late from an x that is there."""
    torch_pjrt.sync()
    z = computed_late(torch.zeros(SMALL)) + x
    address(z)
    return z


def test_an_export_takes_the_memory_over_from_the_programs_that_read_it():
    skip_where_nothing_is_late()
    x = fresh().to("xla") + 0
    where = address(x)
    z = late_reader(x)
    with counted(accelerator__host_waits=0, dlpack__unshared__calls=0):
        y = torch.from_dlpack(x)
        assert address(y) == address(x) == where
    del z


def test_the_host_waits_for_readers_of_memory_that_others_see_already():
    skip_where_nothing_is_late()
    host = fresh()
    s = host.to(NEAR)
    for x in (torch_pjrt.from_dlpack(s), host.to("xla") + 0):
        first = torch.from_dlpack(x)
        z = late_reader(x)
        with counted(accelerator__host_waits=1, dlpack__unshared__calls=0):
            second = torch.from_dlpack(x)
        assert address(first) == address(second) == address(x)
        second.fill_(-1)
        torch.accelerator.synchronize(NEAR)
        assert torch.equal(z.cpu(), host + 1) and (first.cpu() == -1).all()


def test_dlpack_takes_the_streams_that_there_are():
    x = values(SMALL).to("xla")
    for stream in (0, 1, 2, -2):
        with pytest.raises(BufferError, match=f"no such stream; got stream={stream}"):
            x.__dlpack__(stream=stream)


@exchanges
def test_an_accelerators_memory_is_not_lent_for_one_call():
    with pytest.raises(BufferError, match="streams may outlive the call"):
        Exchange().lend(values().to("xla"))


def test_minus_one_waits_for_nothing():
    skip_where_nothing_is_late()
    chaos.configure("hide_extensions=Stream")
    x = computed_late(fresh())
    with counted(accelerator__host_waits=0):
        taken(x, -1)


def test_crossings_do_not_wait():
    skip_where_nothing_is_late()  # compiles
    x = computed_late(fresh())
    begin = time.monotonic()
    y = x.to(NEAR)
    launched = time.monotonic() - begin
    y.cpu()
    computed = time.monotonic() - begin
    assert launched < computed / 2
    x = computed_late(fresh())
    begin = time.monotonic()
    y = torch.from_dlpack(x)
    launched = time.monotonic() - begin
    y.cpu()
    assert launched < (time.monotonic() - begin) / 2
    simulator.delay(1000)
    s = values().to(NEAR).add_(1)
    begin = time.monotonic()
    with zero_copy():
        s.to("xla")
    assert time.monotonic() - begin < 0.5


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

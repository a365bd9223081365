"""Order between an accelerator's streams and the xla device's programs, where both use one memory:
a case reads or writes too early where its wait is left out. Run by test_accelerator.py."""

import gc
import time

import pytest
import torch

import torch_pjrt
from accelerator_support import (
    NEAR,
    SMALL,
    attempts,
    chaos,
    fresh,
    late_streams,
    settle,
    simulator,
    values,
)
from dlpack_exchange import Exchange
from sharing import address, counted
from torch_pjrt import zero_copy

exchanges = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"),
    reason="this PyTorch has no DLPack exchange API",
)


def heavy(times=12):
    """Ones that the xla device takes long to compute."""
    a = torch.full((640, 640), 1e-3).to("xla")
    b = a
    for _ in range(times):
        b = torch.tanh(a @ b)
    return (b * 0 + 1).reshape(-1)[:SMALL]


def computed_late(host):
    return heavy() * host.to("xla") + 1  # not what is in the memory of an operand


def written_late(host):
    s = torch.zeros(SMALL).to(NEAR)
    torch.accelerator.synchronize(NEAR)
    with late_streams():
        s.copy_(host)
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
    with late_streams():
        copy = y + 0
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

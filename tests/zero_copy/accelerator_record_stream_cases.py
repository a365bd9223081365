"""`record_stream` keeps memory that an accelerator and the xla device share until the stream's work
is done. Run by test_accelerator.py."""

import gc
import time

import pytest
import torch

import torch_pjrt
from accelerator_support import NEAR, SMALL, attempts, fresh, late_streams, settle
from torch_pjrt import zero_copy

records = True  # without: the other stream's work is not known


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
    with late_streams(3), third:
        copy = y + 0
    if records:
        y.record_stream(third)
    return third, copy


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

"""Shared memory under late and reordered events, and where the device refuses to share."""

from chaos_support import TESTS, environment
from subprocess_support import output_of

EVERYTHING = """
import gc, sys
sys.path.insert(0, {tests!r})
import numpy as np, torch, torch_pjrt
from chaos_support import Chaos

chaos = Chaos()
size = 1 << 16
values = torch.arange(float(size))
count = lambda name: torch_pjrt.metrics.snapshot().get(name, 0)

def one_round():
    source = values.clone()
    with torch_pjrt.zero_copy():
        x = source.to("xla")
    later = x * 2
    source.add_(1)  # while the device may still read what was lent
    y = later.cpu()
    z = y.to("xla")
    y.add_(1)
    z.add_(2)
    last = (z + 1).cpu()
    del z
    last.mul_(2)
    array = np.from_dlpack(x.clone())
    outside = torch.from_dlpack(x)
    again = torch_pjrt.from_dlpack(torch.from_numpy(np.array(array)))
    assert torch.equal(source, values + 1) and torch.equal(y, values * 2 + 1)
    assert torch.equal(last, (values * 2 + 3) * 2)
    assert np.array_equal(array, values.numpy()) and torch.equal(outside, values)
    assert torch.equal((again + x).cpu(), values * 2)
    assert torch.equal(x.cpu(), values)

def backward():
    a = values.clone().requires_grad_()
    with torch_pjrt.zero_copy():
        b = (a.to("xla") * 2).to("cpu")
        loss = (b * b).to("xla").sum()
    loss.backward()
    torch.testing.assert_close(a.grad, 8 * values)

for _ in range(4):
    one_round()
    backward()
"""

AT_THE_END = """
gc.collect()
torch_pjrt.sync()
torch_pjrt._C.drain_reclaimer()
added, dropped = (
    chaos.count(f"PJRT_Buffer_{{change}}ExternalReferenceCount")
    for change in ("Increase", "Decrease")
)
print(added == dropped > 0, count("export.live"), chaos.count("sources_changed"))
print(chaos.count("events_delayed") > 0, count("transfer.host_to_device.adopted.calls") > 0)
"""

REFUSED = """
print(count("transfer.host_to_device.adopted.calls"), count("export.live"),
      count("export.copied.device.calls") > 0, count("import.copied.device.calls") > 0)
array = values.numpy()
before = count("dlpack.copied.device.calls")
assert torch.equal(torch_pjrt.from_dlpack(array).cpu(), values)
print(count("dlpack.copied.device.calls") - before)
try:
    torch.from_dlpack(values.to("xla"))
except BufferError as error:
    print("cpu first" in str(error))
"""

WITHOUT_EXPORT = EVERYTHING.replace("np.from_dlpack(x.clone())", "x.clone().cpu().numpy()").replace(
    "torch.from_dlpack(x)", "x.cpu()"
)


def test_late_and_reordered_events():
    found = output_of(
        (EVERYTHING + AT_THE_END).format(tests=TESTS),
        **environment("delay_ms=15;order=random;seed=3;host_memory=checked"),
    )
    assert found.splitlines() == ["True 0 0", "True True"]


def test_a_device_that_refuses_to_share():
    found = output_of(
        (WITHOUT_EXPORT + REFUSED).format(tests=TESTS), **environment("aliasing=refused")
    )
    assert found.splitlines() == ["0 0 True True", "1", "True"]

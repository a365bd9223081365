"""With events that come late and in any order nothing deadlocks, and a process ends cleanly."""

import pytest

from chaos_support import environment
from subprocess_support import run

# Each thread sends tensors that carry a Python object and lets go of them at once, so that whoever
# drops the last reference needs the GIL, and reads them back, which waits for the device.
BOTH_DIRECTIONS = """
import threading, weakref
import torch, torch_pjrt

class Payload:
    def __init__(self):
        self.itself = self
        self.text = ["python", "object"]

alive = []
problems = []

def work(thread):
    device = f"xla:{thread % torch.xla.device_count()}"
    try:
        for i in range(12):
            source = torch.full((60000,), float(i))
            source.payload = Payload()
            alive.append(weakref.ref(source.payload))
            sent = source.to(device, non_blocking=True)
            del source
            if not (sent.cpu() == i).all() or (sent + 1).sum().item() != 60000 * (i + 1):
                problems.append((thread, i))
    except BaseException as error:
        problems.append(repr(error))

threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
torch_pjrt.sync()
assert not problems, problems
print(torch.xla.device_count(), len(alive))
"""


@pytest.mark.parametrize("devices", [1, 4])
@pytest.mark.parametrize("aliasing", ["allowed", "refused"])
def test_eight_threads_in_both_directions_finish(devices, aliasing):
    options = "delay_ms=2;order=random;seed=5;host_memory=checked"
    if aliasing == "refused":
        options += ";aliasing=refused"
    done = run(
        BOTH_DIRECTIONS,
        timeout=120,
        **environment(options),
        TORCH_PJRT_OPTIONS=f"cpu_device_count={devices}",
    )
    assert (done.returncode, done.stdout) == (0, f"{devices} 96\n"), done.stderr


@pytest.mark.parametrize(
    ("state", "aliasing"),
    [
        ("x = torch.ones(1 << 18).to('xla', non_blocking=True)", "allowed"),
        ("t = torch.ones(1 << 18); t.me = t; t.to('xla', non_blocking=True); del t", "refused"),
        ("x = torch.ones(1 << 18).to('xla').sum(); torch_pjrt._C.execute_all()", "allowed"),
        (
            "x = [torch.ones(1 << 16).to('xla') + i for i in range(20)]\n"
            "torch_pjrt._C.execute_all()",
            "refused",
        ),
        # Not one that computes: in 3.11 PyTorch itself then ends the process by std::terminate.
        (
            "import threading; x = torch.ones(9, device='xla') + 1\n"
            "threading.Thread(target=torch_pjrt.sync, daemon=True).start()",
            "allowed",
        ),
    ],
)
def test_exit_with_transfers_in_flight_is_clean(state, aliasing):
    options = "delay_ms=100;order=reversed;host_memory=checked"
    if aliasing == "refused":
        options += ";aliasing=refused"
    done = run(f"import torch, torch_pjrt\n{state}", timeout=60, **environment(options))
    assert (done.returncode, done.stderr) == (0, "")

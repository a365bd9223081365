"""What `tools/gpu_check` runs, each group in a process of its own: `python cases.py GROUP DEVICE`.

Each check prints its name, pass or fail, its time and a note, with tabs between. PyTorch and
torch_pjrt are all that it needs.
"""

import contextlib
import gc
import importlib.util
import io
import sys
import time
import traceback
import types
from pathlib import Path
from statistics import median

import torch

ROOT = Path(__file__).resolve().parents[2]
SIMULATED = "simulated"
COUNT = 1 << 22  # elements: 16 MiB
MILLISECONDS = 200  # by which late work is late


def start(kind: str):
    """Makes the device known and returns it, and a context in which its work begins late."""
    if kind == SIMULATED:
        sys.path.insert(0, str(ROOT / "tests"))
        import simulated_support

        simulator = simulated_support.load()

        @contextlib.contextmanager
        def late():
            simulator.delay(MILLISECONDS)
            yield
            simulator.delay(0)
    else:

        @contextlib.contextmanager
        def late():
            torch.cuda._sleep(MILLISECONDS * 1_500_000)  # cycles
            yield

    from torch_pjrt import _C

    torch.zeros(1).to("xla").cpu()
    companion = _C.companion(0)
    assert companion, f"no {kind} device of this PyTorch has the memory of xla:0"
    device = torch.device(companion)
    torch.zeros(1).to(device)
    torch.accelerator.set_device_index(device.index)
    return device, late


class Checks:
    def __init__(self, kind: str) -> None:
        self.device, self.late = start(kind)
        self.number = 0

    def values(self) -> torch.Tensor:
        """Other values each time: memory that is read too early may hold the last ones."""
        self.number += 1
        return torch.arange(float(COUNT)) + self.number

    def computed_late(self, host: torch.Tensor) -> torch.Tensor:
        """`host` + 1, which the xla device takes long to compute."""
        size, times = (4096, 60) if self.device.type != SIMULATED else (512, 12)
        a = torch.full((size, size), 1e-3).to("xla")
        b = a
        for _ in range(times):
            b = torch.tanh(a @ b)
        return host.to("xla") + (b.sum() * 0 + 1)

    def written_late(self, host: torch.Tensor) -> torch.Tensor:
        staged = host.to(self.device)
        s = torch.zeros_like(staged)
        torch.accelerator.synchronize()
        with self.late():
            s.copy_(staged)
        return s

    # pointers

    def pointers_export_shares(self):
        x = self.values().to("xla") + 1
        y = x.to(self.device)
        assert address(y) == address(x)
        before = y.cpu()
        y.add_(1)
        assert address(y) != address(x) and torch.equal(x.cpu(), before)
        x.zero_()
        assert torch.equal(y.cpu(), before + 1)

    def pointers_import_shares_within_zero_copy(self):
        from torch_pjrt import zero_copy

        host = self.values()
        s = host.to(self.device)
        where = address(s)
        with zero_copy():
            x = s.to("xla")
        assert address(x) == where
        s.add_(1)
        assert address(x) == where != address(s)
        assert torch.equal(x.cpu(), host) and torch.equal(s.cpu(), host + 1)

    def pointers_import_copies_by_default(self):
        host = self.values()
        s = host.to(self.device)
        before = count("transfer.host_to_device.bytes")
        x = s.to("xla")
        assert address(x) != address(s)
        assert count("transfer.host_to_device.bytes") == before, "it went by way of the host"
        s.zero_()
        assert torch.equal(x.cpu(), host)

    def pointers_round_trip_is_the_same_buffer(self):
        x = self.values().to("xla") + 1
        assert address(x.to(self.device).to("xla")) == address(x)

    def pointers_dlpack_both_ways(self):
        import torch_pjrt

        host = self.values()
        x = host.to("xla")
        y = torch.from_dlpack(x)
        assert y.device == self.device and address(y) == address(x)
        s = host.to(self.device)
        z = torch_pjrt.from_dlpack(s)
        assert address(z) == address(s) and torch.equal(z.cpu(), host)
        for stream in (None, -1) + ((1,) if self.device.type == "cuda" else ()):
            x.__dlpack__(stream=stream, max_version=(1, 0))

    # order

    def order_exported_while_it_is_computed(self):
        host = self.values()
        assert torch.equal((self.computed_late(host).to(self.device) * 1).cpu(), host + 1)

    def order_exported_to_another_stream(self):
        host = self.values()
        x = self.computed_late(host)
        with torch.Stream(device=self.device):
            z = (x.to(self.device) * 2).to("xla")
        assert torch.equal(z.cpu(), 2 * host + 2)

    def order_exported_by_dlpack_to_another_stream(self):
        host = self.values()
        assert torch.equal((torch.from_dlpack(self.computed_late(host)) * 1).cpu(), host + 1)
        x = self.computed_late(host)
        with torch.Stream(device=self.device):
            assert torch.equal((torch.from_dlpack(x) * 1).cpu(), host + 1)

    def order_an_export_by_dlpack_is_written_while_a_program_reads_it(self):
        import torch_pjrt

        host = self.values()
        x = host.to("xla") + 0
        torch_pjrt.sync()
        z = self.computed_late(host) + x
        address(z)  # launches it
        torch.from_dlpack(x).fill_(-1)
        torch.accelerator.synchronize()
        assert torch.equal(z.cpu(), 2 * host + 1) and (x.cpu() == -1).all()

    def order_a_recorded_stream_reads_what_is_dropped(self):
        import torch_pjrt

        for give in (lambda x: x.to(self.device), torch.from_dlpack):
            host = self.values()
            y = give(host.to("xla") * 1)
            torch.accelerator.synchronize()
            other = torch.Stream(device=self.device)
            with other, self.late():
                copy = y * 1
            y.record_stream(other)
            del y
            gc.collect()
            time.sleep(0.02)
            others = [torch.full((COUNT,), float(-i)).to("xla") * 2 for i in range(4)]
            torch_pjrt.sync()
            with other:
                assert torch.equal(copy.cpu(), host)
            del others

    def order_imported_while_it_is_written(self):
        from torch_pjrt import zero_copy

        host = self.values()
        with zero_copy():
            x = self.written_late(host).to("xla")
        assert torch.equal((x + 1).cpu(), host + 1)

    def order_copied_while_it_is_written(self):
        host = self.values()
        assert torch.equal((self.written_late(host).to("xla") + 1).cpu(), host + 1)

    def order_an_export_is_dropped_while_a_stream_reads_it(self):
        import torch_pjrt

        host = self.values()
        x = host.to("xla") * 1
        y = x.to(self.device)
        torch_pjrt.sync()
        with self.late():
            copy = y * 1
        del x, y
        gc.collect()
        time.sleep(0.02)
        others = [torch.full((COUNT,), float(i)).to("xla") * 2 for i in range(4)]
        torch_pjrt.sync()
        assert torch.equal(copy.cpu(), host)
        del others

    def order_an_import_is_dropped_while_a_program_reads_it(self):
        from torch_pjrt import zero_copy

        host = self.values()
        s = host.to(self.device)
        torch.accelerator.synchronize()
        with zero_copy():
            x = s.to("xla")
        y = self.computed_late(host) + x
        address(y)  # launches it
        del x, s
        gc.collect()
        others = [torch.full((COUNT,), 7.0, device=self.device) for _ in range(4)]
        torch.accelerator.synchronize()
        assert torch.equal(y.cpu(), 2 * host + 1)
        del others

    def order_without_waits_of_the_host(self):
        waits = count("accelerator.host_waits")
        self.computed_late(self.values()).to(self.device).cpu()
        x = self.computed_late(self.values())
        begin = time.perf_counter()
        y = x.to(self.device)
        launched = time.perf_counter() - begin
        y.cpu()
        done = time.perf_counter() - begin
        x = self.computed_late(self.values())
        begin = time.perf_counter()
        y = torch.from_dlpack(x)
        given = time.perf_counter() - begin
        y.cpu()
        taken = time.perf_counter() - begin
        s = self.written_late(self.values())
        begin = time.perf_counter()
        s.to("xla")
        imported = time.perf_counter() - begin
        assert count("accelerator.host_waits") == waits, "the plugin has no stream extension"
        assert launched < done / 2, f"export took {launched:.3f} s of {done:.3f}"
        assert given < taken / 2, f"export by DLPack took {given:.3f} s of {taken:.3f}"
        assert imported < MILLISECONDS / 2e3, f"import took {imported:.3f} s"
        return f"export {launched * 1e3:.1f} of {done * 1e3:.0f} ms, import {imported * 1e3:.1f} ms"

    # gradients

    def gradients_equal_those_of_the_cpu(self):
        from torch_pjrt import zero_copy

        expected = crossing_gradients("cpu", "cpu")
        worst = 0.0
        for sharing in (True, False):
            with zero_copy(sharing):
                found = crossing_gradients("xla", self.device)
            for tensor, target in zip(found, expected, strict=True):
                worst = max(worst, float((tensor - target).norm() / target.norm()))
        assert worst < 2e-3, f"they differ by {worst:.1e}"  # TF32 in products
        return f"{worst:.1e} relative"

    # figures

    def figures_crossing_of_64_mib(self):
        from torch_pjrt import zero_copy

        x = torch.ones(1 << 24).to("xla") + 1
        s = torch.ones(1 << 24, device=self.device)
        x.to(self.device), torch.accelerator.synchronize()
        with zero_copy():
            there = microseconds(lambda: x.to(self.device))
            back = microseconds(lambda: s.to("xla"))
        return f"to {self.device.type} {there:.1f} us, from {self.device.type} {back:.1f} us"

    # mnist

    def mnist_copies_nothing_and_equals_the_cpu(self):
        sys.path.insert(0, str(ROOT / "examples"))
        if importlib.util.find_spec("tqdm") is None:
            sys.modules["tqdm"] = types.SimpleNamespace(tqdm=QuietBar)
        import mixed_mnist

        if importlib.util.find_spec("sklearn") is None:
            mixed_mnist.load_digits = synthetic_digits
        # The comparison is of float32 products, which cuda and XLA else shorten to TF32.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = mixed_mnist.main(
                ["--eager-device", str(self.device), "--steps", "50", "--check"]
            )
        said = output.getvalue()
        assert status == 0, said[-2000:]
        return "; ".join(
            line for line in said.splitlines() if "a step" in line or "all-CPU" in line
        )


class QuietBar:
    """What the example needs of tqdm."""

    def __init__(self, **options) -> None: ...
    def update(self) -> None: ...
    def set_postfix(self, **values) -> None: ...
    def close(self) -> None: ...


def synthetic_digits(directory):
    from digit_data import Digits

    generator = torch.Generator().manual_seed(0)
    shapes = torch.randn(10, 1, 8, 8, generator=generator)
    labels = torch.randint(10, (1600,), generator=generator)
    images = shapes[labels] + 0.3 * torch.randn(1600, 1, 8, 8, generator=generator)
    return Digits(images[:1280], labels[:1280], images[1280:], labels[1280:])


def crossing_gradients(there, back):
    a = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(1)) / 8
    weight = weight.to(back).requires_grad_()
    x = a.to(there)
    for _ in range(3):
        x = torch.tanh(x * 2)
        x = torch.sin(x.to(back) @ weight).to(there)
    (first,) = torch.autograd.grad(x.square().sum(), a, create_graph=True)
    first.square().sum().backward()
    assert a.grad.device.type == "cpu" and weight.grad.device == weight.device
    return [t.detach().cpu() for t in (x, first, a.grad, weight.grad)]


def microseconds(crossing) -> float:
    times = []
    for _ in range(300):
        begin = time.perf_counter()
        crossing()
        times.append(time.perf_counter() - begin)
    return median(times) * 1e6


def address(tensor: torch.Tensor) -> int:
    from torch_pjrt import _C

    if tensor.device.type == "xla":
        return _C.buffer_pointer(tensor) + tensor.storage_offset() * tensor.element_size()
    return torch._C._data_address(tensor) + tensor.storage_offset() * tensor.element_size()


def count(name: str) -> int:
    from torch_pjrt import _C

    return int(_C.metrics_snapshot().get(name, 0))


GROUPS = ("pointers", "order", "gradients", "figures", "mnist")


def main(group: str, kind: str) -> int:
    checks = Checks(kind)
    for name in vars(Checks):
        if not name.startswith(f"{group}_"):
            continue
        begin = time.perf_counter()
        try:
            note, result = getattr(checks, name)() or "", "pass"
        except Exception as error:
            traceback.print_exc()
            note, result = f"{type(error).__name__}: {error}".splitlines()[0], "fail"
        seconds = time.perf_counter() - begin
        print(f"{name}\t{result}\t{seconds:.1f} s\t{note}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

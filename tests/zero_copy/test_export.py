"""`.cpu()` shares the device's memory, and neither side sees the other's writes."""

import io
import pickle
import threading

import numpy as np
import pytest
import torch

import torch_pjrt
from sharing import LARGE, address, count, counted, live_aliases, since_2_13
from subprocess_support import output_of, run


def values(count=LARGE):
    return torch.arange(float(count))


@pytest.mark.parametrize("to_cpu", [torch.Tensor.cpu, lambda x: x.to("cpu")])
def test_the_cpu_tensor_has_the_device_address(to_cpu):
    x = values().to("xla") + 1
    with counted(transfer__device_to_host__adopted__bytes=4 * LARGE, export__materialised__calls=0):
        y = to_cpu(x)
        assert address(y) == address(x)
        assert torch.equal(y, values() + 1)


@pytest.mark.parametrize(
    ("view", "offset"),
    [
        (lambda x: x, 0),
        (lambda x: x.t(), 0),
        (lambda x: x.reshape(16, 4, -1).permute(1, 2, 0), 0),
        (lambda x: x[64:], 64 * 256),
        (lambda x: x.view(torch.int32), 0),
        (lambda x: x[200:].t().unsqueeze(1) if x.shape[0] < 300 else x, None),
    ],
)
def test_dense_views_keep_their_strides(view, offset):
    host = values().reshape(256, 256)
    x = host.to("xla")
    y, expected = view(x).cpu(), view(host)
    assert y.stride() == expected.stride() and torch.equal(y, expected)
    if offset is not None:
        assert torch._C._data_address(y) == address(x) + 4 * offset
        assert y.storage_offset() == 0 and y.untyped_storage().nbytes() == y.nbytes


@pytest.mark.parametrize(
    ("reason", "read"),
    [
        ("view", lambda x: x[0].cpu()),
        ("view", lambda x: x[:, ::2].cpu()),
        ("view", lambda x: x[:100].cpu()),
        ("view", lambda x: x[:1].expand(256, 256).cpu()),
        ("layout", lambda x: x.t().to("cpu", memory_format=torch.contiguous_format)),
    ],
)
def test_what_is_copied_is_counted_by_reason(reason, read):
    host = values().reshape(256, 256)
    x = host.to("xla")
    before = count(f"export.copied.{reason}.calls"), count("transfer.device_to_host.adopted.calls")
    y = read(x)
    assert count(f"export.copied.{reason}.calls") == before[0] + 1
    assert count("transfer.device_to_host.adopted.calls") == before[1]
    expected = read(host)
    assert torch.equal(y, expected) and y.stride() == expected.contiguous().stride()
    assert y.untyped_storage().nbytes() == y.nbytes


def test_other_memory_formats():
    x = values().reshape(4, 16, 32, 32).to("xla")
    y = x.to("cpu", memory_format=torch.contiguous_format)
    assert address(y) == address(x)
    assert x.to("cpu", memory_format=torch.channels_last).is_contiguous(
        memory_format=torch.channels_last
    )
    z = x.contiguous(memory_format=torch.channels_last)
    assert address(z.to("cpu", memory_format=torch.channels_last)) == address(z)


def test_another_dtype_is_cast():
    x = values().to("xla")
    y = x.to("cpu", torch.float64)
    assert y.dtype == torch.float64 and torch.equal(y, values().double())


def test_a_write_on_the_cpu_is_not_seen_by_the_device():
    x = values().to("xla")
    y, z = x.cpu(), x.cpu()
    with counted(export__materialised__calls=1, export__materialised__bytes=4 * LARGE):
        y.add_(1)
        y.add_(1)
    assert torch.equal(y, values() + 2)
    assert torch.equal(z, values()) and address(z) == address(x)
    assert torch.equal(x.cpu(), values())


def test_a_write_on_the_device_is_not_seen_by_the_cpu():
    x = values().to("xla")
    y = x.cpu()
    x.add_(1)
    x[:10] = 7
    torch_pjrt.sync()
    assert torch.equal(y, values())
    assert x.cpu()[:11].tolist() == [7.0] * 10 + [11.0]


def test_views_taken_before_and_after():
    x = values().to("xla")
    before, y = x[LARGE // 2 :], x.cpu()
    after = x[: LARGE // 2]
    part = y[5:]
    before.zero_()
    after.fill_(3)
    part.mul_(0)
    assert y.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0] + [0.0] * (LARGE - 5)
    assert torch.equal(x.cpu(), torch.tensor([3.0, 0.0]).repeat_interleave(LARGE // 2))


@since_2_13
def test_the_last_reader_is_written_in_place():
    y = (values().to("xla") + 1).cpu()
    torch_pjrt.sync()
    place = address(y)
    with counted(export__materialised__calls=0, export__written_in_place__calls=1):
        y.mul_(2)
        y.mul_(1)
    assert address(y) == place and torch.equal(y, 2 * (values() + 1))
    assert y.numpy().ctypes.data == place


def test_a_second_alias_or_a_clone_on_the_device_keeps_the_bytes():
    x = values().to("xla")
    z = x.clone()
    y = x.cpu()
    del x
    y.zero_()
    assert torch.equal(z.cpu(), values())
    a, b = z.cpu(), z.cpu()
    del z
    a.fill_(1)
    assert torch.equal(b, values())


def test_what_was_recorded_before_the_write_reads_the_old_value():
    x = values().to("xla")
    later = x + 1
    y = x.cpu()
    del x
    y.zero_()
    assert torch.equal(later.cpu(), values() + 1)


def test_an_exported_buffer_is_not_donated():
    x = values().to("xla")
    for _ in range(3):
        torch_pjrt.sync()
        y, expected = x.cpu(), x.cpu().clone()
        x.add_(1)
        torch_pjrt.sync()
        assert torch.equal(y, expected)
    with counted(execute__donated_bytes=4 * LARGE):
        del y
        x.add_(1)
        torch_pjrt.sync()


def grow(y):
    y.resize_(2 * LARGE)
    y[LARGE:] = 0
    return y


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (grow, lambda v: torch.cat([v, 0 * v])),
        (lambda y: y.resize_(8), lambda v: v[:8]),
        (lambda y: y.resize_(2 * LARGE).fill_(3), lambda v: torch.full((2 * LARGE,), 3.0)),
        (lambda y: (y.untyped_storage().resize_(8 * LARGE), y.fill_(1))[1], torch.ones_like),
        (lambda y: torch.empty(0).set_(y).fill_(2), lambda v: torch.full_like(v, 2)),
        (lambda y: torch.empty(0).set_(y.untyped_storage())[:LARGE].neg_(), lambda v: -v),
        (lambda y: y.data.mul_(2), lambda v: v * 2),
        (lambda y: y.detach().mul_(2), lambda v: v * 2),
        (lambda y: y.as_strided((4,), (2,)).fill_(4), lambda v: torch.full((4,), 4.0)),
        (lambda y: y.view(torch.int32).zero_(), lambda v: torch.zeros(LARGE, dtype=torch.int32)),
        (lambda y: y.share_memory_().fill_(7), lambda v: torch.full_like(v, 7)),
        (lambda y: (y.untyped_storage().fill_(0), y)[1], torch.zeros_like),
        (lambda y: (y.untyped_storage().copy_(torch.ones(LARGE).untyped_storage()), y)[1],
         torch.ones_like),
        (lambda y: (y.numpy().fill(9), y)[1], lambda v: torch.full_like(v, 9)),
        (lambda y: (np.asarray(y).__setitem__(0, 9), y[:1])[1], lambda v: torch.full((1,), 9.0)),
        (lambda y: torch.from_dlpack(y).fill_(9), lambda v: torch.full_like(v, 9)),
        (lambda y: (torch.utils.swap_tensors(y, torch.ones(LARGE)), y)[1], torch.ones_like),
        (lambda y: (setattr(y, "data", torch.ones(3)), y)[1], lambda v: torch.ones(3)),
        (lambda y: torch.nn.Parameter(y).detach().zero_(), torch.zeros_like),
        (lambda y: torch.nn.functional.relu(y.neg_(), inplace=True), torch.zeros_like),
    ],
)  # fmt: skip
def test_ways_to_write_or_resize_leave_the_device_alone(change, expected):
    x = values().to("xla")
    y, other = x.cpu(), x.cpu()
    assert torch.equal(change(y), expected(values()))
    assert torch.equal(x.cpu(), values()) and torch.equal(other, values())


def test_numpy_sees_and_writes_the_cpu_tensor():
    x = values().to("xla")
    y = x.cpu()
    array = y.numpy()
    array[0] = 5
    assert y[0] == 5 and x[0].item() == 0


def test_numpy_by_dlpack_does_not_reach_the_device():
    x = values().to("xla")
    array = np.from_dlpack(x.cpu())
    if array.flags.writeable:
        array[0] = 5
    assert x[0].item() == 0


@pytest.mark.parametrize(
    "again",
    [
        lambda y: pickle.loads(pickle.dumps(y)),
        lambda y: torch.load(saved(y)),
        lambda y: __import__("copy").deepcopy(y),
    ],
)
def test_pickling_saving_and_copying(again):
    x = values().to("xla")
    y = again(x.cpu())
    assert torch.equal(y, values())
    y.zero_()
    assert torch.equal(x.cpu(), values())


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def test_saving_keeps_only_the_bytes_of_the_view():
    x = values().to("xla")
    assert len(saved(x[LARGE // 2 :].cpu()).getvalue()) < 4 * LARGE * 0.6


def test_parameters_optimizers_and_saved_tensors():
    x = values(5000).to("xla")
    weight = torch.nn.Parameter(x.cpu())
    loss = (weight * weight).sum()
    with torch.no_grad():
        weight.add_(1)  # autograd must notice, as for any tensor
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    weight = torch.nn.Parameter(x.cpu())
    optimizer = torch.optim.Adam([weight], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (weight.sum()).backward()
        optimizer.step()
    torch.testing.assert_close(weight.detach(), values(5000) - 0.2)
    assert torch.equal(x.cpu(), values(5000))


def test_many_threads_write_their_own():
    x = values(1 << 20).to("xla")
    outs = [x.cpu() for _ in range(8)]
    threads = [threading.Thread(target=lambda y=y: y.add_(1)) for y in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(y, values(1 << 20) + 1) for y in outs)
    assert torch.equal(x.cpu(), values(1 << 20))


@since_2_13
def test_threads_that_write_one_tensor_at_once():
    x = values(1 << 20).to("xla")
    for _ in range(5):
        y = x.cpu()
        parts = y.chunk(8)
        barrier = threading.Barrier(8)

        def write(part, barrier=barrier):
            barrier.wait()
            part.neg_()

        threads = [threading.Thread(target=write, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert torch.equal(y, -values(1 << 20))
    assert torch.equal(x.cpu(), values(1 << 20))


@since_2_13
def test_references_go_back_to_zero():
    start, buffers = live_aliases(), count("pjrt.live_buffers")
    x = values().to("xla")
    y, z = x.cpu(), x.cpu()
    assert count("export.live") == start + 2
    y.add_(1)
    assert count("export.live") == start + 1
    del x
    assert torch.equal(z, values())
    del y, z
    assert live_aliases() == start and count("pjrt.live_buffers") <= buffers


def test_conjugates_negatives_and_uninitialised_memory():
    x = torch.tensor([1 + 2j, 3 - 4j]).to("xla")
    assert x.conj().cpu().tolist() == [1 - 2j, 3 + 4j]
    assert x.conj().imag.cpu().tolist() == [-2, 4]
    assert torch.empty(3, device="xla").cpu().shape == (3,)
    assert torch.empty(0, device="xla").cpu().shape == (0,)
    assert torch.tensor(3.0).to("xla").cpu().item() == 3


def test_a_failed_computation_raises():
    table = torch.ones(4, 2, device="xla")
    bad = torch.tensor([1, 9], device="xla")
    with pytest.raises(IndexError, match="embedding"):
        torch.nn.functional.embedding(bad, table).cpu()


def test_fork_with_live_aliases():
    assert (
        output_of(
            """
            import os, torch, torch_pjrt
            torch.set_num_threads(1)  # PyTorch's own do not survive a fork
            x = torch.arange(1 << 20).to("xla")
            y, z = x.cpu(), x.cpu()
            x.cpu().add_(1)  # starts the threads that copy
            child = os.fork()
            if child == 0:
                assert y[3] == 3
                y.add_(1)
                assert y[3] == 4 and z[3] == 3
                del y, z, x
                os._exit(7)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            print(status, y[3].item(), x[3].item())
            """
        )
        == "7 3 3"
    )


@pytest.mark.parametrize(
    "state",
    [
        "y = x.cpu()",
        "y = x.cpu(); y.add_(1)",
        "y = x.cpu(); del x; y.add_(1); n = y.numpy()",
        "import builtins; builtins.keep = x.cpu()",
        "y = x.cpu(); n = y.numpy(); del x, y",
    ],
)
def test_exit_with_live_aliases_is_clean(state):
    done = run(f"import torch, torch_pjrt\nx = torch.ones(1 << 20, device='xla') + 1\n{state}")
    assert (done.returncode, done.stderr) == (0, "")


def test_workers_receive_exported_tensors():
    assert (
        output_of(
            """
            import torch, torch_pjrt
            x = torch.arange(65536.0).to("xla")
            if __name__ == "__main__":
                queue = torch.multiprocessing.get_context("fork").SimpleQueue()
                y = x.cpu()
                queue.put(y)
                z = queue.get()
                z.fill_(3)
                print(y[5].item(), x[5].item())
            """
        )
        == "3.0 5.0"
    )

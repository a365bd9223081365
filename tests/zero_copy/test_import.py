"""`.to("xla")` under `zero_copy()` shares a cpu tensor's memory, and neither side sees the other's
writes."""

import threading

import numpy as np
import pytest
import torch

import torch_pjrt
from sharing import LARGE, address, count, counted, live_aliases, since_2_13
from subprocess_support import output_of, run
from torch_pjrt import zero_copy


def values(count=LARGE):
    return torch.arange(float(count))


def imported(tensor):
    with zero_copy():
        return tensor.to("xla")


def test_copies_by_default():
    source = values()
    with counted(transfer__host_to_device__adopted__calls=0):
        x = source.to("xla")
    assert address(x) != address(source)
    with zero_copy(), zero_copy(False):
        assert address(source.to("xla")) != address(source)


@pytest.mark.parametrize("size", [1, 100, LARGE])
def test_the_device_has_the_tensors_address(size):
    source = values(size)
    with counted(transfer__host_to_device__adopted__bytes=4 * size, import__materialised__calls=0):
        x = imported(source)
        assert address(x) == address(source)
        assert torch.equal((x + 1).cpu(), values(size) + 1)
    assert torch.equal(source, values(size))


def test_the_setting_and_the_decorator():
    source = values()
    torch_pjrt.config.zero_copy = True
    try:
        assert address(source.to("xla")) == address(source)
        with zero_copy(False):
            assert address(source.to("xla")) != address(source)
    finally:
        torch_pjrt.config.zero_copy = False
    assert address(zero_copy()(lambda: source.to("xla"))()) == address(source)
    with pytest.raises(KeyError), zero_copy():
        raise KeyError
    assert address(source.to("xla")) != address(source)


def test_the_choice_is_the_threads_own():
    source, found = values(), []
    with zero_copy():
        thread = threading.Thread(target=lambda: found.append(source.to("xla")))
        thread.start()
        thread.join()
    assert address(found[0]) != address(source)


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.t(),
        lambda t: t[:, None].transpose(0, 2),
        lambda t: t.reshape(4, 4, 64, 64).to(memory_format=torch.channels_last),
        lambda t: t[64:],
        lambda t: t[:200],
        lambda t: t.view(torch.int32),
        lambda t: t.bfloat16(),
        lambda t: t > 5,
        lambda t: torch.view_as_complex(t.reshape(-1, 2)),
    ],
)
def test_dense_views_are_shared_with_their_strides(view):
    source = view(values().reshape(256, 256))
    x = imported(source)
    assert address(x) == address(source)
    assert x.stride() == source.stride() and x.dtype == source.dtype
    assert torch.equal(x.cpu(), source)
    assert torch.equal(torch.cat([x, x]).cpu(), torch.cat([source, source]))


@pytest.mark.parametrize(
    ("reason", "make"),
    [
        ("view", lambda: values().reshape(256, 256)[:, ::2]),
        ("view", lambda: values().reshape(256, 256)[:100]),
        ("view", lambda: values(256).expand(256, 256)),
        ("misaligned", lambda: values()[1:]),
        ("storage", lambda: aligned_numpy()[0]),
        ("storage", lambda: values().share_memory_()),
        ("storage", lambda: torch.from_dlpack(aligned_numpy()[1])),
        ("storage", lambda: torch.frombuffer(aligned_numpy()[1], dtype=torch.float32)),
    ],
)
def test_what_is_copied_is_counted_by_reason(reason, make):
    source = make()
    before = count(f"import.copied.{reason}.calls")
    with counted(transfer__host_to_device__adopted__calls=0):
        x = imported(source)
    assert count(f"import.copied.{reason}.calls") == before + 1
    expected = source.clone()
    source.view(-1)[:1].fill_(77) if source.is_contiguous() else source[0, 0].fill_(77)
    assert torch.equal(x.cpu(), expected)


def aligned_numpy(size=LARGE):
    memory = np.zeros(size + 16, dtype=np.float32)
    start = -memory.ctypes.data // 4 % 16
    array = memory[start : start + size]
    array[:] = np.arange(size)
    return torch.from_numpy(array), array


def test_another_dtype_is_cast():
    source = values().half()
    with zero_copy():
        x = source.to("xla", torch.float32)
    assert torch.equal(x.cpu(), values().half().float())


def test_writes_are_not_seen_by_the_other_side():
    source = values()
    x = imported(source)
    place = address(source)
    later = x + 1
    with counted(import__materialised__calls=1, import__materialised__bytes=4 * LARGE):
        source.add_(100)
        source.add_(100)
    assert address(x) == place != address(source)
    assert torch.equal(x.cpu(), values()) and torch.equal(later.cpu(), values() + 1)
    x.mul_(0)
    assert torch.equal(source, values() + 200)
    y = imported(source)
    y.add_(1)
    torch_pjrt.sync()
    assert torch.equal(source, values() + 200) and torch.equal(y.cpu(), values() + 201)


def test_views_of_the_source_share_the_write():
    source = values()
    head, tail = source[:10], source[10:]
    x = imported(source)
    head.fill_(7)
    assert source[0] == 7 and tail[0] == 10
    tail.zero_()
    assert source[10] == 0
    assert torch.equal(x.cpu(), values())


def test_the_source_takes_its_memory_back():
    source = values()
    place = address(source)
    x = imported(source)
    del x
    drain()
    with counted(import__materialised__calls=0):
        source.add_(1)
    assert address(source) == place and torch.equal(source, values() + 1)
    assert address(imported(source)) == place


def drain():
    """Until what the device released is given back."""
    torch_pjrt._C.drain_reclaimer()


def test_an_imported_tensor_outlives_its_source():
    source = values()
    x = imported(source)
    del source
    torch.rand(LARGE)
    assert torch.equal(x.cpu(), values())


def test_several_imports_of_one_source():
    source = values()
    x, y = imported(source), imported(source)
    source.neg_()
    assert torch.equal(x.cpu(), values()) and torch.equal(y.cpu(), values())


def test_exporting_what_was_imported():
    source = values()
    x = imported(source)
    y = x.cpu()
    assert address(y) == address(source)
    y.add_(1)
    assert torch.equal(source, values()) and torch.equal(x.cpu(), values())
    y = x.cpu()
    source.add_(5)
    assert torch.equal(y, values())
    del x, source
    drain()
    with counted(export__materialised__calls=1):
        y.add_(1)  # never in place: the memory is not the device's
    assert torch.equal(y, values() + 1)


def test_there_and_back_again_without_a_copy_or_an_option():
    x = values().to("xla") + 1
    y = x.cpu()
    with counted(transfer__host_to_device__adopted__bytes=4 * LARGE):
        z = y.to("xla")
    assert address(z) == address(x)
    z.add_(1)
    y.add_(3)
    assert torch.equal(x.cpu(), values() + 1) and torch.equal(z.cpu(), values() + 2)
    assert torch.equal(y, values() + 4)
    a = x.cpu().view(torch.int32).reshape(4, -1).to("xla")
    assert address(a) == address(x)
    assert torch.equal(a.cpu(), (values() + 1).view(torch.int32).reshape(4, -1))


@since_2_13
def test_memory_that_an_export_wrote_can_be_imported():
    x = values().to("xla")
    y = x.cpu().add_(1)
    z = (x + 1).cpu().add_(1)
    for host in (y, z):
        a = imported(host)
        assert address(a) == address(host)
        expected = host.clone()
        host.zero_()
        assert torch.equal(a.cpu(), expected)


def test_lent_memory_is_never_donated():
    source = values()
    x = imported(source)
    with counted(execute__donated_bytes=0):
        x.add_(1)
        torch_pjrt.sync()
    assert torch.equal(source, values())


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.resize_(2 * LARGE).fill_(3),
        lambda s: s.resize_(8).fill_(3),
        lambda s: s.untyped_storage().resize_(8 * LARGE),
        lambda s: s.set_(torch.ones(3)),
        lambda s: s.share_memory_().fill_(3),
        lambda s: s.numpy().fill(3),
        lambda s: torch.from_dlpack(s).fill_(3),
        lambda s: s.data.fill_(3),
        lambda s: s.untyped_storage().fill_(3),
        lambda s: torch.utils.swap_tensors(s, torch.ones(LARGE)),
    ],
)
def test_what_happens_to_the_source_leaves_the_device_alone(change):
    source = values()
    x = imported(source)
    change(source)
    source.add_(1)
    assert torch.equal(x.cpu(), values())


def test_an_earlier_numpy_array_comes_apart_at_the_next_write():
    source = values()
    array = source.numpy()
    x = imported(source)
    array[0] = 5  # PyTorch cannot see this: it reaches both
    assert source[0] == 5 and x[0].item() == 5
    source[1] = 6
    array[2] = 7
    assert source[2] == 2 and array[1] == 1
    later = source.numpy()
    later[3] = 8
    assert source[3] == 8 and x[3].item() == 3


def test_parameters_and_optimizers():
    weight = torch.nn.Parameter(values(4096))
    x = imported(weight)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    (x.cpu() * 0 + weight).sum().backward()
    optimizer.step()
    torch.testing.assert_close(x.detach().cpu(), values(4096))


def test_references_go_back_to_zero():
    buffers = count("pjrt.live_buffers")
    for _ in range(3):
        x = imported(values())
        y = x.cpu()
        del x, y
    drain()
    assert live_aliases() >= 0 and count("pjrt.live_buffers") <= buffers


def test_data_loaders():
    assert (
        output_of(
            """
            import torch, torch_pjrt
            data = torch.utils.data.TensorDataset(torch.arange(1 << 16).reshape(8, -1))
            count = lambda name: torch_pjrt.metrics.snapshot().get(name, 0)
            totals = []
            for workers in (0, 2):
                adopted = count("transfer.host_to_device.adopted.calls")
                refused = count("import.copied.storage.calls")
                with torch_pjrt.zero_copy():
                    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=workers)
                    totals += [batch.to("xla").sum().item() for (batch,) in loader]
                print(count("transfer.host_to_device.adopted.calls") - adopted,
                      count("import.copied.storage.calls") - refused)
            assert totals[:2] == totals[2:]
            """
        )
        == "2 0\n0 2"
    )


@pytest.mark.parametrize("keep", ["x", "t", "x, t", "y"])
def test_exit_with_live_imports_is_clean(keep):
    done = run(
        f"""
        import builtins, torch, torch_pjrt
        t = torch.ones(1 << 20)
        with torch_pjrt.zero_copy():
            x = t.to("xla")
        y = x.cpu()
        builtins.keep = ({keep},)
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_fork_with_lent_memory():
    assert (
        output_of(
            """
            import os, torch, torch_pjrt
            torch.set_num_threads(1)  # PyTorch's own do not survive a fork
            t = torch.arange(65536.0)
            with torch_pjrt.zero_copy():
                x = t.to("xla")
            child = os.fork()
            if child == 0:
                t.add_(1)
                assert t[3] == 4
                del x, t
                os._exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), t[3].item(), x[3].item())
            """
        )
        == "7 3.0 3.0"
    )

"""DLPack in both directions, version 1 and the old capsule, with PyTorch, NumPy and JAX."""

import ctypes
import gc

import numpy as np
import pytest
import torch

import torch_pjrt
from dlpack_structs import FLAGS, Producer, array_of
from sharing import LARGE, address, count, counted
from torch_pjrt import _C, from_dlpack, zero_copy


def values(count=LARGE):
    return torch.arange(float(count))


def aligned(shape=(64, 64), dtype=np.float32):
    size = int(np.prod(shape))
    memory = np.zeros(size + 64, dtype=dtype)
    start = -memory.ctypes.data // memory.itemsize % (64 // memory.itemsize)
    array = memory[start : start + size].reshape(shape)
    array[...] = np.arange(size).reshape(shape)
    return array


# ---- export ----


def test_torch_shares_the_buffer():
    x = values().to("xla") + 1
    y = torch.from_dlpack(x)
    assert y.device.type == "cpu" and address(y) == address(x)
    assert torch.equal(y, values() + 1)


def test_numpy_reads_without_a_copy():
    x = values().to("xla") + 1
    with counted(dlpack__unshared__calls=0, transfer__device_to_host__calls=0):
        array = np.from_dlpack(x)
    assert array.ctypes.data == address(x) and not array.flags.writeable
    assert np.array_equal(array, (values() + 1).numpy())


def test_jax_reads_without_a_copy():
    jax = pytest.importorskip("jax", reason="jax is installed for benchmarks only")
    x = values().to("xla") + 1
    array = jax.numpy.from_dlpack(x)
    assert array.unsafe_buffer_pointer() == address(x)
    assert np.array_equal(np.asarray(array), (values() + 1).numpy())


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.t(),
        lambda t: t[3:],
        lambda t: t[:, ::2],
        lambda t: t[1, 1],
        lambda t: t[:0],
        lambda t: t[:1].expand(5, 64),
        lambda t: t.view(torch.int32),
    ],
)
def test_any_strides(view):
    host = values(4096).reshape(64, 64)
    x = host.to("xla")
    y, expected = torch.from_dlpack(view(x)), view(host)
    assert torch.equal(y, expected) and y.stride() == expected.stride()
    if y.numel():
        assert address(y) == address(view(x))


DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
          torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
          torch.complex128, torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e5m2fnuz,
          torch.float8_e4m3fnuz, torch.float8_e8m0fnu, torch.uint16, torch.uint32]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (64, 64)])
def test_every_dtype_there_and_back(dtype, shape):
    host = torch.arange(float(np.prod(shape, dtype=int))).remainder(3).to(dtype).reshape(shape)
    x = host.to("xla")
    y = torch.from_dlpack(x)
    z = from_dlpack(y)
    for t in (y, z.cpu()):
        assert t.dtype == dtype and t.shape == host.shape
        assert torch.equal(bits(t), bits(host))
    if host.numel():
        assert address(x) == address(y) == address(z)


def bits(tensor):
    return tensor.reshape(-1).view(torch.uint8) if tensor.numel() else tensor.reshape(-1)


def test_a_write_through_an_alias_changes_this_tensor_and_no_other():
    x = values().to("xla")
    clone, snapshot, recorded = x.clone(), x.cpu(), x + 1
    view = x[5:]
    y = torch.from_dlpack(x)
    later = x * 2
    y.fill_(9)
    after = x.clone()
    assert (x.cpu() == 9).all() and (view.cpu() == 9).all() and (later.cpu() == 18).all()
    assert (after.cpu() == 9).all()
    assert torch.equal(clone.cpu(), values()) and torch.equal(snapshot, values())
    assert torch.equal(recorded.cpu(), values() + 1)
    y.fill_(4)
    assert (after.cpu() == 9).all() and (x.cpu() == 4).all()


def test_copies_of_an_exported_tensor_are_copies():
    x = values().to("xla")
    y = torch.from_dlpack(x)
    before = count("export.copied.alias.calls")
    host, clone = x.cpu(), x.clone()
    clone.cpu()
    assert count("export.copied.alias.calls") == before + 1
    y.zero_()
    assert torch.equal(host, values()) and torch.equal(clone.cpu(), values())
    del y
    gc.collect()
    assert address(x.cpu()) == address(x)


def test_a_write_on_the_device_is_not_seen_by_the_alias():
    x = values().to("xla")
    y = torch.from_dlpack(x)
    x.add_(1)
    torch_pjrt.sync()
    assert torch.equal(y, values()) and torch.equal(x.cpu(), values() + 1)


def test_an_exported_buffer_outlives_the_tensor_and_is_not_donated():
    x = values().to("xla")
    y = torch.from_dlpack(x)
    with counted(execute__donated_bytes=0):
        x.add_(1)
        torch_pjrt.sync()
    del x
    gc.collect()
    assert torch.equal(y, values())


def test_a_shared_buffer_is_unshared_once_on_the_device():
    x = values().to("xla")
    clone = x.clone()
    with counted(dlpack__unshared__calls=1, dlpack__unshared__bytes=4 * LARGE):
        y, z = torch.from_dlpack(x), torch.from_dlpack(x)
    assert address(y) == address(z) == address(x) != address(clone)


def test_what_zero_copy_lent_is_not_exposed():
    source = values()
    with zero_copy():
        x = source.to("xla")
    torch.from_dlpack(x).zero_()
    assert torch.equal(source, values()) and (x.cpu() == 0).all()


@pytest.mark.parametrize(
    ("version", "name", "seen"),
    [
        (None, "dltensor", None),
        ((0, 8), "dltensor", None),
        ((1, 0), "dltensor_versioned", (1, 0)),
        ((1, 1), "dltensor_versioned", (1, 1)),
        ((1, 99), "dltensor_versioned", (1, 3)),
        ((2, 0), "dltensor_versioned", (1, 3)),
    ],
)
def test_versions(version, name, seen):
    x = torch.ones(4).to("xla")
    capsule = x.__dlpack__(max_version=version)
    assert f'"{name}"' in repr(capsule)
    if seen:
        managed = array_of(capsule)
        assert (managed.major, managed.minor) == seen
        assert managed.flags == FLAGS["read_only"]
    assert torch.equal(torch.from_dlpack(capsule), torch.ones(4))
    with pytest.raises(Exception, match="capsule"):
        torch.from_dlpack(capsule)


def test_copy_true_gives_a_copy_that_may_be_written():
    x = values().to("xla")
    capsule = x.__dlpack__(max_version=(1, 0), copy=True)
    assert array_of(capsule).flags == FLAGS["copied"]
    del capsule
    y = torch.from_dlpack(x, copy=True)
    assert address(y) != address(x)
    y.zero_()
    assert torch.equal(x.cpu(), values())
    array = np.from_dlpack(x.reshape(256, 256).t(), copy=True)
    assert array.flags.writeable and array[1, 0] == 1 and array[0, 1] == 256


def test_copy_false_shares():
    x = values().to("xla")
    assert np.from_dlpack(x, copy=False).ctypes.data == address(x)


def test_devices():
    x = torch.ones(4).to("xla")
    assert x.__dlpack_device__() == (1, 0) == torch.ones(1).__dlpack_device__()
    assert np.from_dlpack(x, device="cpu").tolist() == [1] * 4
    assert torch.from_dlpack(x.__dlpack__(dl_device=(1, 0), max_version=(1, 0))).sum() == 4
    with pytest.raises(BufferError, match="not on the device"):
        x.__dlpack__(dl_device=(2, 0))


@pytest.mark.parametrize("stream", [None, -1])
def test_host_memory_takes_no_stream(stream):
    x = torch.ones(4).to("xla")
    x.__dlpack__(stream=stream)
    with pytest.raises(BufferError, match="stream"):
        x.__dlpack__(stream=1)
    with pytest.raises(TypeError, match="stream"):
        x.__dlpack__(stream="default")


def test_what_dlpack_cannot_say_is_refused():
    x = torch.ones(4, device="xla", requires_grad=True)
    with pytest.raises(BufferError, match="gradient"):
        torch.from_dlpack(x)
    z = torch.ones(4, dtype=torch.complex64).to("xla")
    with pytest.raises(BufferError, match="conjugate"):
        torch.from_dlpack(z.conj())
    with pytest.raises(BufferError, match="negative"):
        torch.from_dlpack(z.conj().imag)


def test_cpu_tensors_keep_their_own_way():
    t = torch.ones(4)
    assert torch.from_dlpack(t).data_ptr() == t.data_ptr()
    assert t.__dlpack__(stream=None) and np.from_dlpack(t).tolist() == [1] * 4


def test_an_unused_capsule_frees_what_it_holds():
    x = values().to("xla")
    buffers = count("pjrt.live_buffers")
    for version in (None, (1, 0)):
        capsule = x.__dlpack__(max_version=version)
        del capsule
    del x
    assert count("pjrt.live_buffers") == buffers - 1


# ---- import ----


def test_numpy_is_shared():
    array = aligned()
    with counted(dlpack__imported__bytes=array.nbytes, transfer__host_to_device__adopted__calls=1):
        x = from_dlpack(array)
    assert x.device.type == "xla" and address(x) == array.ctypes.data
    assert np.array_equal((x + 1).cpu().numpy(), array + 1)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a.reshape(4, 16, 64).transpose(2, 0, 1),
        lambda a: a[:, :48],
        lambda a: a[::2],
        lambda a: np.broadcast_to(a[:1], (7, 64)),
        lambda a: a[4:5, 16:17],
        lambda a: a[0, 0],
    ],
)
def test_strided_arrays_are_shared_through_their_extent(view):
    array = view(aligned())
    x = from_dlpack(array if isinstance(array, np.ndarray) else np.asarray(array))
    if 1 not in array.shape:
        assert x.stride() == tuple(s // 4 for s in array.strides)
    assert np.array_equal(x.cpu().numpy(), array)


@pytest.mark.parametrize(
    ("reason", "array"),
    [
        ("misaligned", lambda: aligned().reshape(-1)[1:]),
        ("view", lambda: aligned()[:, ::16]),
        ("view", lambda: torch.from_numpy(aligned())[:, ::16]),
    ],
)
def test_what_is_copied_is_counted_by_reason(reason, array):
    source = array()
    before = count(f"dlpack.copied.{reason}.calls")
    x = from_dlpack(source)
    assert count(f"dlpack.copied.{reason}.calls") == before + 1
    assert np.array_equal(x.cpu().numpy(), np.asarray(source))
    with pytest.raises(BufferError, match="copy=False"):
        from_dlpack(source, copy=False)


def test_negative_strides_are_copied():
    source = aligned()
    x = from_dlpack(source[::-1])
    assert np.array_equal(x.cpu().numpy(), source[::-1])


def test_copy_true_copies():
    array = aligned()
    with counted(dlpack__copied__asked__bytes=array.nbytes):
        x = from_dlpack(array, copy=True)
    array[:] = 0
    assert x.sum().item() == sum(range(64 * 64))


def test_a_write_by_the_owner_shows_in_what_has_not_run():
    array = aligned()
    x = from_dlpack(array)
    before = x + 0
    torch_pjrt.sync()
    recorded, clone, host = x + 0, x.clone(), x.cpu()
    torch_pjrt.sync()
    array[:] = 5
    assert (x.cpu() == 5).all() and ((x + 1).cpu() == 6).all()
    for t in (before.cpu(), recorded.cpu(), clone.cpu(), host):
        assert t[1, 1] == 65


def test_a_write_on_the_device_ends_the_sharing():
    array = aligned()
    x = from_dlpack(array)
    x[0, 0] = 7
    x.mul_(2)
    torch_pjrt.sync()
    assert array[0, 0] == 0 and array[0, 1] == 1
    array[:] = 3
    assert x.cpu()[0, :2].tolist() == [14, 2]


def test_read_only_arrays_are_taken():
    array = aligned()
    array.flags.writeable = False
    x = from_dlpack(array)
    x.add_(1)
    torch_pjrt.sync()
    assert array[0, 1] == 1 and x[0, 1].item() == 2


@pytest.mark.parametrize("replace", ["data", "set_"])
def test_an_owner_that_is_given_other_memory_leaves_the_old(replace):
    for _ in range(5):
        source = values(5000)
        x = from_dlpack(source)
        assert address(x) == address(source)
        if replace == "data":
            source.data = torch.zeros(5000)
        else:
            source.set_(torch.zeros(5000))
        others = [torch.full((5000,), -1.0) for _ in range(3)]
        assert torch.equal(x.cpu(), values(5000)) and len(others) == 3


def test_an_owner_does_not_grow_while_its_memory_may_be_shared():
    source, other = values(5000), values(5000)
    x = from_dlpack(source)
    from_dlpack(other, copy=True)
    with pytest.raises(RuntimeError, match="not resizable"):
        source.resize_(9000)
    assert address(x) == address(source)
    other.resize_(9000)


def test_the_owner_is_released():
    producer = Producer(aligned())
    x = from_dlpack(producer)
    assert producer.released == 0
    y = x.reshape(-1)
    del x
    gc.collect()
    assert producer.released == 0 and y[3].item() == 3
    del y
    _C.drain_reclaimer()
    assert producer.released == 1


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("flags", ["none", "read_only", "copied"])
def test_producers_of_either_version(versioned, flags):
    producer = Producer(aligned(), versioned=versioned, flags=FLAGS[flags])
    x = from_dlpack(producer)
    assert x[1, 1].item() == 65
    assert producer.asked["max_version"] == (1, 3)


def test_producers_that_know_no_options():
    class Old(Producer):
        def __dlpack__(self):
            return super().__dlpack__()

    assert from_dlpack(Old(aligned(), versioned=False))[1, 1].item() == 65


def test_another_major_version_is_refused_and_released():
    producer = Producer(aligned(), major=2)
    with pytest.raises(ValueError, match="major version"):
        from_dlpack(producer)
    assert producer.released == 1


def test_foreign_devices_and_types_are_refused_and_released():
    producer = Producer(aligned(), device=(2, 0))
    with pytest.raises(BufferError, match="host memory"):
        from_dlpack(producer)
    assert producer.released == 1
    producer = Producer(aligned(), dtype=(2, 32, 4))
    with pytest.raises((TypeError, ValueError), match="lanes"):
        from_dlpack(producer)
    assert producer.released == 1


def test_capsules_and_other_objects():
    array = aligned()
    capsule = array.__dlpack__()
    assert address(from_dlpack(capsule)) == array.ctypes.data
    with pytest.raises(TypeError, match="capsule"):
        from_dlpack(capsule)
    with pytest.raises(TypeError, match="capsule"):
        from_dlpack([1, 2])


def test_xla_tensors_are_returned():
    x = values().to("xla")
    y = from_dlpack(x)
    assert address(y) == address(x) and y is not x
    assert address(from_dlpack(x, copy=True)) != 0


def test_cpu_tensors_are_shared():
    source = values()
    x = from_dlpack(source)
    assert address(x) == source.data_ptr()
    source.fill_(3)
    assert (x.cpu() == 3).all()


def test_jax_arrays_are_shared():
    jax = pytest.importorskip("jax", reason="jax is installed for benchmarks only")
    array = jax.numpy.arange(float(LARGE)) + 1
    x = from_dlpack(array)
    assert address(x) == array.unsafe_buffer_pointer()
    assert np.array_equal(x.cpu().numpy(), np.asarray(array))
    x.add_(1)
    torch_pjrt.sync()
    assert array[0] == 1
    half = jax.numpy.ones((4, 64), dtype=jax.numpy.bfloat16)
    assert torch.equal(from_dlpack(half).cpu(), torch.ones(4, 64, dtype=torch.bfloat16))


def test_bfloat16_bool_and_complex_of_torch():
    for source in (torch.ones(64, dtype=torch.bfloat16), torch.ones(64) > 0,
                   torch.full((64,), 1 + 2j)):  # fmt: skip
        assert torch.equal(from_dlpack(source).cpu(), source)


def test_pointer_of_an_export_is_aligned_for_others():
    assert ctypes.c_void_p(address(values().to("xla"))).value % 64 == 0

"""Random views, writes and crossings of tensors that share memory, against what the docs promise:
an explicit alias by DLPack shows writes on the other side, and nothing else does."""

import gc
import random
import threading

import pytest
import torch

import torch_pjrt
from sharing import address
from torch_pjrt import zero_copy

SHAPES = [(64,), (16, 8), (4, 4, 8), (128, 32), (1,), (), (0, 3), (70, 70)]
DTYPES = [torch.float32, torch.int32, torch.bfloat16, torch.bool, torch.complex64, torch.int64]


class OnDevice:
    """An xla tensor, and its storage's memory as PyTorch on the cpu would have it."""

    def __init__(self, tensor, memory):
        self.tensor, self.memory = tensor, memory

    def expected(self):
        """As the tensor shows its memory; `memory` may lie within that of another tensor."""
        t, start = self.tensor, self.memory[0].storage_offset()
        return self.memory[0].as_strided(t.size(), t.stride(), start + t.storage_offset())

    def about_to_be_written(self):
        """Its sharing with others ends; views stay together."""
        self.memory[0] = self.memory[0].clone()

    def view(self, of):
        return OnDevice(of(self.tensor), self.memory)


class OnHost:
    def __init__(self, tensor, expected, is_explicit):
        self.tensor, self._expected = tensor, expected
        self.is_explicit = is_explicit  # of all tensors with this memory

    def expected(self):
        return self._expected

    def about_to_be_written(self):
        torch_pjrt.sync()  # what was recorded reads what was there

    def view(self, of):
        return OnHost(of(self.tensor), of(self._expected), self.is_explicit)


def on_device(tensor, expected):
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    made = OnDevice(tensor, [torch.zeros(elements, dtype=tensor.dtype)])
    made.expected().copy_(expected)
    return made


def on_host(tensor, expected, is_explicit=False):
    copy = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    return OnHost(tensor, copy.copy_(expected), [is_explicit])


class Play:
    def __init__(self, seed):
        self.random, self.numbers = random.Random(seed), torch.Generator().manual_seed(seed)
        self.pool = []

    def values(self, shape, dtype):
        return torch.randint(-4, 5, shape, generator=self.numbers).to(dtype)

    def make(self, _):
        host = self.values(self.random.choice(SHAPES), self.random.choice(DTYPES))
        if self.random.random() < 0.5:
            return on_device(host.to("xla"), host)
        return on_host(host.clone(), host)

    def view(self, item):
        sizes = item.tensor.shape
        views = [lambda t: t.unsqueeze(-1), lambda t: t.detach()]
        if sizes and sizes[0]:
            at = self.random.randrange(sizes[0])
            views += [lambda t: t[at:], lambda t: t[::2], lambda t: t[at]]
        if len(sizes) > 1:
            views += [lambda t: t.transpose(0, -1), lambda t: t.diagonal(), lambda t: t[..., 1:3]]
        return item.view(self.random.choice(views))

    def write(self, item):
        new = self.values(item.tensor.shape, item.tensor.dtype)
        write = self.random.choice(
            [torch.Tensor.copy_, lambda t, new: t.zero_(), lambda t, new: t.data.copy_(new)]
        )
        item.about_to_be_written()
        write(item.tensor, new.to(item.tensor.device))
        write(item.expected(), new)

    def cross(self, item):
        if isinstance(item, OnDevice):
            return on_host(item.tensor.cpu(), item.expected())
        # An alias that was made before would show writes until the next one.
        with zero_copy(not item.is_explicit[0] and self.random.random() < 0.7):
            return on_device(item.tensor.to("xla"), item.expected())

    def share(self, item):
        if isinstance(item, OnDevice):
            return OnHost(torch.from_dlpack(item.tensor), item.expected(), [True])
        x = torch_pjrt.from_dlpack(item.tensor)
        expected = item.expected()
        if not x.numel() or address(x) != address(item.tensor):
            return on_device(x, expected)
        item.is_explicit[0] = True
        extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
        return OnDevice(x, [expected.as_strided((extent,), (1,), expected.storage_offset())])

    def compute(self, item):
        if isinstance(item, OnDevice) and item.tensor.dtype != torch.bool:
            return on_device(item.tensor + item.tensor, item.expected() + item.expected())

    def give_other_memory(self, item):
        if isinstance(item, OnHost):
            item.tensor.data = item.tensor.clone()
            copy = on_host(item.tensor, item.expected())
            item._expected, item.is_explicit = copy._expected, copy.is_explicit

    def check(self, item):
        found, expected = item.tensor.cpu(), item.expected()
        assert found.dtype == expected.dtype and torch.equal(found, expected)

    def drop(self, item):
        self.pool.remove(item)
        if self.random.random() < 0.1:
            gc.collect()

    def run(self, steps=60):
        moves = {
            self.make: 2, self.view: 5, self.write: 6, self.cross: 6, self.share: 6,
            self.compute: 3, self.give_other_memory: 1, self.check: 3, self.drop: 3,
        }  # fmt: skip
        self.pool.append(self.make(None))
        for move in self.random.choices(list(moves), list(moves.values()), k=steps):
            if len(self.pool) > 14:
                move = self.drop
            item = self.random.choice(self.pool) if self.pool else self.make(None)
            if move == self.drop and item not in self.pool:
                continue
            if (made := move(item)) is not None:
                self.pool.append(made)
        torch_pjrt.sync()
        for item in self.pool:
            self.check(item)


@pytest.mark.parametrize("seed", range(40))
def test_only_explicit_aliases_show_writes(seed):
    Play(seed).run()


def test_the_same_on_several_threads():
    errors = []

    def play(first):
        try:
            for seed in range(first, first + 10):
                Play(seed).run()
        except Exception as error:
            errors.append(f"{seed}: {error!r}")

    threads = [threading.Thread(target=play, args=(100 * i,)) for i in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors

"""Random sequences of views and writes on shared storages, on xla and on cpu side by side.

Both sides must agree on values, shapes, strides, offsets, versions, and on who shares a storage
with whom. A failing sequence prints its steps as a program.
"""

import os
import random

import pytest
import torch

SEQUENCES = int(os.environ.get("TORCH_PJRT_VIEW_SEQUENCES", "60"))
STEPS = 14
LARGEST = 64  # elements of a view; expand and as_strided could grow without bound

BASES = {
    "float32": [(2, 3, 4), (4, 6), (24,), (), (0, 3)],
    "int64": [(3, 4), (2, 2, 3)],
    "bool": [(4, 3)],
    "complex64": [(3, 4), (2, 2, 2)],
    "bfloat16": [(2, 3, 4)],
}
# Values that are ordinary numbers in every dtype that may view the same bytes.
FILLS = {
    torch.float32: [0.5, -2.0, 3.0],
    torch.float64: [1.0, 0.5],
    torch.bfloat16: [0.5, -2.0, 3.0],
    torch.int64: [3, -7, 12],
    torch.int32: [0x3F800000, 0x40100000],
    torch.int16: [0x3E80, 0x3F40],
    torch.uint8: [63, 64],
    torch.bool: [True, False],
    torch.complex64: [1 + 2j, -0.5j],
}
NEIGHBOURS = {torch.float32: [torch.int32, torch.int16, torch.uint8, torch.float64], torch.bfloat16: [torch.int16]}


class Pair:
    """A tensor on cpu and its counterpart on xla."""

    def __init__(self, cpu, xla, name, own_dtype=True):
        self.cpu, self.xla, self.name, self.own_dtype = cpu, xla, name, own_dtype


class Sequence:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.steps = []
        self.pairs = []
        dtype = self.random.choice(list(BASES))
        shape = self.random.choice(BASES[dtype])
        self.new(torch.Size(shape), getattr(torch, dtype))

    def new(self, shape, dtype):
        numbers = torch.arange(1, shape.numel() + 1).reshape(shape) % 11
        cpu = (numbers % 2 == 0) if dtype == torch.bool else numbers.to(dtype)
        self.add(cpu, cpu.to("xla"), f"base {tuple(shape)} {dtype}")

    def add(self, cpu, xla, step, own_dtype=True):
        pair = Pair(cpu, xla, f"v{len(self.pairs)}", own_dtype)
        self.steps.append(f"{pair.name} = {step}")
        self.pairs.append(pair)

    def apply_view(self, pair, text, function, own_dtype=None):
        cpu = function(pair.cpu)
        if cpu.numel() <= LARGEST:
            own = pair.own_dtype if own_dtype is None else own_dtype
            self.add(cpu, function(pair.xla), f"{pair.name}.{text}", own)

    # ---- views ----

    def view(self):
        pair = self.random.choice(self.pairs[-8:])
        getattr(self, "view_" + self.random.choice(VIEWS))(pair, pair.cpu)

    def dim_of(self, x):
        return self.random.randrange(x.dim())

    def view_narrow(self, pair, x):
        if x.dim():
            d = self.dim_of(x)
            start = self.random.randint(0, x.size(d))
            length = self.random.randint(0, x.size(d) - start)
            self.apply_view(pair, f"narrow({d}, {start}, {length})", lambda t: t.narrow(d, start, length))

    def view_select(self, pair, x):
        if x.dim() and x.size(d := self.dim_of(x)):
            i = self.random.randrange(-x.size(d), x.size(d))
            self.apply_view(pair, f"select({d}, {i})", lambda t: t.select(d, i))

    def view_step(self, pair, x):
        if x.dim():
            d, start, step = self.dim_of(x), self.random.randint(0, 1), self.random.randint(2, 3)
            index = (slice(None),) * d + (slice(start, None, step),)
            self.apply_view(pair, f"__getitem__({index})", lambda t: t[index])

    def view_transpose(self, pair, x):
        if x.dim() > 1:
            a, b = self.random.sample(range(x.dim()), 2)
            self.apply_view(pair, f"transpose({a}, {b})", lambda t: t.transpose(a, b))

    def view_permute(self, pair, x):
        order = self.random.sample(range(x.dim()), x.dim())
        self.apply_view(pair, f"permute({order})", lambda t: t.permute(order))

    def view_expand(self, pair, x):
        sizes = [3 if s == 1 and self.random.random() < 0.7 else s for s in x.shape]
        if self.random.random() < 0.5:
            sizes = [2, *sizes]
        self.apply_view(pair, f"expand({sizes})", lambda t: t.expand(sizes))

    def view_unfold(self, pair, x):
        if x.dim() and x.size(d := self.dim_of(x)):
            size, step = self.random.randint(1, x.size(d)), self.random.randint(1, 3)
            self.apply_view(pair, f"unfold({d}, {size}, {step})", lambda t: t.unfold(d, size, step))

    def view_as_strided(self, pair, x):
        count = x.untyped_storage().nbytes() // x.itemsize
        rank = self.random.randint(0, 3)
        sizes = [self.random.randint(1, 3) for _ in range(rank)]
        strides = [self.random.randint(0, 5) for _ in range(rank)]
        last = sum((n - 1) * s for n, s in zip(sizes, strides))
        if last < count and not x.is_conj() and not x.is_neg():
            offset = self.random.randint(0, count - 1 - last)
            self.apply_view(pair, f"as_strided({sizes}, {strides}, {offset})", lambda t: t.as_strided(sizes, strides, offset))

    def view_reshape(self, pair, x):
        n = x.numel()
        shapes = [(n,), (n, 1), (1, n)] + [(k, n // k) for k in (2, 3, 4) if n and n % k == 0]
        shape = self.random.choice(shapes)
        self.apply_view(pair, f"reshape({shape})", lambda t: t.reshape(shape))

    def view_diagonal(self, pair, x):
        if x.dim() > 1:
            a, b = self.random.sample(range(x.dim()), 2)
            offset = self.random.randint(-1, 1)
            self.apply_view(pair, f"diagonal({offset}, {a}, {b})", lambda t: t.diagonal(offset, a, b))

    def view_dtype(self, pair, x):
        if x.dtype in NEIGHBOURS and pair.own_dtype:
            dtype = self.random.choice(NEIGHBOURS[x.dtype])
            try:
                x.view(dtype)
            except RuntimeError:
                return
            self.apply_view(pair, f"view({dtype})", lambda t: t.view(dtype), own_dtype=False)

    def view_parts(self, pair, x):
        if x.is_complex():
            name = self.random.choice(["real", "imag", "conj", "view_as_real"])
            if name == "view_as_real" and x.is_conj():
                return
            functions = {
                "real": lambda t: t.real, "imag": lambda t: t.imag,
                "conj": lambda t: t.conj(), "view_as_real": torch.view_as_real,
            }
            self.apply_view(pair, name, functions[name])

    def view_flatten(self, pair, x):
        self.apply_view(pair, "flatten()", lambda t: t.flatten())

    def view_unsqueeze(self, pair, x):
        d = self.random.randint(0, x.dim())
        self.apply_view(pair, f"unsqueeze({d})", lambda t: t.unsqueeze(d))

    def view_squeeze(self, pair, x):
        self.apply_view(pair, "squeeze()", lambda t: t.squeeze())

    def view_chunk(self, pair, x):
        if x.dim():
            d = self.dim_of(x)
            self.apply_view(pair, f"chunk(2, {d})[-1]", lambda t: t.chunk(2, d)[-1])

    def view_copy(self, pair, x):
        text = self.random.choice(["clone()", "contiguous()", "detach()"])
        self.apply_view(pair, text, lambda t: getattr(t, text[:-2])())

    # ---- writes ----

    def write(self):
        pair = self.random.choice(self.pairs[-8:])
        if overlaps_itself(pair.cpu):
            return
        name = self.random.choice(WRITES)
        getattr(self, "write_" + name)(pair, pair.cpu)

    def number(self, x):
        return self.random.choice(FILLS[x.dtype])

    def run(self, pair, text, function):
        self.steps.append(f"{pair.name}.{text}")
        function(pair.cpu)
        function(pair.xla)

    def write_fill(self, pair, x):
        value = self.number(x)
        self.run(pair, f"fill_({value})", lambda t: t.fill_(value))

    def write_zero(self, pair, x):
        if pair.own_dtype:
            self.run(pair, "zero_()", lambda t: t.zero_())

    def write_add(self, pair, x):
        if pair.own_dtype and x.dtype != torch.bool:
            self.run(pair, "add_(1)", lambda t: t.add_(1))

    def write_mul(self, pair, x):
        if pair.own_dtype:
            value = True if x.dtype == torch.bool else -1
            self.run(pair, f"mul_({value})", lambda t: t.mul_(value))

    def write_copy(self, pair, x):
        others = [p for p in self.pairs if p.own_dtype and torch.can_cast(p.cpu.dtype, x.dtype)
                  and p.cpu.is_complex() == x.is_complex() and expands_to(p.cpu, x)]
        if others and pair.own_dtype:
            other = self.random.choice(others)
            self.steps.append(f"{pair.name}.copy_({other.name}.clone())")
            pair.cpu.copy_(other.cpu.clone())
            pair.xla.copy_(other.xla.clone())

    def write_copy_from_cpu(self, pair, x):
        value = torch.full(x.shape, self.number(x), dtype=x.dtype)
        self.run(pair, f"copy_(cpu {value.flatten()[:1].tolist()})", lambda t: t.copy_(value))

    def write_item(self, pair, x):
        if x.dim() and x.size(0):
            i, value = self.random.randrange(-x.size(0), x.size(0)), self.number(x)
            self.run(pair, f"__setitem__({i}, {value})", lambda t: t.__setitem__(i, value))

    def write_slice(self, pair, x):
        if x.dim():
            value = self.number(x)
            self.run(pair, f"__setitem__(::2, {value})", lambda t: t.__setitem__(slice(None, None, 2), value))

    def write_index(self, pair, x):
        if x.dim() and x.size(0):
            rows = self.random.sample(range(x.size(0)), self.random.randint(1, x.size(0)))
            value = self.number(x)

            def put(t):
                index = torch.tensor(rows, device=t.device)
                t.index_put_((index,), torch.tensor(value, dtype=t.dtype, device=t.device))

            self.run(pair, f"index_put_({rows}, {value})", put)

    def write_mask(self, pair, x):
        if x.dim():
            value = self.number(x)
            mask = torch.arange(x.numel()).reshape(x.shape) % 3 == 0
            self.run(pair, f"masked_fill_(every third, {value})", lambda t: t.masked_fill_(mask.to(t.device), value))

    # ---- agreement ----

    def check(self):
        for pair in self.pairs:
            cpu, xla = pair.cpu, pair.xla
            assert xla.device.type == "xla"
            assert (xla.dtype, xla.shape, xla._version) == (cpu.dtype, cpu.shape, cpu._version), pair.name
            assert xla.is_conj() == cpu.is_conj() and xla.is_neg() == cpu.is_neg()
            if cpu.numel() > 1:
                assert xla.stride() == cpu.stride(), pair.name
            assert xla.storage_offset() == cpu.storage_offset(), pair.name
        addresses = [(p.cpu.untyped_storage()._cdata, p.xla.untyped_storage()._cdata) for p in self.pairs]
        for a_cpu, a_xla in addresses:
            for b_cpu, b_xla in addresses:
                assert (a_cpu == b_cpu) == (a_xla == b_xla)
        # Reading through the program, and the storage as it is on the device.
        chosen = self.random.sample(self.pairs, min(4, len(self.pairs)))
        reads = [(pair, pair.xla.clone()) for pair in chosen]
        for pair, read in reads:
            same_bits(read.resolve_conj().resolve_neg().cpu(), pair.cpu.clone().resolve_conj().resolve_neg(), pair.name)
        for pair in self.pairs:
            same_bits(pair.xla.cpu().resolve_conj().resolve_neg(), pair.cpu.resolve_conj().resolve_neg(), pair.name)


VIEWS = [n.removeprefix("view_") for n in vars(Sequence) if n.startswith("view_")]
WRITES = [n.removeprefix("write_") for n in vars(Sequence) if n.startswith("write_")]


def overlaps_itself(x):
    places = torch.zeros(x.shape, dtype=torch.long)
    for d, (size, stride) in enumerate(zip(x.shape, x.stride())):
        places += (torch.arange(size) * stride).reshape([-1 if k == d else 1 for k in range(x.dim())])
    return places.unique().numel() != x.numel()


def expands_to(source, target):
    try:
        source.expand(target.shape)
        return True
    except RuntimeError:
        return False


def same_bits(actual, expected, name):
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    assert torch.equal(actual.contiguous().flatten().view(torch.uint8) if actual.numel() else actual,
                       expected.contiguous().flatten().view(torch.uint8) if actual.numel() else expected), (
        f"{name}: got {actual.tolist()}, expected {expected.tolist()}")


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_sequence(seed):
    sequence = Sequence(seed)
    try:
        for step in range(STEPS):
            if sequence.random.random() < 0.55:
                sequence.view()
            else:
                sequence.write()
            if step % 5 == 4:
                sequence.check()
        sequence.check()
    except Exception as error:
        raise AssertionError("\n".join([*sequence.steps, repr(error)])) from error

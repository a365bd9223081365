"""Every operator of PyTorch's database runs on cpu tensors that share device memory: functional,
in place, `out=` and backward. Results are those of plain tensors, the device's arrays keep their
values, and what was copied was counted.

TORCH_PJRT_ALL_WRITE_PATHS=1 takes every operator and more samples; otherwise a part of them.
"""

import os
import warnings

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

from sharing import address, count

ALL = os.environ.get("TORCH_PJRT_ALL_WRITE_PATHS") == "1"
GROUPS = 16
SAMPLES = 6 if ALL else 2
DTYPES = (torch.float32, torch.int64, torch.complex64, torch.bool)


def full_name(operator):
    return operator.name + (f".{operator.variant_test_name}" if operator.variant_test_name else "")


# Their results come from the system, memory without contents, or an order that threads decide.
SKIPPED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
           "new_empty_strided"}  # fmt: skip
OPERATORS = [op for op in op_db if op.name not in SKIPPED][:: 1 if ALL else 8]


def has_storage(value):
    return value.layout == torch.strided and value.numel() != 0 and not value.is_quantized


def storage_copy(value):
    """The tensor without autograd and lazy bits, and a copy of all of its storage, flat."""
    source = value.detach().resolve_conj().resolve_neg()
    elements = source.untyped_storage().nbytes() // source.element_size()
    return source, torch.as_strided(source, (elements,), (1,), 0).clone()


class Shared:
    """Turns tensors into twins that share device memory, and knows what the device must hold."""

    def __init__(self, keep: bool):
        self.keep = keep  # else the alias is the last reader
        self.held = []

    def __call__(self, value):
        if not isinstance(value, torch.Tensor):
            return value
        if not has_storage(value):
            return value.clone()
        source, whole = storage_copy(value)
        device = whole.to("xla")
        alias = device.cpu()
        assert address(alias) == address(device)
        if self.keep:
            self.held.append((device, whole, alias))
        twin = alias.as_strided(source.shape, source.stride(), source.storage_offset())
        return twin.detach().requires_grad_(value.requires_grad)

    def check(self, what):
        for device, expected, alias in self.held:
            found = device.cpu().clone()
            bits = [t.view(torch.uint8) if t.dtype != torch.bool else t for t in (found, expected)]
            assert torch.equal(*bits), f"{what}: the device's array has changed"
            if address(alias) != address(device):
                self.copied = True

    copied = False


def plain(value):
    """A twin in memory of its own, with the same strides."""
    if not isinstance(value, torch.Tensor):
        return value
    if not has_storage(value):
        return value.clone()
    source, whole = storage_copy(value)
    twin = whole.as_strided(source.shape, source.stride(), source.storage_offset())
    return twin.requires_grad_(value.requires_grad)


def tensors(tree):
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def run(form, arguments):
    torch.manual_seed(0)
    first, rest, named = arguments
    return form(first, *rest, **named)


def with_out(operator, results, twin):
    """The operator with `out=` tensors that are twins of its results."""
    outs = tree_map(twin, results)

    def form(first, *rest, **named):
        operator(first, *rest, **named, out=outs)
        return outs

    return form


def backward(operator):
    def form(first, *rest, **named):
        results = operator(first, *rest, **named)
        inputs = [t for t in tensors((first, rest, named)) if t.requires_grad]
        outputs = [t for t in tensors(results) if t.requires_grad]
        if not inputs or not outputs:
            return results
        sums = [t.real.sum() if t.is_complex() else t.sum() for t in outputs]
        return results, torch.autograd.grad(sums, inputs, allow_unused=True)

    return form


def forms(operator, sample, arguments):
    yield "functional", lambda twin: operator
    if operator.inplace_variant and not sample.broadcasts_input:
        yield "in place", lambda twin: operator.inplace_variant
    if operator.supports_out:
        try:
            results = run(operator, tree_map(plain, arguments))
        except Exception:
            return
        if results is not None:
            yield "out", lambda twin: with_out(operator, results, twin)


def outcome(form, arguments):
    """What it returned and made of its arguments, or the type of what it raised."""
    try:
        return run(form, arguments), arguments
    except Exception as error:
        return type(error)


def assert_same(what, found, expected):
    if isinstance(expected, type) or isinstance(found, type):
        assert found == expected, what
        return
    for f, e in zip(tensors(found), tensors(expected), strict=True):
        if f.layout != torch.strided or f.is_quantized:
            continue
        # BLAS with several threads does not add in the same order each time.
        torch.testing.assert_close(
            f.detach(), e.detach(), equal_nan=True, msg=lambda m: f"{what}: {m}"
        )


def check(operator):
    name = full_name(operator)
    dtype = next((d for d in DTYPES if d in operator.dtypes), None)
    if dtype is None:
        return
    torch.manual_seed(0)
    gradients = operator.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    samples = list(operator.sample_inputs("cpu", dtype, requires_grad=False))
    samples = samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]
    cases = [(sample, *form) for sample in samples for form in forms(
        operator, sample, (sample.input, list(sample.args), sample.kwargs))]  # fmt: skip
    if gradients:
        for sample in list(operator.sample_inputs("cpu", dtype, requires_grad=True))[:SAMPLES]:
            cases.append((sample, "backward", lambda twin: backward(operator)))
    for sample, kind, form in cases:
        arguments = (sample.input, list(sample.args), sample.kwargs)
        expected = outcome(form(plain), tree_map(plain, arguments))
        for keep in (True, False):
            what = f"{name}, {kind}, device tensor {'kept' if keep else 'dropped'}"
            shared, before = Shared(keep), count("export.materialised.calls")
            found = outcome(form(shared), tree_map(shared, arguments))
            assert_same(what, found, expected)
            shared.check(what)
            assert not shared.copied or count("export.materialised.calls") > before, what


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", range(GROUPS))
def test_operators(group):
    faults = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operator in OPERATORS[group::GROUPS]:
            try:
                check(operator)
            except AssertionError as fault:
                faults.append(str(fault)[:400])
    assert not faults, "\n".join(faults)

"""Compares one operator's samples on device xla with the CPU."""

import re
import traceback
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

import torch_pjrt  # noqa: F401

# Results that depend on a random stream: only shapes and dtypes are compared.
RANDOM = re.compile(
    r"(bernoulli|cauchy|exponential|geometric|log_normal|multinomial|normal|uniform|rand.*|empty.*"
    r"|new_empty.*|.*dropout.*|.*rrelu|svd_lowrank|pca_lowrank|.*fractional_max_pool.*)(\..*)?"
)
TOLERANCES = {  # relative and absolute; where none is given, PyTorch's own for the dtype
    torch.float32: 2e-4,
    torch.complex64: 2e-4,
    torch.float16: 5e-3,
    torch.bfloat16: 3e-2,
}


class Result(NamedTuple):
    """`status`: pass, wrong (differs from the CPU), error (raised on xla only), skip (the CPU
    raises, or there is no sample); from workers also crash and timeout."""

    name: str
    dtype: str
    status: str
    samples: int
    message: str = ""

    def line(self) -> str:
        message = f": {self.message}" if self.message else ""
        return f"{self.status:<7} {self.name} {self.dtype}, {self.samples} samples{message}"


def full_name(operator) -> str:
    variant = operator.variant_test_name
    return f"{operator.name}.{variant}" if variant else operator.name


OPERATORS = {full_name(operator): operator for operator in op_db}


def matching(pattern: str) -> list[str]:
    return [name for name in OPERATORS if re.fullmatch(pattern, name)]


def compare(name: str, dtypes: list[str], samples: int, backward: bool) -> Iterator[Result]:
    """One result for each of the dtypes that the operator has on the CPU."""
    operator = OPERATORS[name]
    for dtype in dtypes:
        if getattr(torch, dtype) in operator.dtypes:
            yield _compare_dtype(operator, dtype, samples, backward)


def _compare_dtype(operator, dtype: str, samples: int, backward: bool) -> Result:
    name = full_name(operator)
    torch_dtype = getattr(torch, dtype)
    differentiable = (
        backward
        and operator.supports_autograd
        and (torch_dtype.is_floating_point or torch_dtype.is_complex)
    )
    torch.manual_seed(0)
    try:
        inputs = list(operator.sample_inputs("cpu", torch_dtype, requires_grad=differentiable))
    except Exception as error:
        return Result(name, dtype, "skip", 0, _text(error))
    inputs = inputs[:: max(1, len(inputs) // samples)][:samples]

    compared = 0
    for sample in inputs:
        arguments = (sample.input, list(sample.args), sample.kwargs)
        on_device = tree_map(lambda value: _moved(value, "xla"), arguments)
        on_cpu = tree_map(lambda value: _moved(value, "cpu"), arguments)
        try:
            expected = _run(operator, on_cpu, differentiable)
        except Exception:
            continue  # the CPU says no, too
        try:
            got = _run(operator, on_device, differentiable)
            problem = _difference(expected, got, RANDOM.fullmatch(name) is not None)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            return Result(name, dtype, "error", compared, f"{_text(error)} ({where.name})")
        if problem:
            return Result(name, dtype, "wrong", compared, problem)
        compared += 1
    return Result(name, dtype, "pass" if compared else "skip", compared)


def _moved(value, device: str):
    """A tensor's twin on a device: the same view of the same bytes, and a leaf."""
    if isinstance(value, torch.device):
        return torch.device(device)
    if value == "cpu" and isinstance(value, str):
        return device
    if not isinstance(value, torch.Tensor):
        return value
    source = value.detach()
    plain = source.layout == torch.strided and not (source.is_conj() or source.is_neg())
    if plain and source.numel() and not source.is_contiguous():
        elements = source.untyped_storage().nbytes() // source.element_size()
        whole = torch.as_strided(source, (elements,), (1,), 0).clone().to(device)
        twin = whole.as_strided(source.shape, source.stride(), source.storage_offset())
    else:
        twin = source.clone().to(device)
    return twin.detach().requires_grad_(value.requires_grad)


def _run(operator, arguments, differentiable: bool):
    """Results and, where asked for, gradients of all inputs."""
    torch.manual_seed(0)
    first, rest, named = arguments
    results = operator(first, *rest, **named)
    if not differentiable:
        return results, []
    outputs = [t for t in _tensors(results) if t.requires_grad]
    inputs = [t for t in _tensors(arguments) if t.requires_grad]
    if not outputs or not inputs:
        return results, []
    sums = [t.real.sum() if t.is_complex() else t.sum() for t in outputs]
    return results, torch.autograd.grad(sums, inputs, allow_unused=True)


def _tensors(tree) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def _difference(expected, got, random: bool) -> str | None:
    for kind, wanted, found in zip(("result", "gradient"), expected, got, strict=True):
        wanted, found = tree_flatten(wanted)[0], tree_flatten(found)[0]
        if len(wanted) != len(found):
            return f"{kind}s: got {len(found)}, expected {len(wanted)}"
        for index, (w, f) in enumerate(zip(wanted, found, strict=True)):
            if problem := _difference_of_values(w, f, random):
                return f"{kind} {index}: {problem}"
    return None


def _difference_of_values(wanted, found, random: bool) -> str | None:
    if not isinstance(wanted, torch.Tensor) or not isinstance(found, torch.Tensor):
        if type(wanted) is not type(found):
            return " ".join(f"got {found!r}, expected {wanted!r}".split())
        if wanted is None or random or not isinstance(wanted, bool | int | float | complex):
            return None
        wanted, found = torch.tensor(wanted), torch.tensor(found)
    wanted, found = wanted.detach(), found.detach().cpu()
    for what, w, f in (
        ("shape", tuple(wanted.shape), tuple(found.shape)),
        ("dtype", wanted.dtype, found.dtype),
        ("layout", wanted.layout, found.layout),
    ):
        if w != f:
            return f"{what}: got {f}, expected {w}"
    if random:
        return None
    tolerance = TOLERANCES.get(wanted.dtype)
    try:
        torch.testing.assert_close(
            found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        return _text(error)
    return None


def _text(error: BaseException) -> str:
    name = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    return (name + " ".join(str(error).split()))[:300]

"""On a device without 64-bit dtypes (the chaos plugin hides them): narrower there, as told here."""

import os
from pathlib import Path

import pytest

from subprocess_support import output_of, run
from torch_pjrt import discovery

CHAOS = Path(__file__).parents[2] / "build" / "plugins" / "chaos" / "libpjrt_chaos.so"
needs_chaos = pytest.mark.skipif(not CHAOS.exists(), reason="the chaos plugin is not built")


def without_wide_dtypes(lacks: str = "f64,s64,u64,c128") -> dict[str, str]:
    plugin = os.environ.get("TORCH_PJRT_PLUGIN") or discovery.default_plugin().path
    return {
        "TORCH_PJRT_PLUGIN": str(CHAOS),
        "PJRT_CHAOS_PLUGIN": str(plugin),
        "PJRT_CHAOS_OPTIONS": f"lacks={lacks}",
    }


PRELUDE = """
import torch, torch_pjrt
def fails(kind, call, word):
    try:
        call()
    except kind as error:
        assert word in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")
"""


@needs_chaos
def test_a_tensor_keeps_its_dtype_and_comes_back_in_it():
    output_of(
        PRELUDE
        + """
torch.manual_seed(0)
for source in (
    torch.rand(5, 7, dtype=torch.float64),
    torch.rand(600, 700, dtype=torch.float64).t(),
    torch.arange(-50, 50),
    torch.arange(100_000).reshape(100, 1000)[:, ::3],
    torch.tensor(3.25, dtype=torch.float64),
    torch.rand(4, 3, dtype=torch.complex128),
    torch.arange(9).to(torch.uint64),
    torch.rand(3, 4),
    torch.empty(0, 3, dtype=torch.float64),
):
    x = source.to("xla")
    assert x.dtype == source.dtype and x.stride() == source.clone().stride()
    narrow = {torch.float64: torch.float32, torch.complex128: torch.complex64}
    expected = source.to(narrow.get(source.dtype, source.dtype)).to(source.dtype)
    back = x.cpu()
    assert back.dtype == source.dtype and torch.equal(back, expected)
    (batch,) = torch_pjrt.transfer.to_host(torch_pjrt.transfer.to_device([source]))
    assert batch.dtype == source.dtype and torch.equal(batch, expected)
    target = torch.empty_like(source)
    assert torch.equal(target.copy_(x), expected)
    if source.numel() and source.dim():
        assert torch.equal(x[1:].cpu(), expected[1:])
assert torch_pjrt.metrics.snapshot()["transfer.cast.Double_to_Float"] > 0
""",
        **without_wide_dtypes(),
    )


@needs_chaos
def test_operators_run_in_the_narrower_dtype():
    output_of(
        PRELUDE
        + """
torch.manual_seed(0)
a, b = torch.rand(6, 8, dtype=torch.float64), torch.rand(8, 5, dtype=torch.float64)
index = torch.tensor([[2, 0, 1]])
x, y, i = a.to("xla"), b.to("xla"), index.to("xla")
calls = [
    lambda a, b, i: a @ b,
    lambda a, b, i: (a * 2 + 1.5).sum(0),
    lambda a, b, i: a.argmax(1),
    lambda a, b, i: a.max(1).indices,
    lambda a, b, i: a.sort(1).values,
    lambda a, b, i: a.sort(1, descending=True).indices,
    lambda a, b, i: a.topk(3).indices,
    lambda a, b, i: a[i],
    lambda a, b, i: a.gather(0, i),
    lambda a, b, i: i.sum() + i.max(),
    lambda a, b, i: (a > 0.5).sum(),
    lambda a, b, i: a.cumsum(0),
    lambda a, b, i: a.median(),
    lambda a, b, i: torch.count_nonzero(a > 0.5),
    lambda a, b, i: torch.arange(10, device=a.device) * 3,
    lambda a, b, i: torch.ones(3, dtype=torch.float64, device=a.device).cumsum(0),
    lambda a, b, i: a.t()[1:, ::2] + 1,
    lambda a, b, i: torch.nn.functional.nll_loss(a.log_softmax(1), i[0].repeat(2)),
    lambda a, b, i: a.float() + a,
    lambda a, b, i: a.mean().item(),
    lambda a, b, i: a.log10(),
]
for number, call in enumerate(calls):
    got, wanted = call(x, y, i), call(a, b, index)
    if isinstance(wanted, float):
        assert abs(got - wanted) < 1e-6
        continue
    assert got.dtype == wanted.dtype, number
    torch.testing.assert_close(got.cpu(), wanted, rtol=1e-5, atol=1e-6, msg=str(number))
x[1:, 2] = 7.0
a[1:, 2] = 7.0
torch.testing.assert_close(x.cpu(), a, rtol=1e-6, atol=1e-6)
""",
        **without_wide_dtypes(),
    )


@needs_chaos
def test_a_training_step_agrees_with_the_cpu():
    output_of(
        PRELUDE
        + """
def losses(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x, y = torch.rand(12, 8), torch.arange(12) % 4
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found
for got, wanted in zip(losses("xla"), losses("cpu"), strict=True):
    assert abs(got - wanted) < 1e-5, (got, wanted)
""",
        **without_wide_dtypes(),
    )


@needs_chaos
def test_bytes_that_are_not_there_are_not_seen():
    output_of(
        PRELUDE
        + """
x = torch.rand(4, dtype=torch.float64).to("xla")
raw = torch.empty(0, dtype=torch.uint8, device="xla")
for call in (
    lambda: x.view(torch.int64).cpu(),
    lambda: x.view(torch.float32).cpu(),
    lambda: torch.rand(4).to("xla").view(torch.float64).cpu(),
    lambda: raw.set_(x.untyped_storage(), 0, (32,)).cpu(),
):
    fails(NotImplementedError, call, "fewer bits")
z = torch.rand(3, dtype=torch.complex128)
parts = torch.view_as_real(z.to(torch.complex64)).double()
assert torch.equal(torch.view_as_real(z.to("xla")).cpu(), parts)
""",
        **without_wide_dtypes(),
    )


@needs_chaos
def test_the_strict_policy_and_the_check_refuse():
    output_of(
        PRELUDE
        + """
torch_pjrt.config.check_narrowing = True
fails(ValueError, lambda: torch.tensor([2**40]).to("xla"), "out of that range")
fails(ValueError, lambda: torch.tensor([1e300], dtype=torch.float64).to("xla"), "out of that range")
values = torch.tensor([float("inf"), float("nan"), 1.0], dtype=torch.float64)
assert torch.equal(values.to("xla").cpu(), values, ) or values.isnan().any()
assert torch.tensor([2**31 - 1, -2**31]).to("xla").cpu().tolist() == [2**31 - 1, -2**31]
torch_pjrt.config.check_narrowing = False
torch.tensor([2**40]).to("xla").cpu()
torch_pjrt.config.dtype_policy = "strict"
fails(TypeError, lambda: torch.ones(2, dtype=torch.float64).to("xla"), "strict")
fails(TypeError, lambda: torch.ones(2, dtype=torch.int64, device="xla"), "strict")
assert torch.ones(2).to("xla").sum().item() == 2
torch_pjrt.config.dtype_policy = "narrow"
assert torch.ones(2, dtype=torch.float64).to("xla").sum().item() == 2
""",
        **without_wide_dtypes(),
    )


@needs_chaos
def test_info_names_what_is_narrowed():
    program = "from torch_pjrt.__main__ import main; import sys; sys.exit(main(['info']))"
    text = output_of(program, **without_wide_dtypes("f64"))
    assert "float64: float32" in text and "int64" not in text


def test_a_device_with_all_dtypes_narrows_none():
    output_of(
        PRELUDE
        + """
assert torch_pjrt._C.narrowed_dtypes() == {}
x = torch.tensor([1e300, 0.1], dtype=torch.float64)
assert torch.equal(x.to("xla").cpu(), x)
assert torch.tensor([2**40]).to("xla").item() == 2**40
"""
    )


def test_an_unknown_policy_is_named():
    done = run("import torch_pjrt", TORCH_PJRT_DTYPE_POLICY="loose")
    assert done.returncode != 0
    assert "TORCH_PJRT_DTYPE_POLICY" in done.stderr and "'loose'" in done.stderr

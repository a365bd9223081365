"""Programs of a CPU device call PyTorch's own kernels; where they cannot, they get StableHLO."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_pjrt
from agreement import compare, compare_errors
from chaos_support import LIBRARY, environment
from subprocess_support import output_of, run

L = torch.linalg
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
SHAPES = [(5, 5), (3, 4, 4), (1, 1), (0, 0), (2, 0, 0), (0, 3, 3)]


def matrix(*sizes, dtype=torch.float32):
    torch.manual_seed(sum(sizes))
    return torch.randn(*sizes, dtype=dtype)


def hermitian(*sizes, dtype=torch.float32):
    a = matrix(*sizes, dtype=dtype)
    return a + a.mH


# The device calls the very kernels that the cpu runs: equal to the last bit.
def equal(function, *arguments, **options):
    compare(function, *arguments, tolerance=0, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SHAPES)
def test_eigenvalues_of_hermitian_matrices(sizes, dtype):
    a = hermitian(*sizes, dtype=dtype)
    for half in ("L", "U"):
        equal(lambda a, h=half: L.eigh(a, h), a)
        equal(lambda a, h=half: L.eigvalsh(a, h), a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SHAPES)
def test_eigenvalues(sizes, dtype):
    a = matrix(*sizes, dtype=dtype)
    equal(L.eig, a)
    equal(L.eigvals, a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [*SHAPES, (3, 5), (2, 5, 3), (0, 3), (3, 0)])
def test_singular_values(sizes, dtype):
    a = matrix(*sizes, dtype=dtype)
    for full in (True, False):
        equal(lambda a, f=full: L.svd(a, full_matrices=f), a)
    equal(L.svdvals, a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SHAPES)
def test_ldl_factors(sizes, dtype):
    a = hermitian(*sizes, dtype=dtype)
    equal(L.ldl_factor_ex, a)
    equal(lambda a: L.ldl_factor(a, hermitian=True), a)
    if 0 not in sizes:
        factors, pivots = L.ldl_factor(a)
        equal(L.ldl_solve, factors, pivots, matrix(*sizes[:-1], 2, dtype=dtype))


@pytest.mark.parametrize(
    "function",
    [L.eigvalsh, L.svdvals, lambda a: L.eigh(a)[1].abs(), lambda a: L.svd(a)[0].abs(), L.pinv],
)
def test_gradients(function):
    compare(function, hermitian(4, 4, dtype=torch.float64).requires_grad_(), backward=True)


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 1, 0)])
def test_matrices_in_any_memory_order(order):
    a = hermitian(4, 4, 4).permute(order)
    for function in (L.svd, L.eig, L.qr, L.lu_factor, lambda a: L.inv(a), L.matrix_exp):
        compare(function, a, tolerance=1e-4)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32, torch.bfloat16])
def test_ranks_of_equal_elements(dtype):
    torch.manual_seed(0)
    x = torch.randint(0, 5, (7, 100)).to(dtype)
    for dim in (0, 1):
        equal(lambda x, d=dim: x.topk(6, d), x)
        equal(lambda x, d=dim: x.topk(6, d, largest=False), x)
        equal(lambda x, d=dim: x.topk(6, d, sorted=False), x)
        equal(lambda x, d=dim: x.kthvalue(5, d), x)
        equal(lambda x, d=dim: x.kthvalue(5, d, keepdim=True), x)
        equal(lambda x, d=dim: x.sort(d, descending=True), x)
        equal(lambda x, d=dim: x.sort(stable=True, dim=d), x)
        equal(lambda x, d=dim: x.argsort(d), x)
        equal(lambda x, d=dim: x.mode(d), x)


@pytest.mark.parametrize("function", [L.eigh, L.eig, L.eigvals, L.svd, L.svdvals])
def test_refused_input_is_an_error_at_the_next_read_and_spoils_nothing_else(function):
    broken = torch.full((3, 3), float("nan"), device="xla")
    before = torch.ones(3, device="xla") + 1
    result = function(broken)
    with pytest.raises(L.LinAlgError, match="failed to converge"):
        torch_pjrt.sync()
    assert before.tolist() == [2, 2, 2]
    values = result if isinstance(result, torch.Tensor) else result[0]
    assert values.isnan().all()


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (L.eigh, matrix(3, 4)),
        (L.eig, matrix(4)),
        (L.svd, matrix(4)),
        (L.svd, torch.ones(3, 3, dtype=torch.int64)),
        (L.eigh, torch.ones(3, 3, dtype=torch.float16)),
        (L.ldl_factor, matrix(3, 4)),
        (lambda a: L.eigh(a, "X"), matrix(3, 3)),
        (lambda a: L.svd(a, driver="gesvd"), matrix(3, 3)),
    ],
)
def test_what_the_cpu_refuses_is_refused(function, argument):
    compare_errors(function, argument)


def test_nothing_is_cut():
    a = hermitian(4, 4).to("xla")
    torch_pjrt.sync()
    torch_pjrt.metrics.reset()
    (L.svd(L.inv_ex(a @ a + 1)[0])[1] + L.eigvalsh(a)).cumsum(0).topk(2)[0].tolist()
    counts = torch_pjrt.metrics.snapshot()
    assert counts["execute.calls"] == 1
    assert not torch_pjrt.metrics.fallbacks()


EXPORT = """
import torch, torch_pjrt, tempfile
class Model(torch.nn.Module):
    def forward(self, x):
        return FUNCTION
x = torch.randn(4, 4, device="xla")
x = x @ x.mT + torch.eye(4, device="xla")
folder = tempfile.mkdtemp() + "/program"
torch_pjrt.export(torch.export.export(Model(), (x,)), folder)
text = "".join(p.read_text() for p in __import__("pathlib").Path(folder).rglob("*.mlir"))
assert "torch_pjrt." not in text, text
torch.testing.assert_close(torch_pjrt.load(folder)(x).cpu(), Model()(x.cpu()), rtol=1e-4, atol=1e-4)
"""


@pytest.mark.parametrize(
    "function",
    [
        "torch.linalg.cholesky_ex(x)[0]",
        "torch.linalg.cholesky(x)",
        "torch.linalg.inv(x)",
        "torch.linalg.solve(x, x[0])",
        "torch.cholesky_inverse(x)",
        "x.topk(2)[0]",
    ],
)
def test_exported_programs_call_nothing(function):
    output_of(EXPORT.replace("FUNCTION", function))


def test_an_exported_program_checks_its_matrices():
    program = (
        EXPORT.replace("FUNCTION", "torch.linalg.inv(x)")
        + """
torch_pjrt.load(folder)(torch.zeros_like(x))
try:
    torch_pjrt.sync()
except torch.linalg.LinAlgError as error:
    print(error)
"""
    )
    assert "linalg.inv: " in output_of(program)


def test_what_only_this_process_has_is_not_exported():
    done = run(EXPORT.replace("FUNCTION", "torch.linalg.svdvals(x)"))
    assert done.returncode != 0
    assert "_linalg_svd" in done.stderr


@pytest.mark.skipif(not LIBRARY.exists(), reason="the chaos plugin is not built")
def test_without_the_extension_the_same_tests_pass():
    """The other lowerings, which every other kind of device gets."""
    here = Path(__file__).parent
    files = [str(here / f"test_{name}.py") for name in ("factorisations", "triangular")]
    # Of each lowering one; most of the time is XLA's, compiling.
    chosen = (
        "names_the_first or for_vectors or reflections or without_end or in_which_row or zero_on"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-k", chosen, *files],
        env={**os.environ, **environment("hide_extensions=FFI")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_inverse_by_a_singular_factor_is_an_error_at_the_next_read_and_spoils_nothing_else():
    compare(torch.cholesky_inverse, L.cholesky(hermitian(3, 3) @ hermitian(3, 3)), tolerance=1e-3)
    compare_errors(torch.cholesky_inverse, torch.zeros(2, 3, 3), match="singular")
    other = torch.ones(3, device="xla") + 1
    torch.cholesky_inverse(torch.zeros(3, 3, device="xla"))
    with pytest.raises(L.LinAlgError, match=r"cholesky_inverse.*singular"):
        torch_pjrt.sync()
    assert other.tolist() == [2, 2, 2]


@pytest.mark.parametrize("sizes", [(3, 0), (2, 3, 0), (0, 3), (0, 4, 4)])
def test_factors_of_matrices_without_elements(sizes):
    a = matrix(*sizes)
    for function in (L.lu, lambda a: L.lu(a, pivot=False), lambda a: L.lu_factor(a, pivot=False)):
        compare(function, a)
    compare(lambda a: torch.lu_unpack(*L.lu_factor(a)), a)


def test_autocast_rounds_no_product_inside_an_operator():
    def multiplied(a, tau, other):
        with torch.autocast(a.device.type, dtype=torch.bfloat16):
            return torch.ormqr(a, tau, other)

    compare(multiplied, *torch.geqrf(matrix(4, 4)), matrix(4, 3), tolerance=1e-5)


def test_modes_into_given_tensors():
    x = torch.randint(0, 3, (4, 9))

    def found(x):
        values, places = x.new_empty(4), torch.empty(0, dtype=torch.int64, device=x.device)
        return torch.mode(x, 1, out=(values, places))

    equal(found, x)


THREADS = """
import os, torch, torch_pjrt
def threads_after(sort):
    sort()
    return len(os.listdir("/proc/self/task"))
x = torch.rand(400, 400, device="xla")
torch.set_num_threads(1)
few = threads_after(lambda: x.sort(1)[0].cpu())
torch.set_num_threads(5)
print(threads_after(lambda: x.sort(0)[0].cpu()) - few)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux does")
def test_large_calls_have_as_many_threads_as_was_last_asked_for():
    assert int(output_of(THREADS)) >= 4

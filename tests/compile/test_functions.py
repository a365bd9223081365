"""Small functions over what Python and PyTorch offer, compiled on xla against eager on the CPU."""

from collections import namedtuple

import pytest
import torch
import torch.nn.functional as F

from compiled_agreement import compare_compiled

CASES = []


def case(*make, **options):
    """A function to compile, with what makes its arguments."""

    def add(function):
        CASES.append(pytest.param(function, make, options, id=function.__name__))
        return function

    return add


@pytest.mark.parametrize("function, make, options", CASES)
def test_as_eager(function, make, options):
    compare_compiled(function, *(m() if callable(m) else m for m in make), **options)


def matrix():
    return torch.randn(4, 5)


def learnt():
    return torch.randn(4, 5, requires_grad=True)


def square():
    return torch.randn(4, 4, requires_grad=True)


def integers():
    return torch.arange(20).reshape(4, 5) % 7


Pair = namedtuple("Pair", "left right")
CONSTANT = 2.5


# Arithmetic, shapes, dtypes.
@case(learnt, learnt, fullgraph=True)
def arithmetic(x, y):
    return x + y * 2 - x / 3


@case(learnt, square, fullgraph=True)
def matrix_product(x, y):
    return y @ x


@case(learnt, fullgraph=True)
def reductions(x):
    return x.sum(), x.mean(0), x.amax(1, keepdim=True), x.std()


@case(learnt, fullgraph=True)
def soft_maximum(x):
    return F.log_softmax(x, -1).exp() * x


@case(learnt, fullgraph=True)
def layer_normalisation(x):
    return F.layer_norm(x, (5,)) * x


@case(learnt, learnt, fullgraph=True)
def contraction(x, y):
    return torch.einsum("ij,ik->jk", x, y)


@case(lambda: torch.randn(2, 3, 4, 5, requires_grad=True), fullgraph=True)
def attention(x):
    return F.scaled_dot_product_attention(x, x, x)


@case(matrix, fullgraph=True)
def sorting(x):
    return x.sort(1)[0], x.topk(2)[1], x.argmax()


@case(learnt, fullgraph=True)
def cumulative(x):
    return x.cumsum(1), x.flip(0)


@case(learnt, fullgraph=True)
def pieces(x):
    a, b = x.split([2, 3], 1)
    return torch.cat([b, a], 1), torch.stack([x, x])


@case(learnt, fullgraph=True)
def permuted(x):
    return x.t().reshape(2, 10) * 2


@case(learnt, fullgraph=True)
def expanded(x):
    return x[0].expand(3, 5) + 1


@case(matrix, fullgraph=True)
def strided(x):
    return torch.as_strided(x, (2, 3), (5, 1), 1) * 2


@case(learnt, fullgraph=True)
def masked(x):
    return torch.where(x > 0, x, -x), x.masked_fill(x < 0, 0)


@case(learnt, lambda: torch.tensor([2, 0, 2]), fullgraph=True)
def selected(x, index):
    return x[index], x.index_select(1, index), x.gather(1, index.expand(4, 3))


@case(learnt, lambda: torch.tensor([2, 0, 2]), fullgraph=True)
def table(weight, index):
    return F.embedding(index, weight)


@case(matrix, lambda: torch.tensor([[0, 1, 2, 0, 1]]), fullgraph=True)
def scattered(x, index):
    return torch.zeros_like(x).scatter_add(0, index, x)


@case(integers, fullgraph=True)
def integer_division(x):
    return x // 3, x % 3, x.float() / 3, x.bitwise_and(1)


@case(integers, fullgraph=True)
def booleans(x):
    return (x > 3) & (x < 6), (x == 2).any(), x.bool().all(0)


@case(lambda: torch.randn(3, dtype=torch.float64, requires_grad=True), fullgraph=True)
def double_precision(x):
    return torch.sin(x) / x


@case(lambda: torch.randn(3, 4).bfloat16(), fullgraph=True)
def half_precision(x):
    return x * 2 + 1


@case(lambda: torch.randn(3, dtype=torch.complex64), fullgraph=True)
def complex_numbers(x):
    return x * x.conj(), x.real + x.imag


@case(learnt, fullgraph=True)
def casts(x):
    return x.double().sum().float(), x.to(torch.int32), x.half().float()


@case(learnt, fullgraph=True)
def made_inside(x):
    ones = torch.ones(5, device=x.device)
    return x * ones + torch.arange(5, device=x.device), torch.zeros_like(x), x.new_full((2,), 3)


@case(matrix, fullgraph=True)
def constant_tensor(x):
    return x + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], device=x.device)


@case(learnt, fullgraph=True)
def host_scalar_tensor(x):
    return x * torch.tensor(3.0) + torch.tensor(2)


@case(lambda: torch.empty(0, 3, requires_grad=True), fullgraph=True)
def empty(x):
    return x * 2, x.sum()


@case(lambda: torch.tensor(2.0, requires_grad=True), fullgraph=True)
def scalar_tensor(x):
    return x**3


# What a function may take and return.
@case(learnt, fullgraph=True)
def nothing(x):
    return x * 2, None


@case(matrix, fullgraph=True)
def python_values(x):
    return x + 1, 3, "text", x.shape[0], True, 2.5


@case(matrix, fullgraph=True)
def dictionary(x):
    return {"a": x + 1, "b": [x * 2, {"c": x - 1}]}


@case(matrix, fullgraph=True)
def named_tuple(x):
    return Pair(x + 1, x * 2)


@case(learnt, fullgraph=True)
def one_twice(x):
    y = x * 2
    return y, y


@case(learnt, 3, fullgraph=True)
def with_number(x, n):
    for i in range(n):
        x = x * i + n
    return x


@case(matrix, lambda: [torch.ones(5), torch.zeros(5)], fullgraph=True)
def with_list(x, others):
    return sum(others, x)


@case(matrix, True, fullgraph=True)
def with_condition(x, flag):
    return x + CONSTANT if flag else x - CONSTANT


@case(matrix, fullgraph=True)
def with_shape(x):
    return x.reshape(x.shape[1], -1) * x.numel() + x.dim()


@case(learnt, fullgraph=True)
def with_closure(x):
    factor = 3.0

    def inner(y):
        return y * factor

    return inner(inner(x))


@case(matrix, fullgraph=True)
def constant_result(x):
    return torch.ones(3, device=x.device), x.shape


# Aliases and writes.
@case(learnt, fullgraph=True)
def argument_returned(x):
    return x, x * 2


@case(matrix, fullgraph=True)
def view_of_argument(x):
    return x.t(), x[1:], x.view(20), x + 1


@case(learnt, fullgraph=True)
def view_of_learnt_argument(x):
    return x.t(), x * 2


@case(learnt, fullgraph=True)
def view_of_result(x):
    y = x * 2
    return y, y.t(), y[0]


@case(matrix, fullgraph=True)
def views_of_nothing_returned(x):
    y = x * 2
    return y.t(), y[0]


@case(matrix, fullgraph=True)
def detached(x):
    return x.detach(), x.clone()


@case(matrix, fullgraph=True)
def write_to_argument(x):
    x.add_(1)
    return x * 2


@case(matrix, fullgraph=True)
def write_and_return(x):
    x.mul_(2)
    return x


@case(matrix, fullgraph=True)
def write_and_return_view(x):
    x.mul_(2)
    return x.t()


@case(matrix, fullgraph=True)
def write_to_part(x):
    x[1:3].zero_()
    x[:, 0] = 7
    return x.sum()


@case(matrix, fullgraph=True)
def write_to_transposed(x):
    x.t()[0].add_(1)
    return x + 1


@case(matrix, lambda: torch.tensor([0, 2]), fullgraph=True)
def write_by_index(x, index):
    x[index] = 1.5
    x.index_add_(0, index, torch.ones(2, 5, device=x.device))
    return x.sum(0)


@case(matrix, matrix, fullgraph=True)
def copy_over(x, y):
    x.copy_(y)
    y.fill_(3)
    return x + y


@case(matrix, matrix, fullgraph=True)
def result_in_argument(x, out):
    torch.mul(x, 2, out=out)
    return out.sum()


@case(square, matrix, fullgraph=True)
def write_beside_gradient(w, count):
    count += 1
    return w @ count


@case(learnt, fullgraph=True)
def write_inside(x):
    y = x.clone()
    y[0] = 0
    y.mul_(2)
    return y


@case(matrix, fullgraph=True)
def one_argument_twice_inner(x):
    x.add_(1)
    return x.clone(), x.t()


_whole = torch.arange(12.0)
_given = torch.randn(4)


@case(_whole[:8], _whole[4:], fullgraph=True)
def overlapping_arguments(x, y):
    x.add_(1)
    return y * 2


@case(_given, _given, fullgraph=True)
def same_argument_twice(x, y):
    x.mul_(2)
    return x + y


@case(torch.randn(6, 4).t()[1:], fullgraph=True)
def argument_with_offset(x):
    x.add_(1)
    return x * 2, x[0]


# Gradients.
@case(learnt, fullgraph=True)
def without_gradient(x):
    with torch.no_grad():
        y = x * 2
    return x * y, y


@case(learnt, learnt, fullgraph=True)
def one_part_detached(x, y):
    return (x.detach() * y).sum() + x.sum()


@case(learnt, fullgraph=True)
def recomputed(x):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda y: torch.sin(y).exp(), x, use_reentrant=False)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return gradient * x * 4


@case(learnt, fullgraph=True)
def own_gradient(x):
    return Doubled.apply(x) + 1


@case(matrix, fullgraph=True)
def functional_gradient(x):
    return torch.func.grad(lambda y: (y**3).sum())(x)


@case(matrix, fullgraph=True)
def mapped(x):
    return torch.vmap(lambda row: row * row.sum())(x)


@case(learnt, fullgraph=True)
def gradient_hook(x):
    y = x * 2
    y.register_hook(lambda gradient: gradient * 3)
    return y * y


# Control flow and graph breaks.
@case(matrix)
def broken_by_item(x):
    y = x * 2
    return y + y.sum().item()


@case(learnt)
def broken_by_print(x):
    y = x * 2
    print("between")
    return y * y


@case(matrix)
def broken_by_branch(x):
    y = x.relu()
    return y + 1 if y.sum() > 0 else y - 1


@case(matrix)
def broken_by_shape(x):
    return x[x > 0].sum(), torch.nonzero(x > 0).sum()


@case(learnt)
def broken_explicitly(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()


@case(matrix, fullgraph=True)
def branch_on_device(x):
    return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))


@case(matrix, fullgraph=True)
def exception_inside(x):
    try:
        raise ValueError
    except ValueError:
        return x + 1


# Modules.
@case(lambda: torch.nn.Linear(5, 3), learnt, fullgraph=True)
def linear(module, x):
    return module(x)


@case(lambda: torch.nn.BatchNorm1d(5), learnt, fullgraph=True)
def batch_normalisation(module, x):
    return module(x)


@case(lambda: torch.nn.BatchNorm1d(5).eval(), learnt, fullgraph=True)
def batch_normalisation_in_use(module, x):
    return module(x)


@case(
    lambda: torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
    ),
    lambda: torch.randn(2, 1, 8, 8, requires_grad=True),
    fullgraph=True,
    tolerance=1e-4,
)
def convolution(module, x):
    return module(x)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.weight = torch.nn.Parameter(torch.ones(5))

    def forward(self, x):
        self.calls += 1
        return x * self.weight * self.calls


@case(Counting, learnt, fullgraph=True)
def buffer_written(module, x):
    return module(x)


@case(Counting, matrix, fullgraph=True)
def parameter_written(module, x):
    with torch.no_grad():
        module.weight.mul_(2)
    return module(x)


@case(lambda: torch.nn.Linear(5, 5), learnt, fullgraph=True)
def tied_weights(module, x):
    return F.linear(module(x), module.weight.t())


@case(lambda: torch.nn.LSTM(5, 3), learnt, tolerance=1e-5)
def recurrent(module, x):
    return module(x)[0]


@case(
    lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
    lambda: torch.randn(2, 3, 8, requires_grad=True),
    fullgraph=True,
    tolerance=1e-4,
)
def encoder_layer(module, x):
    return module(x)


@case(learnt, lambda: torch.tensor([0, 1, 4, 2]), fullgraph=True)
def cross_entropy(x, target):
    return F.cross_entropy(x, target)


ALIASES = [c for c in CASES if any(word in c.id for word in ("argument", "view", "writ", "copy"))]


@pytest.mark.parametrize("function, make, options", ALIASES)
def test_aliases_and_writes_of_cpu_tensors_that_run_on_xla(function, make, options):
    compare_compiled(
        function,
        *(m() if callable(m) else m for m in make),
        device="cpu",
        options={"device": "xla"},
        **options,
    )

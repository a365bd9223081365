"""Training steps, with the optimizer outside and inside of what is compiled; autocast."""

import copy

import pytest
import torch

from torch_pjrt._compile import backend

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
}


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8, bias=False),
        torch.nn.BatchNorm1d(8),
        torch.nn.Tanh(),
        torch.nn.Linear(8, 2),
    )


def losses(module, optimizer, step, device, steps=3):
    torch.manual_seed(1)
    found = []
    for _ in range(steps):
        x, y = torch.randn(6, 4).to(device), torch.randn(6, 2).to(device)
        found.append(step(module, optimizer, x, y).item())
    return found


def forward(module, x, y):
    return torch.nn.functional.mse_loss(module(x), y)


def compare_training(make_optimizer, make_step):
    expected = model()
    actual = copy.deepcopy(expected).to("xla")
    expected_losses = losses(
        expected, make_optimizer(expected.parameters()), make_step(lambda f: f), "cpu"
    )
    compile_ = lambda f: torch.compile(f, backend="pjrt")  # noqa: E731
    actual_losses = losses(actual, make_optimizer(actual.parameters()), make_step(compile_), "xla")
    torch.testing.assert_close(actual_losses, expected_losses, rtol=1e-4, atol=1e-4)
    for mine, its in zip(actual.state_dict().values(), expected.state_dict().values(), strict=True):
        torch.testing.assert_close(mine.cpu(), its, rtol=1e-3, atol=1e-4)


def forward_compiled(compile_, update):
    run = compile_(forward)

    def step(module, optimizer, x, y):
        optimizer.zero_grad()
        loss = run(module, x, y)
        loss.backward()
        update(optimizer)
        return loss

    return step


def optimizer_outside(compile_):
    return forward_compiled(compile_, lambda optimizer: optimizer.step())


def optimizer_compiled(compile_):
    return forward_compiled(compile_, compile_(lambda optimizer: optimizer.step()))


def whole_step_compiled(compile_):
    def step(module, optimizer, x, y):
        optimizer.zero_grad()
        loss = forward(module, x, y)
        loss.backward()
        optimizer.step()
        return loss

    return compile_(step)


def test_optimizer_outside():
    compare_training(OPTIMIZERS["adam"], optimizer_outside)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_compiled(name):
    compare_training(OPTIMIZERS[name], optimizer_compiled)


def test_whole_step_compiled():
    compare_training(OPTIMIZERS["sgd"], whole_step_compiled)


def test_an_optimizer_step_is_one_graph():
    module = torch.nn.Linear(3, 2).to("xla")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = module.weight.detach().cpu()
    torch._dynamo.utils.counters.clear()
    torch.compile(optimizer.step, backend="pjrt")()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    torch.testing.assert_close(module.weight.detach().cpu(), before - 0.1)


def test_backward_reads_what_forward_computed_before_a_write(monkeypatch):
    def function(x, weight, count):
        count += 1
        return x * weight * count

    def gradient(run, device):
        weight = torch.ones(3, device=device, requires_grad=True)
        x, count = torch.ones(3, device=device), torch.zeros((), device=device)
        run(x, weight, count).square().sum().backward()
        return weight.grad.tolist()

    expected = gradient(function, "cpu")
    assert gradient(torch.compile(function, backend="pjrt"), "xla") == expected
    torch._dynamo.reset()
    # Also where it is known only later that there is a backward.
    monkeypatch.setattr(backend, "_needs_gradient", lambda graph: False)
    assert gradient(torch.compile(function, backend="pjrt"), "xla") == expected


def test_autocast_inside_and_outside():
    def inside(x, y):
        with torch.autocast("xla", dtype=torch.bfloat16):
            return x @ y, (x @ y).sum()

    x = torch.randn(8, 8, device="xla", requires_grad=True)
    expected, actual = inside(x, x), torch.compile(inside, backend="pjrt", fullgraph=True)(x, x)
    for e, a in zip(expected, actual, strict=True):
        assert e.dtype == a.dtype
        torch.testing.assert_close(a.detach().cpu(), e.detach().cpu())
    product = torch.compile(lambda a: a @ a, backend="pjrt", fullgraph=True)
    with torch.autocast("xla", dtype=torch.bfloat16):
        assert product(x).dtype == torch.bfloat16
    assert product(x).dtype == torch.float32
    product(x).sum().backward()
    assert x.grad.dtype == torch.float32


def test_inference_mode_and_no_grad():
    module = model().eval()
    x = torch.randn(5, 4)
    compiled = torch.compile(copy.deepcopy(module).to("xla"), backend="pjrt", fullgraph=True)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            torch.testing.assert_close(compiled(x.to("xla")).cpu(), module(x), rtol=1e-4, atol=1e-4)

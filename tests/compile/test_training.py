"""Training steps, with the optimizer outside and inside of what is compiled; autocast."""

import copy

import pytest
import torch

import torch_pjrt
from compiled_agreement import counted, replays_of
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


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("rate_on", ["cpu", "xla"])
def test_a_schedule_of_a_compiled_optimizer_is_replayed(name, rate_on):
    """With the learning rate in a tensor, as PyTorch advises: a number is compiled in."""

    def make(device):
        module = model().to(device)
        rate = torch.tensor(0.05).to(rate_on if device == "xla" else "cpu")
        options = {"momentum": 0.9} if name == "sgd" else {}
        kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        optimizer = kind[name](module.parameters(), lr=rate, foreach=False, **options)
        return module, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)

    (mine, optimizer, schedule), (its, its_optimizer, its_schedule) = make("xla"), make("cpu")
    step = torch.compile(optimizer.step, backend="pjrt")
    for i in range(6):
        gradients = [torch.randn_like(parameter) for parameter in its.parameters()]
        for a, b, g in zip(mine.parameters(), its.parameters(), gradients, strict=True):
            a.grad, b.grad = g.to("xla"), g
        torch_pjrt.sync()
        programs = counted("compile.programs")
        replays = replays_of(step)
        if i >= 3:
            assert replays == 1 and counted("compile.programs") == programs
        its_optimizer.step()
        schedule.step(), its_schedule.step()
        for a, b in zip(mine.parameters(), its.parameters(), strict=True):
            torch.testing.assert_close(a.detach().cpu(), b.detach())
    for state, its_state in zip(
        optimizer.state.values(), its_optimizer.state.values(), strict=True
    ):
        for key, value in its_state.items():
            if value is not None:
                torch.testing.assert_close(state[key].cpu(), value)


def test_a_scaled_loss_as_gradscaler_has_it():
    """Scale, unscale with a check for infinities, step or skip: the scale changes at each."""
    module = torch.nn.Linear(4, 2).to("xla")

    def scaled(x, scale):
        return module(x).square().sum() * scale

    def unscale(gradients, scale):
        found = torch.stack([(~torch.isfinite(g)).any() for g in gradients]).any()
        return [g / scale for g in gradients], found

    run = torch.compile(scaled, backend="pjrt", fullgraph=True)
    unscale = torch.compile(unscale, backend="pjrt", fullgraph=True)
    x = torch.randn(3, 4)
    for i in range(6):
        scale = torch.tensor(2.0**i)
        module.zero_grad()
        value = x * (float("inf") if i == 3 else 1)
        replays = replays_of(lambda v=value, s=scale: run(v.to("xla"), s).backward())
        gradients = [p.grad for p in module.parameters()]
        results, found = unscale(gradients, scale)
        assert found.item() == (i == 3)
        if i != 3:
            twin = torch.nn.Linear(4, 2)
            twin.load_state_dict({k: v.cpu() for k, v in module.state_dict().items()})
            twin(x).square().sum().backward()
            for mine, its in zip(results, twin.parameters(), strict=True):
                torch.testing.assert_close(mine.cpu(), its.grad, rtol=1e-4, atol=1e-5)
    assert replays == 2


def test_autocast_is_replayed():
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).to("xla")

    def forward(x):
        with torch.autocast("xla", dtype=torch.bfloat16):
            return module(module(x)).float().square().sum()  # each weight is cast once

    run = torch.compile(forward, backend="pjrt", fullgraph=True)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(5):
        x = torch.randn(4, 8).to("xla")
        found = []
        for function in (forward, run):
            optimizer.zero_grad()
            replays = replays_of(lambda f=function, x=x, found=found: found.append(f(x)))
            found[-1].backward()
            found.append([p.grad.cpu() for p in module.parameters()])
        torch.testing.assert_close(found[2].detach().cpu(), found[0].detach().cpu())
        torch.testing.assert_close(found[3], found[1], rtol=2e-2, atol=2e-2)
        optimizer.step()  # and again after the weights were written
    assert replays == 1


def test_numbers_of_the_cpu_are_exact():
    def function(x, n):
        return x * n, (x / n).to(torch.bfloat16) * n, torch.pow(x, n), torch.where(x > n, x, n)

    run = torch.compile(function, backend="pjrt", fullgraph=True)
    x = torch.tensor([0.1, -2.0, 3.0, float("inf")])
    for dtype in (torch.float64, torch.float32):
        for value in (0.1, 3.0, -0.0, 0.0, float("nan"), float("inf"), 1e300):
            if dtype == torch.float32 and value == 1e300:
                continue
            n = torch.tensor(value, dtype=dtype)
            for mine, its in zip(run(x.to("xla"), n), function(x, n), strict=True):
                torch.testing.assert_close(mine.cpu(), its, equal_nan=True)
                numbers = ~its.isnan()  # the sign of what is none is nobody's
                assert torch.equal(mine.cpu().signbit()[numbers], its.signbit()[numbers])

"""Functions of tensors on several devices: split by device, so that what runs on xla is replayed,
and what crosses a border is shared where nobody can notice."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from compiled_agreement import bytes_copied, cpu_only, replays_of
from subprocess_support import output_of


def compiled(function, **options):
    return torch.compile(function, backend="pjrt", fullgraph=True, **options)


def on_cpu_and_xla(function, *, inductor=False):
    """Compiled, with arguments of which the first is on xla and the others on the CPU."""
    options = {"inductor": True} if inductor else {}
    run = compiled(function, options=options)
    return lambda x, *others: run(x.to("xla"), *others)


def agree(function, *values, calls=4, replays=None, inductor=False):
    """The results of several calls are those of the CPU; `replays`: of the last call."""
    run = on_cpu_and_xla(function, inductor=inductor)
    for i in range(calls):
        arguments = [v.clone() for v in values]
        expected = function(*(v.clone() for v in values))
        found = []
        count = replays_of(lambda a=arguments, f=found: f.append(run(*a)))
        for mine, its in zip(*map(_as_tuple, (found[0], expected)), strict=True):
            torch.testing.assert_close(mine.cpu(), its, msg=str(i))
    if replays is not None:
        assert count == replays


def _as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def back_and_forth(x, y):
    a = torch.sin(x)
    b = a.cpu() + y
    c = b.to(x.device) * a
    return c.cpu() - y, c


def independent(x, y):
    """Interleaved, but of two devices that need nothing of each other."""
    a, b = x + 1, y + 1
    a, b = a * 2, b * 2
    a, b = torch.sin(a), torch.cos(b)
    return a, b


def view_across(x, y):
    a = x * 2
    b = a.t().cpu()[1:]
    c = (b * y).t()
    return c.to(x.device) + a[:, 1:], a.t(), c


def scalars(x, y):
    """Numbers of the CPU on xla, and back."""
    n = y.sum()
    a = x * n + torch.tensor(2.0)
    return a.sum().cpu() * n, a


@pytest.mark.parametrize(
    "function, replays",
    [(back_and_forth, 2), (independent, 1), (view_across, 2), (scalars, None)],
)
@pytest.mark.parametrize("inductor", [False, True])
def test_parts_are_as_few_as_they_can_be(function, replays, inductor):
    agree(
        function,
        torch.randn(4, 4),
        torch.randn(3, 4) if function is view_across else torch.randn(4, 4),
        replays=replays,
        inductor=inductor,
    )


def test_a_result_that_others_may_write_is_shared_copy_on_write():
    def function(x):
        a = x + 1
        b = a.cpu()
        return a, b, b * 2

    run = compiled(function)
    x = torch.arange(1000.0, device="xla")
    for _ in range(4):
        a, b, _ = run(x)
        b.add_(5)
        assert a[0].item() == 1 and b[0] == 6
        b.data.mul_(2)
        assert a[0].item() == 1 and b[0] == 12


def test_a_result_that_was_made_on_the_cpu_and_moved():
    def function(x):
        a = x + 1
        return a, a.to("xla"), a.t()

    run = compiled(function)
    x = torch.zeros(100, 10)
    for _ in range(4):
        a, moved, view = run(x)
        a.add_(5)
        assert moved[0, 0].item() == 1 and view[0, 0] == 6
        moved.add_(1)
        assert moved[0, 0].item() == 2 and a[0, 0] == 6


def test_a_write_to_an_argument_after_the_call_is_not_seen():
    run = compiled(lambda x: (x.to("xla") + 1, x.to("xla")))
    for i in range(4):
        x = torch.full((1000,), float(i))
        more, same = run(x)
        x.fill_(-1)
        x.numpy()[:] = -2
        assert more[0].item() == i + 1 and same[0].item() == i


def test_an_argument_of_which_numpy_has_an_alias():
    def function(x):
        return (x.view(-1)[:].to("xla") + 1, x.t().to("xla"))

    run = compiled(function)
    x = torch.zeros(10, 10)
    alias = x.numpy()
    for i in range(4):
        alias[:] = i
        more, same = run(x)
        alias[:] = -1
        x.add_(1)
        alias[:] = -3
        assert x[0, 0] == -3  # still one memory
        assert more[0].item() == i + 1 and same[0, 0].item() == i


def test_writes_to_arguments_on_both_devices():
    def function(x, y):
        x.add_(1)
        y.mul_(2)
        a = x.cpu() + y
        x.copy_(a)
        y.copy_(x)
        return a.to("xla"), y.sum()

    run = compiled(function)
    x, y = torch.randn(2, 50)
    mine, its = x.to("xla"), y.clone()
    with torch.no_grad():
        for _ in range(4):
            expected = (lambda a: (a, y.sum()))(_writes(x, y))
            result = run(mine, its)
            torch.testing.assert_close(result[0].cpu(), expected[0])
            torch.testing.assert_close(result[1], expected[1])
            torch.testing.assert_close(mine.cpu(), x)
            torch.testing.assert_close(its, y)


def _writes(x, y):
    x.add_(1)
    y.mul_(2)
    a = x + y
    x.copy_(a)
    y.copy_(x)
    return a


def test_a_value_read_before_it_is_written():
    def function(x, y):
        before = x.cpu() * y
        x.add_(1)
        return before, x.cpu() * y

    run = compiled(function)
    x, y = torch.zeros(100, device="xla"), torch.ones(100)
    for i in range(4):
        before, after = run(x, y)
        assert before[0] == i and after[0] == i + 1 and x[0].item() == i + 1


@pytest.mark.parametrize("inductor", [False, True])
def test_random_numbers_are_those_without_compile(inductor):
    def function(x, y):
        a = torch.rand_like(y) + torch.nn.functional.dropout(y, 0.5)
        b = torch.rand_like(x) + a.to("xla")
        return b, torch.randn_like(y) * b.cpu(), torch.randn_like(x)

    x, y = torch.zeros(100, device="xla"), torch.ones(100)
    torch.manual_seed(3)
    expected = [function(x, y) for _ in range(4)]
    run = compiled(function, options={"inductor": inductor})
    torch.manual_seed(3)
    for results in expected:
        for mine, its in zip(run(x, y), results, strict=True):
            torch.testing.assert_close(mine.cpu(), its.cpu())


def test_random_numbers_of_a_device_without_index_keep_their_order():
    def function(x, y):
        a = torch.rand(5, device="xla")
        return torch.rand(3), a, torch.rand_like(x), torch.rand(2, device="xla"), x + y.to("xla")

    x, y = torch.zeros(4, device="xla"), torch.ones(4)
    torch.manual_seed(3)
    expected = function(x, y)
    torch.manual_seed(3)
    for mine, its in zip(compiled(function)(x, y), expected, strict=True):
        torch.testing.assert_close(mine.cpu(), its.cpu())


def test_what_a_device_without_index_makes_is_on_the_device_of_the_arguments():
    def function(x):
        noise = torch.rand(3, device="xla")
        return x * torch.ones(3, device="xla") + noise, torch.zeros(2, device="xla") - noise[:2]

    x = torch.linspace(0, 1, 3, device="xla", requires_grad=True)
    run, results = compiled(function), []
    for f in (function, run, run, run):
        torch.manual_seed(3)
        results.append(f(x))
        results[-1][0].sum().backward()
    for result in results:
        torch.testing.assert_close([r.cpu() for r in result], [r.cpu() for r in results[0]])
    assert x.grad.tolist() == [4, 4, 4]


def test_inductor_makes_tensors_from_sizes_alone():
    run = compiled(
        lambda x: x + torch.arange(x.shape[0]).to("xla"), dynamic=True, options={"inductor": True}
    )
    for n in (5, 6):
        assert run(torch.ones(n, device="xla")).tolist() == [i + 1.0 for i in range(n)]


def test_a_number_that_is_read_decides_a_size():
    torch._dynamo.config.capture_scalar_outputs = True
    try:
        run = compiled(lambda x, y: x * y.sum().item() + x.sum().item())
        for i in range(4):
            result = run(torch.ones(2, device="xla"), torch.full((2,), float(i)))
            assert result.tolist() == [2.0 * i + 2] * 2
    finally:
        torch._dynamo.config.capture_scalar_outputs = False


def test_an_operator_without_lowering_is_a_part_of_its_own():
    def function(x):
        a = x @ x
        return cpu_only(a).abs().sum() + a.sum()

    run = compiled(function)
    for i in range(1, 5):
        x = torch.eye(3) * i
        found = []
        count = replays_of(lambda x=x, f=found: f.append(run(x.to("xla"))))
        torch.testing.assert_close(found[0].cpu(), function(x))
    assert count == 2


def test_two_xla_parts_with_dynamic_sizes():
    def function(x, y):
        a = torch.sin(x) * x.shape[0]
        return (a.cpu() + y[: x.shape[0]]).to("xla") + a, y.shape[0]

    run = compiled(function, dynamic=True)
    for n in (3, 4, 5, 3, 4, 5, 3, 4, 5):
        x, y = torch.randn(n), torch.randn(n + 2)
        found = []
        count = replays_of(lambda x=x, y=y, f=found: f.append(run(x.to("xla"), y)))
        torch.testing.assert_close(found[0][0].cpu(), (torch.sin(x) * n + y[:n]) + torch.sin(x) * n)
    assert count == 2


def test_errors_in_a_part_leave_the_next_call_right():
    @torch.library.custom_op("devices_test::picky", mutates_args=())
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 5:
            raise ValueError("too large")
        return x * 2

    picky.register_fake(torch.empty_like)
    run = compiled(lambda x: picky((x + 1).cpu()).to("xla") * x)
    for _ in range(3):
        assert run(torch.ones(2, device="xla")).tolist() == [4, 4]
        with pytest.raises(ValueError, match="too large"):
            run(torch.full((2,), 9.0, device="xla"))


def test_modules_with_parameters_on_several_devices():
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)

        def forward(self, x):
            hidden = torch.tanh(self.first(x)).to(self.second.weight.device)
            return self.second(hidden).to(x.device)

    torch.manual_seed(0)
    mine, its = Mixed(), Mixed()
    mine.load_state_dict(its.state_dict())
    mine.second.to("xla")
    run = compiled(mine)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (mine, its)]
    for _ in range(5):
        x = torch.randn(6, 4)
        losses = []
        for module, optimizer in zip((run, its), optimizers, strict=True):
            optimizer.zero_grad()
            losses.append(module(x).square().sum())
            losses[-1].backward()
            optimizer.step()
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-5)
    for a, b in zip(mine.parameters(), its.parameters(), strict=True):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-4, atol=1e-5)


def test_backward_twice_and_of_backward():
    def function(x, y):
        return (torch.sin(x).cpu() * y).to("xla") * x

    run = compiled(function)
    for _ in range(3):
        grads = []
        for f, device in ((function, "cpu"), (run, "xla")):
            x = torch.linspace(0, 1, 5).to(device).requires_grad_()
            y = torch.linspace(1, 2, 5).requires_grad_()
            result = f(x, y).sum() if device == "xla" else (torch.sin(x) * y * x).sum()
            result.backward(retain_graph=True)
            result.backward()
            grads.append((x.grad.cpu(), y.grad))
        for mine, its in zip(*grads, strict=True):
            torch.testing.assert_close(mine, its)
    x = torch.ones(5, device="xla", requires_grad=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        (gradient,) = torch.autograd.grad(run(x, torch.ones(5)).sum(), x, create_graph=True)
        gradient.sum().backward()


def test_memory_that_a_part_gave_is_not_reused_while_it_is_seen():
    def function(x):
        a = x * 2
        return a.cpu() + 0, a.cpu()

    run = compiled(function)
    kept = []
    for i in range(8):
        kept.append(run(torch.full((1000,), float(i), device="xla")))
    for i, (copy, same) in enumerate(kept):
        assert copy[0] == same[0] == same[-1] == 2 * i


def test_inductor_gets_no_copies():
    def function(x, y):
        a = torch.sin(x).cpu()
        b = torch.cos(a) * y + 1
        return b.to("xla") + x

    run = compiled(function, options={"inductor": True})
    x, y = torch.randn(1000, device="xla"), torch.randn(1000)
    for _ in range(3):
        run(x, y)
    result = []
    assert bytes_copied(lambda: result.append(run(x, y))) == 0
    torch.testing.assert_close(result[0].cpu(), torch.cos(torch.sin(x.cpu())) * y + 1 + x.cpu())


def test_several_xla_devices():
    program = """
        import torch, torch_pjrt
        def function(x, y, z):
            a = torch.sin(x)
            b = a.to("xla:1") + y
            c = b.to("xla:3") * 2
            return c.cpu() + z, b.to("xla:0") + a
        run = torch.compile(function, backend="pjrt", fullgraph=True)
        values = torch.randn(3, 100)
        places = ("xla:0", "xla:1", "cpu")
        counts = []
        for _ in range(4):
            inputs = [v.to(p, copy=True).requires_grad_() for v, p in zip(values, places)]
            before = torch_pjrt.metrics.snapshot().get("execute.replays", 0)
            results = run(*inputs)
            sum(r.cpu().sum() for r in results).backward()
            counts.append(torch_pjrt.metrics.snapshot().get("execute.replays", 0) - before)
        x, y, z = (v.clone().requires_grad_() for v in values)
        a = torch.sin(x)
        expected = ((a + y) * 2 + z, 2 * a + y)
        sum(r.sum() for r in expected).backward()
        for mine, its in zip(results, expected):
            torch.testing.assert_close(mine.detach().cpu(), its.detach())
        for mine, its in zip(inputs, (x, y, z)):
            torch.testing.assert_close(mine.grad.cpu(), its.grad)
        print(results[1].device, int(counts[-1]) >= 4)
    """
    assert output_of(program, TORCH_PJRT_OPTIONS="cpu_device_count=4") == "xla:0 True"


def test_the_current_device_changes_between_calls():
    program = """
        import torch, torch_pjrt
        def function(x, w):
            made = torch.rand(3, device="xla"), w.to("xla") * torch.ones(3, device="xla")
            return x + 1, *made, torch.arange(2, device="xla")
        run = torch.compile(function, backend="pjrt", fullgraph=True)
        x = torch.zeros(3, device="xla:0")
        for turn in range(3):
            for current in (0, 0, 1, 1):
                torch.xla.set_device(current)
                w, expected_w = (torch.ones(3, requires_grad=True) for _ in range(2))
                torch.manual_seed(turn)
                expected = function(x, expected_w)
                torch.manual_seed(turn)
                results = run(x, w)
                for mine, its in zip(results, expected):
                    assert mine.device == its.device, (turn, current, mine.device)
                    torch.testing.assert_close(mine.cpu(), its.cpu())
                results[2].sum().backward()
                assert w.grad.tolist() == [1, 1, 1]
        print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    """
    assert output_of(program, TORCH_PJRT_OPTIONS="cpu_device_count=2") == "2"


def test_threads():
    run = compiled(back_and_forth)
    x, y = torch.randn(2, 300)
    expected = back_and_forth(x, y)

    def work(_):
        for _ in range(30):
            for mine, its in zip(run(x.to("xla"), y.clone()), expected, strict=True):
                torch.testing.assert_close(mine.cpu(), its)

    run(x.to("xla"), y)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_inductor_with_sizes_strides_and_writes():
    def function(x, y):
        a = torch.sin(x) * x.shape[0]
        b = torch.relu(a.cpu().t()) + y[:, : x.shape[0]]
        y.mul_(2)
        return b.to(x.device) + a.t(), b, y.t()

    run = compiled(function, dynamic=True, options={"inductor": True})
    for n in (3, 4, 5, 3, 4):
        x, y = torch.randn(n, 2), torch.randn(2, n + 2)
        mine = y.clone()
        expected, results = function(x, y), run(x.to("xla"), mine)
        for actual, its in zip([*results, mine], [*expected, y], strict=True):
            assert actual.stride() == its.stride()
            torch.testing.assert_close(actual.cpu(), its)


def test_inductor_compiles_a_function_without_xla():
    from torch._dynamo.utils import counters

    run = compiled(lambda x: torch.sin(x) + 1, options={"inductor": True})
    misses = counters["inductor"].copy()
    torch.testing.assert_close(run(torch.ones(3)), torch.sin(torch.ones(3)) + 1)
    assert counters["inductor"] != misses

"""`options={"device": …}`, `options={"fallback": …}`, and what is refused."""

import gc
import re
import sys
import weakref

import numpy as np
import pytest
import torch

import torch_pjrt
from compiled_agreement import bytes_copied, counted, cpu_only, replays_of
from torch_pjrt import _C
from torch_pjrt._compile import fallbacks


def compiled(function, **options):
    return torch.compile(function, backend="pjrt", fullgraph=True, options=options)


def test_a_function_of_cpu_tensors_runs_on_xla_and_gives_cpu_tensors():
    def function(x, n):
        made = torch.arange(3.0) + torch.tensor([1.0, 2.0, 3.0])
        return torch.sin(x) * made * n, x.shape[0], None

    x = torch.randn(4, 3)
    executions = counted("execute.calls")
    result, rows, nothing = compiled(function, device="xla")(x, 2)
    assert counted("execute.calls") > executions
    assert result.device.type == "cpu" and (rows, nothing) == (4, None)
    torch.testing.assert_close(result, function(x, 2)[0])


def test_gradients_come_back_to_the_callers_device():
    def function(x, weight):
        return torch.tanh(x @ weight).square().sum()

    x = torch.randn(4, 3)
    weight = torch.randn(3, 2, requires_grad=True)
    function(x, weight).backward()
    expected, weight.grad = weight.grad, None
    for _ in range(2):
        weight.grad = None
        compiled(function, device="xla")(x, weight).backward()
        torch.testing.assert_close(weight.grad, expected)


def test_writes_reach_the_callers_tensors():
    def function(x, view, count):
        count += 1
        x[0] = 5
        view.mul_(2)
        return x + count

    whole = torch.arange(12.0).reshape(4, 3)
    expected, given = whole.clone(), whole.clone()
    expected_count, count = torch.zeros(()), torch.zeros(())
    results = function(expected, expected[1:], expected_count)
    torch.testing.assert_close(compiled(function, device="xla")(given, given[1:], count), results)
    torch.testing.assert_close(given, expected)
    torch.testing.assert_close(count, expected_count)


def test_training_writes_buffers_and_takes_gradients():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    twin = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    twin.load_state_dict(module.state_dict())
    run = compiled(module, device="xla")
    for _ in range(2):
        x = torch.randn(5, 3)
        run(x).square().sum().backward()
        twin(x).square().sum().backward()
    for mine, its in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad, rtol=1e-4, atol=1e-4)
    for mine, its in zip(module.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(mine, its)


@pytest.mark.parametrize(
    "argument", [torch.randn(6, 4).t(), torch.randn(8, 6)[::2, 1::2], torch.randn(3).expand(4, 3)]
)
def test_strides_of_arguments_and_results_are_kept(argument):
    def function(x):
        y = x * 2
        return y, y.t(), y[1:], x.t(), x

    expected, actual = function(argument), compiled(function, device="xla")(argument)
    for e, a in zip(expected, actual, strict=True):
        assert (a.device.type, a.stride()) == ("cpu", e.stride())
        torch.testing.assert_close(a, e)
    assert actual[4] is argument
    assert actual[3].data_ptr() == argument.data_ptr()
    assert actual[1].data_ptr() == actual[0].data_ptr()


def test_moved_functions_are_replayed_and_copy_nothing():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.Tanh(), torch.nn.Linear(40, 20))
    run = compiled(module, device="xla")
    x = torch.randn(50, 30)

    def call():
        module.zero_grad()
        made.append(run(x))
        made[-1].square().sum().backward()

    made = []
    for _ in range(3):
        call()
    copied = []
    assert replays_of(lambda: copied.append(bytes_copied(call))) == 2
    assert copied == [0]
    mine = [p.grad for p in module.parameters()]
    module.zero_grad()
    module(x).square().sum().backward()
    torch.testing.assert_close(mine, [p.grad for p in module.parameters()], rtol=1e-4, atol=1e-4)


def test_a_borrowed_argument_shows_every_write():
    x = torch.zeros(100)
    alias = x.numpy()
    weight = torch.nn.Parameter(torch.ones(100))
    run = compiled(lambda x: x * weight + 1, device="xla")
    with torch.no_grad():
        for i in range(4):
            x.fill_(i)
            assert run(x)[0] == i + 1
            alias[:] = 10 + i
            assert run(x)[0] == 11 + i
            x.data.add_(1)
            assert run(x)[0] == 12 + i and alias[0] == 11 + i
            weight.data.mul_(2)
            assert run(x)[0] == 2 * (11 + i) + 1
            weight.data = torch.ones(100)
            x.set_(torch.full((100,), 5.0))
            assert run(x)[0] == 6
            x.set_(torch.from_numpy(alias))
            assert run(x)[0] == 12 + i


def test_what_is_returned_or_kept_is_no_alias_of_an_argument():
    def function(x):
        return x.clone(), x.t().contiguous(), x.clone().t(), x * 1

    run = compiled(function, device="xla")
    x = torch.arange(9.0).reshape(3, 3)
    for _ in range(4):
        expected = [value.clone() for value in function(x)]
        results = run(x)
        x.numpy()[:] += 1
        x.add_(1)
        for mine, its in zip(results, expected, strict=True):
            assert torch.equal(mine, its)
        results[0].add_(5)
        assert torch.equal(x, expected[0] + 2)


def test_arguments_that_exchange_their_values():
    def function(x, y):
        z = x.clone()
        x.copy_(y)
        y.copy_(z)
        return x + y

    run = compiled(function, device="xla")
    x, y = torch.zeros(100), torch.ones(100)
    for i in range(4):
        assert run(x, y)[0] == 1
        assert (x[0], y[0]) == ((1, 0) if i % 2 == 0 else (0, 1))


def test_what_was_borrowed_is_let_go_with_its_tensor():
    run = compiled(lambda x: x + 1, device="xla")
    memory = np.zeros(1016, np.float32)
    first = -memory.ctypes.data % 64 // 4  # borrowed only where it is aligned
    x = torch.from_numpy(memory[first : first + 1000])
    for _ in range(3):
        copied = bytes_copied(lambda x=x: run(x))
    assert copied == 0
    held = weakref.ref(memory)
    del x, memory
    gc.collect()
    assert _C.drain_reclaimer()
    assert held() is None


def test_a_function_with_an_xla_tensor_stays_where_its_tensors_are():
    def function(x, y):
        return x.cpu() + y, x * 2

    results = compiled(function, device="xla")(torch.ones(3, device="xla"), torch.ones(3))
    assert [r.device.type for r in results] == ["cpu", "xla"]


def without_lowering(x):
    return cpu_only(x).abs().sum()


def test_a_fallback_is_counted_and_warned_of_once(monkeypatch):
    monkeypatch.setattr(fallbacks, "_warned", set())  # once a process
    torch_pjrt.metrics.reset()
    x = torch.randn(3, 3)
    with pytest.warns(UserWarning, match="cpu_only.*without_lowering"):
        result = compiled(without_lowering)(x.to("xla"))
    torch.testing.assert_close(result.cpu(), without_lowering(x))
    assert any("cpu_only" in name for name in torch_pjrt.metrics.fallbacks())


def test_a_fallback_that_is_not_allowed_names_the_operator_and_the_line():
    with pytest.raises(Exception, match=r"(?s)cpu_only.*test_options.py.*without_lowering"):
        compiled(without_lowering, fallback=False)(torch.ones(3, 3, device="xla"))


def test_a_fallback_that_the_graph_does_not_show_names_the_operator_and_the_line():
    with torch.library._scoped_library("options_test", "DEF") as library:
        library.define("hidden(Tensor x) -> Tensor")
        library.impl("hidden", lambda x: cpu_only(x)[0], "XLA")
        library.impl("hidden", lambda x: x.new_empty(x.shape[0]), "Meta")

        def hides(x):
            return torch.ops.options_test.hidden(x) + 1

        x = torch.ones(3, 3, device="xla")
        with pytest.raises(NotImplementedError, match="cpu_only.*would run on the CPU") as e:
            compiled(hides, fallback=False)(x)
        if sys.version_info >= (3, 11):
            assert re.search(r"hidden.*test_options.py.*in hides", e.value.__notes__[-1])
        assert compiled(hides)(x).shape == (3,)


def test_a_fallback_outside_of_xla_is_none():
    def function(x):
        return cpu_only(x.cpu()).abs().sum()

    compiled(function, fallback=False)(torch.eye(3).to("xla"))


def test_inductor_without_a_compiler_is_an_error():
    from torch._inductor import config

    run = compiled(lambda x, y: x.cpu() * torch.sin(y), inductor=True)
    without = config.patch({"cpp.cxx": ("/no/such/compiler",)})
    message = r"'inductor': True.*/no/such/compiler.*install g\+\+"
    with without, pytest.raises(Exception, match=message):
        run(torch.ones(3, device="xla"), torch.ones(3))


@pytest.mark.parametrize(
    "options, word",
    [
        ({"devise": "xla"}, "'devise'.*'device', 'fallback', 'inductor'"),
        ({"device": "cuda"}, "'cuda'.*'xla'"),
        ({"device": "no device"}, "'no device'"),
        ({"fallback": 1}, "fallback.*True or False"),
        ({"inductor": "yes"}, "inductor.*True or False"),
    ],
)
def test_wrong_options_are_refused(options, word):
    with pytest.raises(Exception, match=word):
        compiled(lambda x: x + 1, **options)(torch.ones(2))


def test_a_mode_of_inductor_is_refused():
    with pytest.raises(Exception, match="max-autotune"):
        torch.compile(lambda x: x + 1, backend="pjrt", mode="max-autotune")(torch.ones(2))

"""Later calls of a graph launch its program without recording: with the same effects, or recorded
where those would differ."""

import gc
import resource
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F

import torch_pjrt
from compiled_agreement import compare_compiled, counted, replays_of


def compiled(function, **options):
    return torch.compile(function, backend="pjrt", fullgraph=True, **options)


def arange(*shape, start=0.0):
    count = torch.Size(shape).numel()
    flat = torch.arange(start, start + count, device="xla")
    return flat if len(shape) == 1 else flat.reshape(shape)


def test_a_call_like_the_first_is_replayed_and_counted():
    run = compiled(lambda x, y: (x + y, x * 2))
    x, y = arange(3), arange(3, start=5)
    run(x, y), run(x, y)
    figures = {
        name: counted(name) for name in ("execute.calls", "execute.operators", "compile.cache_hits")
    }
    programs = counted("compile.programs")
    assert replays_of(lambda: run(x, y)) == 1
    assert counted("execute.calls") == figures["execute.calls"] + 1
    assert counted("execute.operators") == figures["execute.operators"] + 2
    assert counted("compile.cache_hits") == figures["compile.cache_hits"]
    assert counted("compile.programs") == programs
    total, twice = run(arange(3, start=1), y)
    assert total.tolist() == [6, 8, 10] and twice.tolist() == [2, 4, 6]


def test_pending_arguments_are_computed_first():
    run = compiled(lambda x: x + 1)
    for i in range(4):
        assert run(arange(3) * i).tolist() == [1, i + 1, 2 * i + 1]


# Each is called four times on both devices; the writes add up.
def in_place(x):
    x.add_(1)
    return x * 2


def returns_its_argument(x, y):
    x.mul_(2)
    return x, y, x + y


def writes_a_view(x):
    x[1:].mul_(2)
    return x.sum()


def writes_both_views(x, y):
    x.add_(1)
    y.mul_(2)
    return x + y[:1]


def returns_views(x):
    y = x * 2
    return y, y.t(), y[1:], x.t(), x[0]


def copies_one_to_the_other(x, y):
    x.copy_(y)
    return x + 1


def swaps(x, y):
    z = x.clone()
    x.copy_(y)
    y.copy_(z)
    return z


def nothing_to_compute(x):
    return x, x.view(-1), 3, None


@pytest.mark.parametrize(
    "function, make",
    [
        (in_place, lambda: [torch.randn(4)]),
        (returns_its_argument, lambda: [torch.randn(4), torch.randn(4)]),
        (writes_a_view, lambda: [torch.randn(4, 3)]),
        (writes_a_view, lambda: [torch.randn(9, 3)[1:7:2]]),
        (returns_views, lambda: [torch.randn(4, 3)]),
        (returns_views, lambda: [torch.randn(3, 4).t()]),
        (copies_one_to_the_other, lambda: [torch.randn(4), torch.randn(4)]),
        (swaps, lambda: [torch.randn(4), torch.randn(4)]),
        (nothing_to_compute, lambda: [torch.randn(4, 2)]),
    ],
)
def test_effects_add_up_as_on_the_cpu(function, make):
    with torch.no_grad():
        compare_compiled(function, *make(), calls=4)


def test_arguments_that_share_a_storage():
    for views in (lambda w: (w, w[1:]), lambda w: (w[:2], w[2:]), lambda w: (w, w)):
        torch._dynamo.reset()
        compare_compiled(writes_both_views, *views(torch.randn(4)), calls=4)


def test_other_aliases_dtypes_and_shapes_than_before_are_not_replayed():
    run = compiled(lambda x, y: (x.mul_(2), x + y)[1], dynamic=False)
    whole = torch.arange(8.0)
    cases = [
        lambda w: (w[:4], w[4:]),
        lambda w: (w[:4].clone(), w[:4].clone()),
        lambda w: (w[::2], w[1::2]),
        lambda w: (w.long()[:4], w[4:]),
        lambda w: (w.reshape(2, 4), w.reshape(4, 2).t()),
        lambda w: (w[:1], w[:1].expand(3)),
    ]
    for turn in range(3):
        for views in cases:
            expected = views(whole.clone())
            actual = views(whole.to("xla"))
            expected_result = (expected[0].mul_(2), expected[0] + expected[1])[1]
            result = run(*actual)
            torch.testing.assert_close(result.cpu(), expected_result, msg=str(turn))
            torch.testing.assert_close(actual[0].cpu(), expected[0])
            torch.testing.assert_close(actual[1].cpu(), expected[1])


def test_one_graph_with_arguments_that_alias_in_many_ways():
    (graph,) = _graphs_of(lambda x, y: (x.mul_(2), x + y)[1], arange(4), arange(4))
    recorded = type(graph)(graph.record, (), False)
    cases = [
        lambda w: [w[:4], w[4:]],
        lambda w: [w[:4], w[:4]],
        lambda w: [w[:4], w[2:6]],
        lambda w: [w[:4]] * 2,
        lambda w: [w[:4].clone(), w[:4]],
        lambda w: [w, w.clone()],
        lambda w: [w, w.detach()],
        lambda w: [w[::2], w[1::2]],
        lambda w: [w, w[:1]],
    ]
    before = counted("execute.replays")
    for _ in range(3):
        for case in cases:
            ours, its = arange(8), arange(8)
            result, expected = graph(case(ours))[0], recorded(case(its))[0]
            assert torch.equal(result, expected) and torch.equal(ours, its)
    assert counted("execute.replays") - before >= len(cases)


def test_an_argument_that_turns_into_a_view_of_a_resized_or_swapped_storage():
    run = compiled(lambda x: x * 2)
    x = arange(4)
    run(x), run(x)
    x.set_(arange(6)[1:5])
    assert run(x).tolist() == [2, 4, 6, 8]
    x.resize_(2)
    assert run(x).tolist() == [2, 4]
    x.data = arange(4, start=1)
    assert run(x).tolist() == [2, 4, 6, 8]


def test_clones_share_a_buffer_until_they_are_written():
    def function(x, y):
        x.add_(1)
        return x * y

    run = compiled(function)
    for _ in range(3):
        x = arange(3, start=1)
        torch_pjrt.sync()
        y = x.clone()  # the same device buffer
        assert run(x, y).tolist() == [2, 6, 12]
        assert y.tolist() == [1, 2, 3]
        z = arange(3)
        assert run(z, y).tolist() == [1, 4, 9]


def test_what_is_returned_is_no_alias_of_the_last_result():
    run = compiled(lambda x: x + 1)
    x = arange(3)
    first = run(x)
    second = run(x)
    second.add_(5)
    assert first.tolist() == run(x).tolist() == [1, 2, 3]


def test_version_counters_as_recorded():
    def function(x, view):
        x.add_(1)
        view.mul_(2)
        return x.sum()

    def versions(run):
        x = arange(4)
        view = x[1:]
        found = []
        for _ in range(4):
            run(x, view)
            found.append((x._version, view._version))
        return [b - a for (a, _), (b, _) in zip(found, found[1:], strict=False)], found[-1]

    run = compiled(function)
    steps, (mine, its) = versions(run)
    assert mine == its and len(set(steps)) == 1 and steps[0] > 0


def test_autograd_notices_a_replayed_write():
    run = compiled(lambda x: x.add_(1))
    saved = arange(3)
    weight = torch.ones(3, device="xla", requires_grad=True)
    with torch.no_grad():
        run(saved), run(saved), run(saved)
    y = (weight * saved).sum()
    with torch.no_grad():
        assert replays_of(lambda: run(saved)) == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_results_that_share_a_storage_share_their_version():
    run = compiled(lambda x: (lambda y: (y, y[1:]))(x * 2))
    for _ in range(3):
        whole, part = run(arange(4))
        assert whole.untyped_storage()._cdata == part.untyped_storage()._cdata
        before = whole._version
        part.zero_()
        assert whole._version == before + 1
        assert whole.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("donate", [True, False])
def test_an_alias_on_the_cpu_keeps_what_it_showed(donate):
    torch_pjrt.config.donate = donate
    try:
        run = compiled(lambda x: x.add_(1))
        x = arange(1000)
        for i in range(5):
            alias = x.cpu()
            run(x)
            assert alias[0] == i and x[0].item() == i + 1
    finally:
        torch_pjrt.config.donate = True


def test_donation_goes_on_and_stops_as_in_lazy_mode():
    run = compiled(lambda x: x.add_(1))
    x = arange(1000)
    run(x), run(x), run(x)
    before = counted("execute.donated_bytes")
    assert replays_of(lambda: run(x)) == 1
    assert counted("execute.donated_bytes") == before + 4000
    twin = x.clone()
    run(x)
    assert counted("execute.donated_bytes") == before + 4000
    assert twin[0].item() == 4 and x[0].item() == 5
    torch_pjrt.config.donate = False
    try:
        run(x)
        assert counted("execute.donated_bytes") == before + 4000
    finally:
        torch_pjrt.config.donate = True


def random_results(run, x):
    torch.manual_seed(7)
    found = [run(x).cpu() for _ in range(4)]
    state = torch.xla.get_rng_state()
    torch.manual_seed(7)
    found += [run(x).cpu(), torch.rand(3, device="xla").cpu(), run(x).cpu()]
    torch.xla.set_rng_state(state)
    return [*found, run(x).cpu(), torch.xla.get_rng_state()]


def test_random_numbers_are_those_of_lazy_mode():
    def draw(x):
        return F.dropout(x, 0.5) + torch.rand_like(x) + torch.randn(3, device=x.device)

    x = torch.ones(50, 3, device="xla")
    expected = random_results(draw, x)
    run = compiled(draw)
    actual = []
    assert replays_of(lambda: actual.extend(random_results(run, x))) == 5
    for e, a in zip(expected, actual, strict=True):
        torch.testing.assert_close(a, e)


def test_random_numbers_of_the_cpu_are_drawn_at_each_call():
    run = compiled(lambda x: x * torch.rand(()))
    x = torch.ones(2, device="xla")
    torch.manual_seed(5)
    expected = [torch.rand(()).item() for _ in range(4)]
    torch.manual_seed(5)
    assert [run(x)[0].item() for _ in range(4)] == expected


def test_an_index_that_is_out_of_range_is_an_error_at_each_call():
    run = compiled(lambda table, i: F.embedding(i, table))
    table = arange(4, 2)
    good, bad = torch.tensor([0, 3], device="xla"), torch.tensor([0, 9], device="xla")
    run(table, good), run(table, good)
    torch_pjrt.sync()
    for _ in range(2):
        run(table, bad)
        with pytest.raises(IndexError, match="index out of range"):
            torch_pjrt.sync()
    assert run(table, good).tolist() == [[0, 1], [6, 7]]
    torch_pjrt.sync()
    torch_pjrt.config.check_indices = False
    try:
        run(table, bad)
        torch_pjrt.sync()
    finally:
        torch_pjrt.config.check_indices = True


@pytest.mark.parametrize("mode", ["eager", "debug"])
def test_other_modes_record(mode):
    run = compiled(lambda x: x * 2 + 1)
    x = arange(3)
    run(x), run(x)
    torch_pjrt.config.mode = mode
    try:
        assert replays_of(lambda: run(x)) == 0
        assert run(x).tolist() == [1, 3, 5]
    finally:
        torch_pjrt.config.mode = "lazy"
    assert replays_of(lambda: run(x)) == 1


def test_numbers_and_cpu_scalars_are_those_of_the_call():
    run = torch.compile(lambda x, n, s: x * n + s, backend="pjrt", dynamic=True)
    for n in (2, 3, 2, 3, 5, 2):
        for s in (1.0, 2.0):
            result = run(arange(3), n, torch.tensor(s))
            assert result.tolist() == [s, n + s, 2 * n + s]


def test_a_value_read_inside_is_read_at_each_call():
    run = torch.compile(lambda x: x * x.sum().item(), backend="pjrt")
    for i in range(1, 5):
        assert run(torch.full((2,), float(i), device="xla")).tolist() == [2.0 * i * i] * 2


def test_shapes_that_data_decide():
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    try:
        run = torch.compile(lambda x: x.nonzero() + 1, backend="pjrt")
        for values in ([1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]):
            x = torch.tensor(values)
            assert torch.equal(run(x.to("xla")).cpu(), x.nonzero() + 1)
    finally:
        torch._dynamo.config.capture_dynamic_output_shape_ops = False


def test_a_fallback_reads_its_arguments_at_each_call():
    run = compiled(lambda x: torch.linalg.eigvals(x).abs().sum())
    for i in range(1, 4):
        result = run(torch.eye(3, device="xla") * i)
        torch.testing.assert_close(result.cpu(), torch.tensor(3.0 * i))


def test_cpu_values_inside_are_those_of_the_call():
    def function(x, y):
        return x + y.to("xla"), torch.tensor([1.0, 2.0], device="xla") * x

    run = compiled(function)
    for i in range(4):
        total, product = run(arange(2), torch.full((2,), float(i)))
        assert total.tolist() == [i, i + 1] and product.tolist() == [0, 2]


def test_custom_operators_run_at_each_call():
    calls = []

    @torch.library.custom_op("replay_test::noted", mutates_args=())
    def noted(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x * 2

    noted.register_fake(torch.empty_like)
    run = compiled(lambda x: noted(x) + 1)
    before = len(calls)
    for _ in range(3):
        assert run(arange(2)).tolist() == [1, 3]
    assert len(calls) == before + 3


def test_modes_of_the_caller_see_the_operators():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Note(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    run = _graphs_of(lambda x: x * 2)[0]
    run([arange(2)]), run([arange(2)])
    with Note() as note:
        run([arange(2)])
    assert "aten.mul.Tensor" in note.names
    assert replays_of(lambda: run([arange(2)])) == 1


def _graphs_of(function, *arguments):
    """The compiled graphs of a function of one vector, without Dynamo around them."""
    from torch_pjrt._compile import backend

    kept, call_of = [], backend._call_of

    def keep(*values):
        kept.append(call_of(*values))
        return kept[-1]

    backend._call_of = keep
    try:
        compiled(function)(*(arguments or [arange(2)]))
    finally:
        backend._call_of = call_of
    return kept


def test_the_list_of_arguments_is_emptied():
    (graph,) = _graphs_of(lambda x: x * 2)
    for _ in range(3):
        arguments = [arange(2)]
        (result,) = graph(arguments)
        assert arguments == [] and result.tolist() == [0, 2]
    with pytest.raises(TypeError, match="takes one list"):
        graph(arange(2))


def test_training_is_as_in_lazy_mode():
    def make():
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Linear(4, 8, bias=False),
            torch.nn.BatchNorm1d(8),
            torch.nn.Dropout(0.2),
            torch.nn.Tanh(),
            torch.nn.Linear(8, 2),
        ).to("xla")

    def losses(compile_):
        module = make()
        run = compile_(lambda x, y: F.mse_loss(module(x), y))
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
        torch.manual_seed(1)
        found = []
        for _ in range(20):
            x, y = torch.randn(6, 4).to("xla"), torch.randn(6, 2).to("xla")
            optimizer.zero_grad()
            loss = run(x, y)
            loss.backward()
            optimizer.step()
            found.append(loss.detach())
        return torch.stack(found).cpu(), [v.cpu() for v in module.state_dict().values()]

    expected, expected_state = losses(lambda f: f)
    actual = []
    assert replays_of(lambda: actual.extend(losses(compiled))) >= 30
    torch.testing.assert_close(actual[0], expected, rtol=1e-5, atol=1e-6)
    for a, e in zip(actual[1], expected_state, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-5)


def test_contexts_of_the_caller():
    run = torch.compile(lambda x: (x @ x).sum(), backend="pjrt")
    x = torch.ones(4, 4, device="xla", requires_grad=True)
    for _ in range(3):
        with torch.autocast("xla", dtype=torch.bfloat16):
            assert run(x).requires_grad
        with torch.no_grad():
            assert not run(x).requires_grad
        with torch.inference_mode():
            assert run(x).is_inference()
        result = run(x)
        assert not result.is_inference()
        result.backward()
        assert x.grad.tolist() == [[8.0] * 4] * 4
        x.grad = None


def test_threads_call_one_function_at_once():
    def function(x, n):
        x.add_(1)
        return x * n

    run = compiled(function)
    run(arange(50), 3), run(arange(50), 3)

    def work(start):
        x = torch.full((50,), float(start), device="xla")
        for i in range(60):
            result = run(x, 3)
            if i % 10 == 0:
                assert result[0].item() == 3 * (start + i + 1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [100 * i for i in range(4)]))


def test_memory_stays_flat():
    run = compiled(lambda x, y: (x.add_(1), x @ y)[1])
    x, y = torch.zeros(64, 64, device="xla"), torch.ones(64, 64, device="xla")

    def work(calls):
        for _ in range(calls):
            run(x, y)
        torch_pjrt.sync()
        gc.collect()

    work(300)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert replays_of(lambda: work(2000)) == 2000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10  # KiB
    assert x[0, 0].item() == 2300


def test_a_graph_is_freed_with_what_it_holds():
    def make():
        (graph,) = _graphs_of(lambda x: x * 2)
        held = torch.ones(2, device="xla")
        made = type(graph)(lambda arguments: (held,), (held,), True)
        made.itself = made  # a cycle
        return made, weakref.ref(held)

    made, held = make()
    gc.collect()
    assert held() is not None
    del made
    gc.collect()
    assert held() is None

"""How many programs are compiled and run."""

import pytest
import torch

from compiled_agreement import counted


def step(x, y):
    return torch.tanh(x @ y).sum(0) * 2


def test_a_call_is_one_execution_of_one_program():
    compiled = torch.compile(step, backend="pjrt", fullgraph=True)
    x, y = torch.randn(4, 4, device="xla"), torch.randn(4, 4, device="xla")
    compiled(x, y)
    torch.xla.synchronize()
    programs, executions = counted("compile.programs"), counted("execute.calls")
    for _ in range(3):
        compiled(x, y)
    assert counted("compile.programs") == programs
    assert counted("execute.calls") == executions + 3


def test_what_is_pending_before_the_call_is_no_part_of_its_program():
    compiled = torch.compile(step, backend="pjrt", fullgraph=True)
    x, y = torch.randn(4, 4, device="xla"), torch.randn(4, 4, device="xla")
    torch.xla.synchronize()
    compiled(x + 1, y)
    programs = counted("compile.programs")
    compiled(x + 1, y)
    assert counted("compile.programs") == programs


@pytest.mark.parametrize("dynamic, most_graphs", [(None, 2), (True, 1), (False, 4)])
def test_every_size_is_right_and_graphs_are_few(dynamic, most_graphs):
    def function(x):
        return (x * x.shape[0]).sum(0) + x.reshape(-1)[: x.shape[1]]

    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(function, backend="pjrt", dynamic=dynamic, fullgraph=True)
    values = [torch.randn(n, 3) for n in (4, 5, 6, 7)]
    for x in values:
        torch.testing.assert_close(compiled(x.to("xla")).cpu(), function(x))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= most_graphs
    programs = counted("compile.programs")
    for x in values:
        compiled(x.to("xla"))
    assert counted("compile.programs") == programs


def test_dynamic_sizes_have_gradients():
    def function(x, weight):
        return (x @ weight).relu().sum() / x.shape[0]

    compiled = torch.compile(function, backend="pjrt", dynamic=True, fullgraph=True)
    weight = torch.randn(3, 2, requires_grad=True)
    moved = weight.detach().to("xla").requires_grad_()
    for n in (4, 5, 6):
        x = torch.randn(n, 3)
        function(x, weight).backward()
        compiled(x.to("xla"), moved).backward()
        torch.testing.assert_close(moved.grad.cpu(), weight.grad)


def test_values_stay_on_the_device_across_a_graph_break():
    def function(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    copies = counted("transfer.device_to_host.calls")
    result = torch.compile(function, backend="pjrt")(torch.ones(3, device="xla"))
    assert counted("transfer.device_to_host.calls") == copies
    assert result.tolist() == [3, 3, 3]


def test_a_failed_check_of_an_index_is_an_error():
    compiled = torch.compile(lambda x, i: x[i], backend="pjrt", fullgraph=True)
    with pytest.raises(IndexError):
        compiled(torch.ones(3, device="xla"), torch.tensor([5], device="xla")).cpu()
        torch.xla.synchronize()

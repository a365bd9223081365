"""torch_pjrt.explain says what a call did."""

import torch

import torch_pjrt
from compiled_agreement import cpu_only


def broken(x, y):
    z = torch.sin(x).cpu()
    torch._dynamo.graph_break()
    return z + y


def test_graphs_breaks_devices_and_transfers():
    found = torch_pjrt.explain(broken, torch.ones(100, device="xla"), torch.ones(100))
    assert (found.graphs, found.devices) == (2, ("cpu", "xla:0"))
    assert len(found.breaks) == 1 and "test_explain.py" in found.breaks[0]
    assert (found.programs, found.executions) == (1, 1)
    assert found.copies_to_host == 1 and found.bytes_to_host == 400
    assert found.compile_seconds > 0
    assert found.fallbacks == {}
    for line in ("graphs            2", "fallbacks         none"):
        assert line in str(found)


def test_fallbacks_and_options_and_keywords():
    def function(x, *, scale):
        return cpu_only(x * scale).abs()

    found = torch_pjrt.explain(function, torch.eye(3), scale=2, options={"device": "xla"})
    assert found.graphs == 1 and found.breaks == ()
    assert any("cpu_only" in name for name in found.fallbacks)
    assert found.copies_to_device >= 1

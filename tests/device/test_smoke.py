"""A training step on every installed CPU plugin and in every execution mode."""

import pytest

from subprocess_support import output_of
from torch_pjrt.discovery import CPU_PLUGINS, plugins

STEP = """
    import torch, torch_pjrt
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    x, y = torch.randn(4, 8), torch.tensor([0, 2, 1, 1])
    import copy
    reference = copy.deepcopy(model)
    model.to("xla")
    for m, device in ((model, "xla"), (reference, "cpu")):
        optimizer = torch.optim.Adam(m.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(m(x.to(device)), y.to(device)).backward()
            optimizer.step()
    for p, q in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(p.cpu(), q, rtol=1e-4, atol=1e-5)
    print("equal")
"""


def test_all_three_cpu_plugins_are_installed():
    assert set(CPU_PLUGINS) <= {plugin.name for plugin in plugins()}


@pytest.mark.parametrize("plugin", CPU_PLUGINS)
def test_training_equals_cpu_on_plugin(plugin):
    assert output_of(STEP, TORCH_PJRT_PLUGIN=plugin) == "equal"


@pytest.mark.parametrize("mode", ["eager", "debug"])
def test_training_equals_cpu_in_mode(mode):
    assert output_of(STEP, TORCH_PJRT_MODE=mode) == "equal"

"""Whole models, made tiny: training on xla equals that on the CPU, and nothing falls back."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

import torch_pjrt

sys.path.append(str(Path(__file__).parents[2] / "bench"))

STEPS, MOST_PROGRAMS = 3, 4


def train(model: str, device: str) -> dict[str, torch.Tensor]:
    """Outputs, losses, gradients and parameters of some steps, by name."""
    workload = importlib.import_module(f"workloads.{model}_torch")
    # Rounding must not decide: AdamW scales gradients that ought to be zero up to a whole step.
    training = workload.make(workload.TINY).to(torch.float64)
    network = training.network.to(device)
    batch = [part.to(device) for part in training.batch]
    optimizer = training.optimizer(network.parameters())
    found = {}
    for step in range(STEPS):
        hook = network.register_forward_hook(
            lambda _, __, output, step=step: found.update({f"output {step}": output.detach()})
        )
        optimizer.zero_grad()
        loss = training.loss(network, *batch)
        loss.backward()
        hook.remove()
        found[f"loss {step}"] = loss.detach()
        for name, parameter in network.named_parameters():
            found[f"gradient of {name} {step}"] = parameter.grad.clone()
        optimizer.step()
    return found | {name: value.clone() for name, value in network.state_dict().items()}


@pytest.mark.parametrize("model", ["resnet18", "vit", "gpt2", "bert"])
def test_training_equals_the_cpu(model):
    expected = train(model, "cpu")
    torch_pjrt.metrics.reset()
    actual = train(model, "xla")
    torch_pjrt.sync()
    assert torch_pjrt.metrics.fallbacks() == {}
    assert torch_pjrt.metrics.snapshot()["compile.programs"] <= MOST_PROGRAMS
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            actual[name].cpu(), value, rtol=1e-7, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}"
        )

"""`import torch` alone brings the xla device, through PyTorch's backend autoload."""

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest


def run(program: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture(autouse=True)
def installed():
    if "torch_pjrt" not in entry_points(group="torch.backends").names:
        message = "torch-pjrt is not installed in this Python (make build links it)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)


def test_import_torch_is_enough():
    result = run("import torch; print(torch.ones(2, device='xla').sum().item())")
    assert (result.returncode, result.stdout) == (0, "2.0\n"), result.stderr


def test_autoload_can_be_switched_off():
    program = "import sys, torch; print('torch_pjrt' in sys.modules)"
    assert run(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout == "False\n"
    assert run(program).stdout == "True\n"


def test_the_package_may_be_imported_before_torch():
    result = run("import torch_pjrt, torch; print(torch.ones(2, device='xla').sum().item())")
    assert (result.returncode, result.stdout) == (0, "2.0\n"), result.stderr

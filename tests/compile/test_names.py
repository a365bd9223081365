"""The backend's names, and what they cost those who do not compile."""

import subprocess
import sys

import torch

from torch_pjrt._compile.backend import pjrt


def test_stock_openxla_is_this_backend():
    assert torch._dynamo.lookup_backend("openxla") is pjrt
    assert torch._dynamo.lookup_backend("pjrt") is pjrt
    assert {"pjrt", "openxla"} <= set(torch._dynamo.list_backends())


def _run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_importing_the_package_does_not_import_dynamo():
    _run("import sys, torch, torch_pjrt; assert 'torch._dynamo' not in sys.modules")


def test_names_are_known_where_dynamo_was_imported_first():
    _run(
        "import os; os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
        "import torch, torch._dynamo\n"
        "torch._dynamo.list_backends()\n"
        "import torch_pjrt\n"
        "from torch_pjrt._compile.backend import pjrt\n"
        "assert torch._dynamo.lookup_backend('openxla') is pjrt\n"
        "assert torch._dynamo.lookup_backend('pjrt') is pjrt\n"
    )

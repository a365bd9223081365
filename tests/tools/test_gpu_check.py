"""`tools/gpu_check` says when there is no GPU, and its checks pass on the simulated accelerator."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from chaos_support import environment
from simulated_support import RUNTIME

SCRIPT = Path(__file__).parents[2] / "tools" / "gpu_check"


def run(*arguments, **variables):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=480,
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_it_says_that_there_is_no_gpu_and_does_nothing():
    done = run()
    assert done.returncode == 3
    assert done.stdout.startswith("gpu_check: there is no GPU to check: PyTorch ")
    assert done.stdout.endswith("Nothing was built or run.\n") and not done.stderr


def test_its_checks_pass_on_the_simulated_accelerator():
    options = environment(f"simulates={RUNTIME};simulated_device=1")
    groups = [f"--only={group}" for group in ("pointers", "gradients")]
    done = run("--no-build", "--device=simulated", *groups, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 of 6 checks passed" in done.stdout


def test_a_failed_check_fails_the_run():
    elsewhere = environment(f"simulates={RUNTIME};platform_name=other")
    done = run("--no-build", "--device=simulated", "--only=pointers", **elsewhere)
    assert done.returncode == 1
    assert "no simulated device of this PyTorch has the memory of xla:0" in done.stderr

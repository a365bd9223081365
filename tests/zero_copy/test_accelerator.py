"""Runs accelerator_cases.py where the xla device is the simulated accelerator's platform."""

import os
import subprocess
import sys
from pathlib import Path

from chaos_support import environment
from simulated_support import RUNTIME

CASES = Path(__file__).with_name("accelerator_cases.py")


def test_the_simulated_accelerator():
    options = f"simulates={RUNTIME};simulated_device=1"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)],
        env=os.environ | environment(options),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-5000:]

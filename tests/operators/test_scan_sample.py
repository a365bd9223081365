"""A sample of PyTorch's operator database gives on device xla what it gives on the CPU.

`tools/scan --all` runs the whole.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCAN = Path(__file__).parents[2] / "tools" / "scan"
EVERY = 28  # some 25 operators, in under three minutes


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    pytest.importorskip("torch_pjrt", reason="torch_pjrt._C is not built")
    file = tmp_path_factory.mktemp("scan") / "results.json"
    command = [sys.executable, SCAN, "--sample", str(EVERY), "--samples", "2", "--json", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert file.is_file(), done.stderr
    return json.loads(file.read_text())


def test_the_sample_is_not_empty(results):
    assert sum(result["status"] == "pass" for result in results) >= 20


def test_no_crash_and_no_timeout(results):
    assert not [r for r in results if r["status"] in ("crash", "timeout")]


def test_every_sampled_operator_equals_the_cpu(results):
    assert not [r for r in results if r["status"] in ("wrong", "error")]

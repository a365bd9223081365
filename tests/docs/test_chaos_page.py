"""The Python of docs/chaos.md runs as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaos_support import environment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "chaos.md").read_text()


@pytest.mark.parametrize("block", re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S))
def test_python_block_runs(block):
    result = subprocess.run(
        [sys.executable, "-c", block],
        cwd=ROOT,
        env={**os.environ, **environment()},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr

"""The Python of the README and of docs/zero_copy.md runs as it stands."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ZERO_COPY = (ROOT / "docs" / "zero_copy.md").read_text()


def blocks_of(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


PYTHON_BLOCKS = blocks_of(README) + blocks_of(ZERO_COPY)


def module_is_built() -> bool:
    package = importlib.util.find_spec("torch_pjrt")
    return bool(package) and importlib.util.find_spec("torch_pjrt._C") is not None


def test_the_pages_have_python_examples():
    assert blocks_of(README) and blocks_of(ZERO_COPY)


@pytest.mark.parametrize("block", PYTHON_BLOCKS)
def test_python_block_runs(block):
    if not module_is_built():
        pytest.skip("torch_pjrt._C is not built")
    result = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_make_targets_of_the_readme_exist():
    named = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named and named <= targets


def test_paths_linked_by_the_readme_exist():
    linked = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert linked and all((ROOT / path).exists() for path in linked)

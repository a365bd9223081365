"""Both examples run from the command line, in their short form, and print what they promise."""

import gzip
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(EXAMPLES))
import mixed_mnist  # noqa: E402


def importable() -> bool:
    try:
        from torch_pjrt import metrics  # noqa: F401
    except ImportError:
        return False
    return True


needs_torch_pjrt = pytest.mark.skipif(not importable(), reason="torch_pjrt cannot be imported")


def run(name: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    )


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, f"{pattern!r} not in\n{text}"
    return float(found[1].replace(",", ""))


@needs_torch_pjrt
def test_mixed_mnist_learns_and_equals_the_cpu(tmp_path):
    plot = tmp_path / "plot.png"
    done = run("mixed_mnist.py", "--short", "--check", "--plot", str(plot))
    assert done.returncode == 0, done.stderr[-2000:]
    assert number(r"test accuracy: ([\d.]+)", done.stdout) >= 0.9
    assert number(r"arithmetic: (\d+)%", done.stdout) >= 30
    assert number(r"head\), (\d+)%", done.stdout) >= 30
    assert number(r"against all-CPU: (\S+)", done.stdout) <= 1e-3
    assert number(r"programs compiled: (\d+)", done.stdout) > 0
    assert number(r"CPU fallbacks: (\d+)", done.stdout) == 0
    assert number(r"\(([\d,]+) to the device", done.stdout) > 0
    assert number(r"device, ([\d,]+) back", done.stdout) > 0
    assert "bytes copied a step, at most: 0 to the device, 0 back" in done.stdout
    assert plot.read_bytes().startswith(b"\x89PNG")


@needs_torch_pjrt
def test_character_transformer_learns_and_writes():
    done = run("character_transformer.py", "--short")
    assert done.returncode == 0, done.stderr[-2000:]
    first = number(r"loss: ([\d.]+)", done.stdout)
    last = number(r"first step, ([\d.]+)", done.stdout)
    assert last < first - 1
    assert number(r"CPU fallbacks: (\d+)", done.stdout) == 0
    assert len(done.stdout.split("sample:\n")[1]) >= len("The ") + 12


def test_mixed_mnist_learns_on_the_cpu():
    done = run("mixed_mnist.py", "--all-cpu", "--short")
    assert done.returncode == 0, done.stderr[-2000:]
    assert number(r"test accuracy: ([\d.]+)", done.stdout) >= 0.9


def write_idx(path: Path, shape: tuple[int, ...], values: bytes) -> None:
    data = bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + values
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture
def mnist(tmp_path):
    """A tiny MNIST of four training and two test images, half of the files gzipped."""
    for name, count in (("train", 4), ("t10k", 2)):
        pixels = bytes(i % 251 for i in range(count * 784))
        write_idx(tmp_path / f"{name}-images-idx3-ubyte.gz", (count, 28, 28), pixels)
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte", (count,), bytes(range(count)))
    return tmp_path


def refusal(capsys, *arguments: str) -> str:
    """What is printed when the options are refused."""
    with pytest.raises(SystemExit) as stop:
        mixed_mnist.main(list(arguments))
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_mnist_files_are_read(mnist, capsys):
    assert mixed_mnist.main(["--all-cpu", "--steps", "2", "--data", str(mnist)]) == 0
    assert "test accuracy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: (d / "t10k-labels-idx1-ubyte").unlink(), "file missing"),
        (lambda d: (d / "t10k-labels-idx1-ubyte").write_bytes(b"text"), "not an IDX file"),
        (lambda d: write_idx(d / "t10k-labels-idx1-ubyte", (3,), b"\0\1\2"), "do not match"),
        (lambda d: write_idx(d / "t10k-labels-idx1-ubyte", (2,), b"\0"), "wrong length"),
        (lambda d: write_idx(d / "t10k-labels-idx1-ubyte", (2,), b"\0\12"), "only 0 to 9"),
        (lambda d: (d / "train-images-idx3-ubyte.gz").write_bytes(b"\x1f\x8bx"), "damaged gzip"),
    ],
)
def test_damaged_mnist_files_are_named(mnist, damage, message, capsys):
    damage(mnist)
    assert message in refusal(capsys, "--all-cpu", "--data", str(mnist))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "/nowhere"], "not a directory"),
        (["--steps", "0"], "expected at least 1"),
        (["--check", "--steps", "5"], "needs 50 steps"),
        (["--plot", "/nowhere/x.png"], "no directory"),
        (["--device", "nonsense"], "nonsense"),
    ],
)
def test_mixed_mnist_refuses_bad_options(arguments, message, capsys):
    assert message in refusal(capsys, *arguments)

"""The benches run in a short form; what they count, rather than time, must be as asked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_pjrt", reason="torch_pjrt cannot be imported", exc_type=ImportError)
ROOT = Path(__file__).parents[2]


def rows(tmp_path: Path, name: str, *arguments: str, **environment: str) -> list[dict]:
    """What the bench keeps with --json."""
    kept = tmp_path / "rows.json"
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / name, "--json", kept, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python"), **environment},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(kept.read_text())["rows"]


def test_memory_buffers_and_programs_stay_flat(tmp_path):
    found = rows(tmp_path, "steady.py", "--steps", "250")
    assert [row["scenario"] for row in found] == ["adam, schedule, number", "mixed"]
    assert all(row["programs at 100"] > 0 for row in found)
    assert [row["flat"] for row in found] == ["met", "met"]


def test_an_endless_loop_compiles_few_programs(tmp_path):
    # A smaller cap makes smaller programs, and the same number of cuts.
    (row,) = rows(tmp_path, "cap.py", TORCH_PJRT_GRAPH_LIMIT="1000")
    assert row["cap"] == 1000
    assert row["recorded"] >= 100 * 1000
    assert row["executions"] >= 50
    assert row["programs"] <= 3


def test_tracing_is_measured_against_the_cpu(tmp_path):
    found = rows(tmp_path, "trace.py", "--rounds", "5")
    assert all(row["cpu us"] > 0 and row["xla us"] > 0 for row in found)


def test_calls_of_compiled_functions_are_measured(tmp_path):
    found = rows(tmp_path, "compile.py", "--what", "call", "--rounds", "5")
    *calls, verdict = (row["who"] for row in found)
    assert calls == ["prepared", "pjrt", "lazy", "launch"]
    assert verdict.startswith("pjrt - prepared - launch: ")  # a difference, of either sign
    assert all(row["us"] > 0 for row in found[:-1])


def test_transfers_are_measured_against_references(tmp_path):
    found = rows(tmp_path, "transfer.py", "--rounds", "3", "--mib", "1", "--only", "to ")
    assert len(found) >= 12
    assert all(row["ours ms"] > 0 and row["its ms"] > 0 for row in found)


def test_operators_equal_jax_where_it_is_installed(tmp_path):
    pytest.importorskip("jax", reason="jax, which is compared with, is not installed")
    words = ["conv3d", "topk", "cholesky", "attention, causal"]
    found = rows(
        tmp_path, "operators.py", "--sizes", "small", "--seconds", "0.01", "--only", *words
    )
    assert len(found) == len(words)
    assert all(row["equal"] == "yes" and row["ratio"] > 0 for row in found)


def test_hashing_and_emission_are_measured_without_compiling(tmp_path):
    found = rows(tmp_path, "hashing.py", "--rounds", "1")
    assert [row["operators"] for row in found] == [3000, 10000, 30000]
    assert all(row["hashing us"] > 0 and row["emission us"] > 0 for row in found)


def test_a_short_soak_finds_no_wrong_value(tmp_path):
    (row,) = rows(tmp_path, "soak.py", "--minutes", "0.1")
    assert row["rounds"] > 10
    assert (row["wrong"], row["errors"], row["in flight at end"]) == (0, None, 0)


def test_crossings_are_measured_and_a_misaligned_import_copies_once(tmp_path):
    found = rows(tmp_path, "zero_copy.py", "--rounds", "3", "--width", "64")
    assert {row["what"] for row in found} >= {
        "xla to cpu, 64 MiB",
        "cpu to xla, 64 MiB",
        "misaligned import, 64 MiB",
        "training step with 4 crossings",
    }
    assert all(row["us"] > 0 and row["reference us"] > 0 for row in found)

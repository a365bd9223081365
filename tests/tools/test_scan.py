"""The scan finds what differs, and a crash or a hang counts against one operator only."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
pytest.importorskip("torch_pjrt", reason="torch_pjrt._C is not built")

import torch
from operator_scan import comparison, workers

SETTINGS = {"dtypes": ["float32"], "samples": 1, "backward": True}


@pytest.mark.parametrize(
    ("got", "problem"),
    [
        (torch.tensor([1.0, 2.5]), "result 0: Tensor-likes are not close"),
        (torch.ones(3), "result 0: shape"),
        (torch.tensor([1, 2]), "result 0: dtype"),
        ((torch.ones(2), torch.ones(2)), "results: got 2, expected 1"),
    ],
)
def test_a_difference_is_found(got, problem):
    expected = torch.tensor([1.0, 2.0])
    assert comparison._difference((expected, []), (got, []), False).startswith(problem)
    assert comparison._difference((expected, []), (expected.clone(), []), False) is None


def test_a_wrong_gradient_is_found():
    value = torch.ones(2)
    found = comparison._difference((value, [value]), (value, [value * 2]), False)
    assert found.startswith("gradient 0: ")


def test_a_view_reaches_the_device_as_the_same_view():
    view = torch.arange(12.0).reshape(3, 4)[1:, ::2].t()
    twin = comparison._moved(view, "xla")
    assert twin.device.type == "xla" and twin.stride() == view.stride()
    assert twin.storage_offset() == view.storage_offset()
    assert torch.equal(twin.cpu(), view)


class DyingWorker(workers.Worker):
    def compare(self, name, timeout):
        if name == "mul":
            self._process.kill()
        return super().compare(name, timeout)


def test_a_crash_counts_against_one_operator(monkeypatch):
    monkeypatch.setattr(workers, "Worker", DyingWorker)
    results = workers.scan(["add", "mul", "sub"], SETTINGS, chunk=3, timeout=120, jobs=1)
    assert [r.status for r in results] == ["pass", "crash", "pass"]


def test_a_hang_is_a_timeout():
    worker = workers.Worker(SETTINGS)
    results, alive = worker.compare("add", timeout=0)
    assert [r.status for r in results] == ["timeout"] and not alive

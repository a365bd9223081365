"""`torch_pjrt.trace` and torch.profiler see transfers, compilations and executions."""

import json

import pytest
import torch

import torch_pjrt


def work():
    x = torch.rand(300, 300).to("xla")
    return (x @ x + torch.rand(1).item()).cpu()


def events_of(path):
    return [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]


def test_a_trace_shows_what_ran(tmp_path):
    path = tmp_path / "trace.json"
    with torch_pjrt.trace(path):
        work()
    events = events_of(path)
    names = {event["name"] for event in events}
    assert {"host_to_device", "device_to_host", "execute", "program"} <= names
    (upload,) = [e for e in events if e["args"].get("bytes") == 360_000 and "host_to" in e["name"]]
    assert upload["args"]["path"] == "flat"
    (program,) = [event for event in events if event["name"] == "program"]
    (launch,) = [event for event in events if event["name"] == "execute"]
    assert program["tid"] != launch["tid"]
    assert program["ts"] == launch["ts"] or program["ts"] >= launch["ts"] - 1000
    assert all(event["dur"] >= 0 for event in events)


def test_a_trace_starts_and_stops_by_call(tmp_path):
    trace = torch_pjrt.trace(str(tmp_path / "trace.json"))
    trace.start()
    with pytest.raises(RuntimeError, match="another trace"):
        torch_pjrt.trace(tmp_path / "other.json").start()
    work()
    trace.stop()
    with pytest.raises(RuntimeError, match="stop without start"):
        trace.stop()
    assert events_of(tmp_path / "trace.json")
    work()
    with torch_pjrt.trace(tmp_path / "empty.json"):
        pass
    assert events_of(tmp_path / "empty.json") == []


def test_a_path_that_cannot_be_written_is_found_at_the_start(tmp_path):
    with pytest.raises(OSError):
        torch_pjrt.trace(tmp_path / "none" / "trace.json").start()
    with torch_pjrt.trace(tmp_path / "trace.json"):
        work()


def test_the_profiler_shows_the_ranges():
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profile:
        work()
    names = {event.key for event in profile.key_averages()}
    assert {"xla::host_to_device", "xla::execute", "xla::device_to_host"} <= names


def test_the_report_shows_speeds():
    torch_pjrt.metrics.reset()
    torch.rand(300, 300).to("xla")
    (line,) = [
        line
        for line in torch_pjrt.metrics.report().splitlines()
        if line.startswith("transfer.host_to_device.flat")
    ]
    assert "1 calls" in line and "GiB/s" in line

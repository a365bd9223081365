"""The include-direction check finds what it must, and passes what is allowed."""

import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "tools" / "include_direction.py"


@pytest.fixture(scope="module")
def include_direction():
    spec = importlib.util.spec_from_file_location("include_direction", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("layer", "header"),
    [
        ("base", "pjrt/client.h"),
        ("base", "pjrt_c_api.h"),
        ("pjrt", "transfer/host_memory_pool.h"),
        ("graph", "dlpack/import.h"),
        ("transfer", "ATen/dlpack.h"),
        ("dlpack", "ATen/ATen.h"),
        ("graph", "c10/core/Device.h"),
        ("pjrt", "Python.h"),
        ("aten", "python/bindings.h"),
        ("aten", "../graph/type.h"),
    ],
)
def test_a_wrong_include_is_found_with_its_line(include_direction, tmp_path, layer, header):
    file = tmp_path / "cpp" / layer / "a.cpp"
    file.parent.mkdir(parents=True)
    file.write_text(f'#include <vector>\n#include "{header}"\n')
    [fault] = include_direction.faults(tmp_path, [f"cpp/{layer}/a.cpp"])
    assert fault.startswith(f"cpp/{layer}/a.cpp:2: includes {header}: ")


@pytest.mark.parametrize(
    ("layer", "header"),
    [
        ("pjrt", "base/metrics.h"),
        ("pjrt", "pjrt_c_api.h"),
        ("graph", "transfer/reclaimer.h"),
        ("dlpack", "ATen/dlpack.h"),
        ("aten", "ATen/core/Tensor.h"),
        ("python", "aten/device.h"),
        ("graph", "type.h"),
        ("base", "sys/mman.h"),
    ],
)
def test_an_allowed_include_passes(include_direction, layer, header):
    assert include_direction.fault(layer, header) is None


def test_an_unknown_folder_is_found(include_direction):
    [fault] = include_direction.faults(SOURCE.parent, ["cpp/new_layer/a.cpp"])
    assert "new_layer" in fault

"""Bad input gets a clear error, and later work is right."""

import pytest
import torch

from subprocess_support import output_of, run


def ok():
    return (torch.ones(2, device="xla") + 1).sum().item() == 4


def test_operands_on_different_devices():
    x, c = torch.ones(3, device="xla"), torch.ones(3)
    for operation in (
        lambda: x + c,
        lambda: c + x,
        lambda: torch.where(x > 0, x, c),
        lambda: torch.cat([x, c]),
        lambda: x.add_(c),
        lambda: torch.nn.functional.linear(x, torch.ones(3, 3)),
        lambda: torch.atan2(x, c),
        lambda: torch.linalg.multi_dot([torch.ones(2, 3, device="xla"), torch.ones(3, 2)]),
    ):
        with pytest.raises(RuntimeError, match=r"device|xla"):
            operation().cpu()
    assert (x + torch.tensor(2.0)).cpu().tolist() == [3, 3, 3]
    assert ok()


def test_index_out_of_range_is_raised_at_the_next_read_only():
    table, bad = torch.ones(4, 2, device="xla"), torch.tensor([1, 9], device="xla")
    with pytest.raises(IndexError, match="embedding"):
        torch.nn.functional.embedding(bad, table).cpu()
    assert ok()


def test_shapes_that_do_not_fit_raise_at_the_call():
    with pytest.raises(RuntimeError):
        torch.ones(3, device="xla") + torch.ones(4, device="xla")
    with pytest.raises(RuntimeError):
        torch.ones(3, 2, device="xla") @ torch.ones(3, 2, device="xla")
    assert ok()


def test_sparse_quantised_and_nested_are_refused():
    table = torch.ones(3, 2, device="xla", requires_grad=True)
    rows = torch.nn.functional.embedding(torch.tensor([1], device="xla"), table, sparse=True)
    for refused in (
        lambda: torch.eye(3, device="xla").to_sparse(),
        lambda: torch.eye(3).to_sparse().to("xla"),
        lambda: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device="xla"),
        lambda: rows.sum().backward(),
        lambda: torch.quantize_per_tensor(torch.ones(3, device="xla"), 0.1, 0, torch.qint8),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).to("xla"),
    ):
        with pytest.raises(NotImplementedError, match="not supported on device xla; use a dense"):
            refused()
    assert ok()


def test_unknown_setting_and_mode():
    import torch_pjrt

    with pytest.raises(ValueError, match="'lazy', 'eager', 'debug'"):
        torch_pjrt.config.mode = "fast"
    with pytest.raises(AttributeError, match="no setting 'modes'"):
        torch_pjrt.config.modes = "lazy"


def test_device_that_is_not_there():
    with pytest.raises((RuntimeError, ValueError), match="no such device"):
        torch.ones(2, device="xla:5").cpu()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"TORCH_PJRT_PLUGIN": "/no/such/plugin.so"}, "/no/such/plugin.so"),
        ({"TORCH_PJRT_PLUGIN": "no_such_name"}, "no_such_name"),
        ({"TORCH_PJRT_OPTIONS": "no_such_option=1"}, "no_such_option"),
    ],
)
def test_bad_plugin_or_options(environment, message):
    done = run("import torch, torch_pjrt\ntorch.ones(2, device='xla').cpu()", **environment)
    assert done.returncode == 1 and message in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("variable", "text"), [("TORCH_PJRT_MODE", "fast"), ("TORCH_PJRT_OPTIONS", "cpu_device_count")]
)
def test_bad_environment_setting_names_the_variable(variable, text):
    done = run("import torch_pjrt", **{variable: text})
    assert done.returncode == 1 and variable in done.stderr


def test_a_program_out_of_memory_harms_only_its_own_values_and_names_the_line():
    output = output_of(
        """
        import torch, torch_pjrt
        x = torch.ones(4, device="xla")
        huge = torch.nn.functional.softsign(x.reshape(4, 1, 1).expand(4, 1 << 20, 1 << 19))
        beside = x * 3
        print(beside.cpu().tolist())
        for _ in range(2):
            try:
                huge[0, 0, 0].item()
            except torch.OutOfMemoryError as error:
                print(error)
            print((x + 1).cpu().tolist())
        """
    ).splitlines()
    assert output[0] == "[3.0, 3.0, 3.0, 3.0]"
    assert output[2] == output[4] == "[2.0, 2.0, 2.0, 2.0]"
    for message in (output[1], output[3]):
        assert "RESOURCE_EXHAUSTED" in message
        assert "computes the result of aten::div, called at <string>:4" in message

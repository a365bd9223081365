"""Environment variables whose value means nothing are named in a warning, and ignored."""

import pytest

from subprocess_support import output_of, run

USE = """
    import torch, torch_pjrt
    large = torch.arange(1 << 20)
    assert torch.equal(large.to("xla").clone().cpu(), large)
    torch_pjrt.sync()
    print("done")
"""


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("TORCH_PJRT_POOL_LIMIT", "1 GiB", "a whole number of bytes"),
        ("TORCH_PJRT_TRANSFER_THREADS", "0", "a whole number from 1 to 256"),
        ("TORCH_PJRT_TRANSFER_THREADS", "many", "a whole number from 1 to 256"),
        ("TORCH_PJRT_DUMP", "/no/such/folder", "an existing folder"),
    ],
)
def test_what_cannot_be_meant_is_named_and_ignored(name, value, expected):
    done = run(USE, **{name: value})
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr
    assert f"read {name}: it is ignored; got {value!r}, expected {expected}" in done.stderr


def test_what_is_meant_is_heeded_without_a_word():
    program = "import warnings; warnings.simplefilter('error')\n"
    program += "import torch, torch_pjrt; print('quiet')"
    settings = {"TORCH_PJRT_POOL_LIMIT": "0", "TORCH_PJRT_TRANSFER_THREADS": "1"}
    assert output_of(program, **settings) == "quiet"


def test_a_program_without_stderr_can_import():
    program = """
        import sys
        sys.stderr.close()
        import torch, torch_pjrt
        assert not torch_pjrt.config.progress
        sys.stderr = None
        assert torch.ones(2, device="xla").sum().item() == 2
        print("done")
    """
    assert output_of(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "done"

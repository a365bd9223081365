"""Import, fork and exit, in processes of their own."""

import pytest

from subprocess_support import output_of, run


def test_cpu_backward_first_then_xla():
    assert (
        output_of(
            """
            import torch, torch_pjrt
            torch.ones(2, requires_grad=True).sum().backward()
            x = torch.ones(3, device="xla", requires_grad=True)
            (x * 2).sum().backward()
            print(x.grad.cpu().tolist())
            """
        )
        == "[2.0, 2.0, 2.0]"
    )


def test_forked_child_may_use_cpu_tensors_and_is_told_about_xla():
    assert (
        output_of(
            """
            import os, torch, torch_pjrt
            x = torch.ones(3, device="xla") + 1
            x.cpu()
            child = os.fork()
            if child == 0:
                assert (torch.ones(2) + 1).sum() == 4
                try:
                    (x + 1).cpu()
                except RuntimeError as error:
                    assert "forked" in str(error), error
                    del x
                    os._exit(7)
                os._exit(1)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), (x + 1).sum().item())
            """
        )
        == "7 9.0"
    )


def test_dataloader_with_workers_after_the_client_exists():
    assert (
        output_of(
            """
            import torch, torch_pjrt
            torch.ones(1, device="xla").cpu()
            data = torch.utils.data.TensorDataset(torch.arange(8.0))
            loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)
            print([b.to("xla").sum().item() for (b,) in loader])
            """
        )
        == "[6.0, 22.0]"
    )


@pytest.mark.parametrize(
    "state",
    [
        "pass",
        "x = torch.ones(3, device='xla')",
        "x = torch.ones(3, device='xla') + 1; y = x * 2",
        "x = torch.ones(3, device='xla') + 1; x.cpu()",
        "x = torch.ones(1 << 22).to('xla', non_blocking=True) * 2; torch_pjrt._C.execute_all()",
        "x = torch.ones(3, device='xla', requires_grad=True); (x * 2).sum().backward(); g = x.grad",
        "import sys; x = torch.ones(3, device='xla') + 1; sys.exit(0)",
    ],
)
def test_exit_is_clean(state):
    done = run(f"import torch, torch_pjrt\n{state}")
    assert (done.returncode, done.stderr) == (0, "")


def test_exit_by_exception_keeps_its_code():
    done = run("import torch, torch_pjrt\nx = torch.ones(3, device='xla') + 1\nraise KeyError('k')")
    assert done.returncode == 1 and "KeyError" in done.stderr

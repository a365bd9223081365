"""Several devices in one process."""

from subprocess_support import output_of


def test_work_and_copies_on_two_devices():
    assert (
        output_of(
            """
        import torch, torch_pjrt
        assert torch.xla.device_count() == 2
        a = torch.arange(4.0, device="xla:0")
        b = (a * 2).to("xla:1")
        assert b.device == torch.device("xla:1")
        c = b + torch.ones(4, device="xla:1")
        try:
            a + c
        except RuntimeError as error:
            assert "xla:0" in str(error) and "xla:1" in str(error)
        else:
            raise AssertionError("mixed devices were accepted")
        with torch.xla.device(1):
            assert torch.ones(1, device="xla").device.index == 1
        a.copy_(c)
        a.add_(1)
        print(a.cpu().tolist(), c.cpu().tolist())
        """,
            TORCH_PJRT_OPTIONS="cpu_device_count=2",
        )
        == "[2.0, 4.0, 6.0, 8.0] [1.0, 3.0, 5.0, 7.0]"
    )

"""What TransformerEncoder asks of a padding mask in evaluation."""

import pytest
import torch

from agreement import fallbacks

ROWS = {
    "full": [True, True, True],
    "padded": [True, False, False],
    "empty": [False, False, False],
    "gap": [True, False, True],
    "left": [False, True, True],
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_alignment_reads_the_mask_alone(row):
    x, mask = torch.full((2, 3, 4), torch.nan), torch.tensor([ROWS["padded"], row])
    before = fallbacks()
    aligned = torch._nested_tensor_from_mask_left_aligned(x.to("xla"), mask.to("xla"))
    assert aligned == torch._nested_tensor_from_mask_left_aligned(x, mask)
    assert fallbacks() == before


@pytest.mark.parametrize(
    "mask",
    [torch.ones(2, 3), torch.ones(2, 3, 1).bool(), torch.ones(3, 2).bool()],
    ids=["dtype", "dimensions", "size"],
)
def test_masks_that_do_not_fit_raise(mask):
    for device in ("cpu", "xla"):
        with pytest.raises(RuntimeError, match="(?i)mask"):
            torch._nested_tensor_from_mask_left_aligned(
                torch.ones(2, 3, 4, device=device), mask.to(device)
            )


def test_a_padded_encoder_in_evaluation():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.rand(2, 3, 8), torch.tensor([[False, False, True], [False, True, True]])
    with torch.no_grad():
        expected = encoder(x, src_key_padding_mask=padding)
        before = fallbacks()
        encoder.to("xla")
        actual = encoder(x.to("xla"), src_key_padding_mask=padding.to("xla")).cpu()
    assert fallbacks() == before
    torch.testing.assert_close(actual[~padding], expected[~padding], rtol=1e-4, atol=1e-5)

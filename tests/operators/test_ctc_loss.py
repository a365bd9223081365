"""CTC loss and its gradient against the CPU: lengths of every kind, and losses without a path."""

import math

import pytest
import torch

from agreement import compare, compare_errors

F = torch.nn.functional
T, B, C, S = 7, 4, 5, 3
TARGETS = torch.tensor([[1, 1, 2], [3, 4, -100], [4, 4, 4], [-1, -1, -1]])  # padded with nonsense
INPUT_LENGTHS, TARGET_LENGTHS = [7, 4, 5, 3], [3, 2, 3, 0]
CONCATENATED = torch.tensor([1, 1, 2, 3, 4, 4, 4, 4])


def log_probs(dtype=torch.float32):
    return torch.randn(T, B, C, dtype=dtype).log_softmax(2).requires_grad_()


@pytest.mark.parametrize(
    ("targets", "dtype", "blank"),
    [(TARGETS, torch.float32, 0), (CONCATENATED.int() % 4, torch.float64, C - 1)],
)
def test_rows_of_different_lengths(targets, dtype, blank):
    arguments = (log_probs(dtype), targets, INPUT_LENGTHS, TARGET_LENGTHS, blank)
    compare(F.ctc_loss, *arguments, backward=True)


def test_lengths_as_tensors():
    lengths = [torch.tensor(INPUT_LENGTHS), torch.tensor(TARGET_LENGTHS)]

    def both(x, *rest):
        loss, alpha = torch._ctc_loss(x, *rest)
        ones = torch.ones_like(loss)
        return loss, torch.ops.aten._ctc_loss_backward(ones, x, *rest, loss, alpha, 0)

    compare(both, log_probs().detach(), TARGETS, *lengths)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_without_a_path(zero_infinity):
    # Repeated labels need a blank between them; nothing fits into no steps.
    for input_lengths in ([3, 4, 5, 3], [7, 0, 4, 0]):
        arguments = (log_probs(), TARGETS, input_lengths, TARGET_LENGTHS)
        options = {"reduction": "none", "zero_infinity": zero_infinity}
        compare(F.ctc_loss, *arguments, backward=True, **options)


def test_impossible_labels_and_nan():
    for value in (-math.inf, math.nan, math.inf):
        x = log_probs().detach()
        x[1, 0, 1] = x[2, 1, 3] = x[3, 2, 0] = x[4, 2, 4] = value
        x.requires_grad_()
        for zero_infinity in (False, True):
            options = {"reduction": "none", "zero_infinity": zero_infinity}
            arguments = (x, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS)
            compare(F.ctc_loss, *arguments, backward=True, **options)


def test_no_targets_and_one_sample():
    nothing = torch.zeros(B, 0, dtype=torch.long)
    compare(F.ctc_loss, log_probs(), nothing.flatten(), INPUT_LENGTHS, [0] * B, backward=True)
    x = log_probs().detach()[:, 0].clone().requires_grad_()
    one = (torch.tensor(T), torch.tensor(S))
    compare(F.ctc_loss, x, TARGETS[0], *one, backward=True)


def test_saved_sums():
    targets = TARGETS[::2].abs()
    compare(torch._ctc_loss, log_probs().detach()[:, ::2], targets, [T, T], [S, S])


def test_longer_rows_keep_their_digits():
    x = (4 * torch.randn(200, 2, 30)).log_softmax(2).requires_grad_()
    compare(
        F.ctc_loss,
        x,
        torch.randint(1, 30, (2, 40)),
        [200, 150],
        [40, 31],
        backward=True,
        tolerance=1e-4,
    )


GOOD = (torch.randn(T, B, C), TARGETS, INPUT_LENGTHS, TARGET_LENGTHS)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, GOOD[0].half()),
        (0, GOOD[0][:0]),
        (0, GOOD[0][0, 0]),
        (1, TARGETS.float()),
        (1, TARGETS[:2]),
        (1, TARGETS[:, :2]),
        (1, CONCATENATED[:4]),
        (2, [8, 4, 5, 3]),
        (2, [-1, 4, 5, 3]),
        (2, [7, 4]),
        (3, [3, 2, 3, -1]),
        (3, [3, 2]),
    ],
)
def test_refused(place, wrong):
    arguments = list(GOOD)
    arguments[place] = wrong
    compare_errors(torch._ctc_loss, *arguments)


def test_refused_blank():
    compare_errors(torch._ctc_loss, *GOOD, C, match="blank must be in label range")


def test_a_label_out_of_range_is_an_error():
    with pytest.raises(IndexError, match="_ctc_loss"):
        F.ctc_loss(GOOD[0].to("xla"), (TARGETS + C).to("xla"), *GOOD[2:]).cpu()

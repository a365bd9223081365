"""Handwritten digits as tensors: the ones scikit-learn ships, or MNIST's IDX files."""

import gzip
import struct
from dataclasses import dataclass
from pathlib import Path

import torch

IDX_UNSIGNED_BYTE = 0x08
MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


class DataError(ValueError):
    """The data asked for cannot be used; the text says why and what to do."""


@dataclass
class Digits:
    """Images are float32 (count, 1, side, side) of about unit variance; labels are int64."""

    train_images: torch.Tensor
    train_labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor

    @property
    def side(self) -> int:
        return self.train_images.shape[-1]


def load_digits(directory: Path | None) -> Digits:
    """Reads MNIST from `directory`, or scikit-learn's 8x8 digits when it is None."""
    return _scikit_digits() if directory is None else _mnist(directory)


def _scikit_digits() -> Digits:
    from sklearn.datasets import load_digits as load

    bunch = load()
    images = _normalise(torch.from_numpy(bunch.images))
    labels = torch.from_numpy(bunch.target).long()
    # A fixed order, so that every seed trains and tests on the same digits.
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1797))
    test, train = order[: len(labels) // 5], order[len(labels) // 5 :]
    return Digits(images[train], labels[train], images[test], labels[test])


def _mnist(directory: Path) -> Digits:
    if not directory.is_dir():
        raise DataError(
            f"--data: not a directory; got {str(directory)!r}, expected one that holds "
            f"{', '.join(MNIST_FILES)} (gzipped or not)"
        )
    paths = [_find(directory, name) for name in MNIST_FILES]
    arrays = [read_idx(path) for path in paths]
    for path, array, dims in zip(paths, arrays, (3, 1, 3, 1), strict=True):
        if array.dim() != dims:
            raise DataError(
                f"{path}: wrong number of dimensions; got {array.dim()}, expected {dims}"
            )
    for images, labels, path in (
        (arrays[0], arrays[1], paths[1]),
        (arrays[2], arrays[3], paths[3]),
    ):
        if len(images) != len(labels):
            raise DataError(
                f"{path}: labels do not match the images; got {len(labels)} labels, "
                f"expected {len(images)}"
            )
        if len(labels) == 0 or labels.max() > 9:
            raise DataError(f"{path}: expected at least one label, and only 0 to 9")
    train, test = arrays[0], arrays[2]
    side = train.shape[1]
    if train.shape[1:] != (side, side) or test.shape[1:] != (side, side) or side % 4:
        raise DataError(
            f"{directory}: images must be square, of one size, and a multiple of 4; got "
            f"{tuple(train.shape[1:])} and {tuple(test.shape[1:])}, expected (28, 28)"
        )
    return Digits(_normalise(train), arrays[1].long(), _normalise(test), arrays[3].long())


def _find(directory: Path, name: str) -> Path:
    for candidate in (name, name + ".gz", name.replace("-idx", ".idx")):
        if (directory / candidate).is_file():
            return directory / candidate
    raise DataError(
        f"--data {directory}: file missing; expected {name} or {name}.gz; "
        "download MNIST's four IDX files there, or leave --data out for scikit-learn's digits"
    )


def read_idx(path: Path) -> torch.Tensor:
    """One IDX file of unsigned bytes, gzipped or not, told apart by content."""
    data = path.read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: damaged gzip file ({error}); download it again") from error
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != IDX_UNSIGNED_BYTE or data[3] == 0:
        raise DataError(
            f"{path}: not an IDX file of unsigned bytes; got first bytes {data[:4].hex(' ')!r}, "
            "expected 00 00 08 and the number of dimensions"
        )
    header = 4 + 4 * data[3]
    if len(data) < header:
        raise DataError(f"{path}: cut off in its header; got {len(data)} bytes, expected {header}")
    shape = struct.unpack(f">{data[3]}I", data[4:header])
    expected = header
    size = 1
    for dim in shape:
        size *= dim
    expected += size
    if len(data) != expected:
        raise DataError(
            f"{path}: wrong length for shape {shape}; got {len(data)} bytes, expected {expected}; "
            "download it again"
        )
    if size == 0:
        return torch.zeros(shape, dtype=torch.uint8)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=header).reshape(shape)


def _normalise(images: torch.Tensor) -> torch.Tensor:
    images = images.float()
    images = (images - images.mean()) / images.std()
    return images.unsqueeze(1)

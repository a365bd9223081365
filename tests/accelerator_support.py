"""What the accelerator's cases share. test_accelerator.py has pytest load it as a plugin: before
the cases, as PyTorch must know the device first, and with `every_wait` around each of them."""

import contextlib
import gc
import time

import pytest
import torch

import simulated_support
from chaos_support import Chaos

simulator = simulated_support.load()  # before PyTorch counts its devices

import torch_pjrt  # noqa: E402
from sharing import LARGE, count  # noqa: E402
from torch_pjrt import _C  # noqa: E402

chaos = Chaos()
NEAR, FAR = "simulated:1", "simulated:0"  # the plugin's memory is the second's
SMALL = 1 << 12  # elements: memory of this size is given out again at once
LATE = 150  # milliseconds
lateness = LATE


@pytest.fixture(autouse=True)
def every_wait():
    yield
    simulator.delay(0)
    simulator.leave_out("")
    chaos.configure()
    torch.accelerator.synchronize(NEAR)


def values(count=LARGE):
    return torch.arange(float(count)) + 1


def fresh():
    """Other values at each call: memory that is read too early may hold those of the last."""
    fresh.number += 1
    return values(SMALL) + fresh.number


fresh.number = 0


@contextlib.contextmanager
def late_streams(times=1):
    """What the device's streams are given meanwhile begins late."""
    simulator.delay(times * lateness)
    yield
    simulator.delay(0)


def attempts():
    """Five, each with later streams than the one before: a busy machine may be late by itself."""
    global lateness
    try:
        for factor in (1, 2, 4, 8, 16):
            lateness = factor * LATE
            yield
    finally:
        lateness = LATE


def settle():
    """Waits until nobody needs what was dropped."""
    gc.collect()
    torch_pjrt.sync()
    torch.accelerator.synchronize(NEAR)
    deadline = time.monotonic() + 10
    while count("export.live") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _C.drain_reclaimer()

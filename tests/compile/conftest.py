import pytest
import torch


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    torch._dynamo.reset()
    torch.manual_seed(0)

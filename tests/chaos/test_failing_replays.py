"""A replayed program of torch.compile fails: the error arrives, and the next call is right."""

import torch

from chaos_support import TESTS, environment
from subprocess_support import output_of


def function(x, y):
    x.add_(1)
    return x * y + torch.rand_like(y)


PROGRAM = """
import sys
import torch, torch_pjrt
sys.path[:0] = [TESTS, TESTS + "/chaos"]
from chaos_support import Chaos
from test_failing_replays import function

chaos = Chaos()
counted = lambda name: torch_pjrt.metrics.snapshot().get(name, 0)

run = torch.compile(function, backend="pjrt", fullgraph=True)
x, y = torch.zeros(300, device="xla"), torch.full((300,), 2.0, device="xla")
for _ in range(4):
    run(x, y)
assert counted("execute.replays") == 2
torch_pjrt.sync()

# What passes: the second attempt succeeds, and draws the same numbers; the error comes with a read.
state = torch.xla.get_rng_state()
twin, drawn = x.clone(), run(x.clone(), y).cpu()
torch.xla.set_rng_state(state)
chaos.configure("fail=PJRT_LoadedExecutable_Execute:1:INTERNAL")
result = run(x, y)
assert chaos.count("failures") == 1
chaos.configure()
try:
    result.cpu()
    raise SystemExit("no error")
except RuntimeError as error:
    assert "INTERNAL: chaos: call 1 of PJRT_LoadedExecutable_Execute" in str(error), error
assert torch.equal(result.cpu(), drawn) and x[0].item() == 5
after = torch.xla.get_rng_state()

# What does not: it is recorded, which tells the values that are lost; numbers are drawn once.
for donate in (True, False):
    torch_pjrt.config.donate = donate
    x.fill_(7)
    run(x, y), run(x, y), run(x, y)
    x.fill_(7)
    torch_pjrt.sync()
    torch.xla.set_rng_state(state)
    chaos.configure("fail=PJRT_LoadedExecutable_Execute:1+:INTERNAL")
    result = run(x, y)
    try:
        result.cpu()
        raise SystemExit("no error")
    except RuntimeError as error:
        assert "PJRT_LoadedExecutable_Execute" in str(error), error
        line = function.__code__.co_firstlineno + 2  # of the user, not of the graph's code
        assert f"aten::add, called at {function.__code__.co_filename}:{line}" in str(error), error
    assert torch.equal(torch.xla.get_rng_state(), after)
    chaos.configure()
    x.copy_(twin)
    torch.xla.set_rng_state(state)
    assert torch.equal(run(x, y).cpu(), drawn)
    before = counted("execute.replays")
    assert run(x, y).shape == (300,) and x[0].item() == 6
    assert counted("execute.replays") == before + 1
"""


def test_the_error_arrives_and_the_next_call_is_right():
    output_of(f"TESTS = {TESTS!r}\n" + PROGRAM, **environment())

"""Every PJRT call of a training step fails once: the error arrives, and the next step is right."""

import pytest

from chaos_support import TESTS, environment
from subprocess_support import output_of

# A step that uses all ways in and out: small and large sources, dense and strided, a scalar, a
# large result, an index check, and an optimizer that donates.
TRAINING = """
import copy, gc, sys, time
import torch, torch_pjrt
sys.path.insert(0, TESTS)
from chaos_support import Chaos

chaos = Chaos()
snapshot = torch_pjrt.metrics.snapshot
torch.manual_seed(0)
initial = torch.nn.Sequential(torch.nn.Linear(256, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
table = torch.randn(10, 256)
dense, strided = torch.randn(192, 256), torch.randn(256, 192).t()[:, ::1]
indices, target = torch.arange(192) % 10, torch.randn(192, 4)

class Training:
    def __init__(self, device):
        self.device = device
        self.net = copy.deepcopy(initial).to(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)

    def step(self):
        to = lambda t: t.to(self.device)
        x = to(dense) + to(strided) + torch.nn.functional.embedding(to(indices), to(table))
        y = self.net(x)
        loss = ((y - to(target)) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item(), x.cpu()

    def state(self):
        return [p.detach().cpu() for p in self.net.parameters()]

    def set_state(self, values, momenta):
        with torch.no_grad():
            for p, value, momentum in zip(self.net.parameters(), values, momenta):
                p.copy_(value)
                self.optimizer.state[p]["momentum_buffer"] = momentum.to(self.device)

reference = Training("cpu")
reference.step()
after_one = copy.deepcopy(reference.state())
momenta = [s["momentum_buffer"].clone() for s in reference.optimizer.state.values()]
expected_loss, expected_x = reference.step()
after_two = copy.deepcopy(reference.state())

def close(a, b):
    return all(torch.allclose(x, y, rtol=1e-4, atol=1e-5) for x, y in zip(a, b))

def same_result(result):
    return abs(result[0] - expected_loss) < 1e-4 and close([result[1]], [expected_x])

def settle():
    gc.collect()
    torch_pjrt.sync()
    figures = lambda: (chaos.count("buffers_alive"), chaos.count("events_alive"),
                       chaos.count("errors_alive"), snapshot()["pjrt.live_buffers"],
                       snapshot()["pool.bytes_in_use"])
    before = None
    for _ in range(100):
        now = figures()
        if now == before:
            return now
        before = now
        time.sleep(0.002)
    return now

def warned():
    # Errors in destructors: counted, and warned of, in the place of an exception.
    return snapshot().get("pjrt.destructor_errors", 0)

def run_with(rule):
    training = Training("xla")
    training.step()
    warned_before = warned()
    chaos.configure(f"{base};fail={rule}")
    error = None
    try:
        result = training.step()
    except Exception as caught:
        error = f"{type(caught).__name__}: {caught}"
        result = None
    failures = chaos.count("failures")
    chaos.configure(base)
    if result is not None:
        assert same_result(result)
    # Each parameter has a value of one of the two steps, or says why it is lost.
    for p, one, two in zip(training.net.parameters(), after_one, after_two):
        try:
            value = p.detach().cpu()
        except RuntimeError as lost:
            assert "chaos: call" in str(lost), lost
        else:
            assert close([value], [one]) or close([value], [two]), "a wrong parameter"
    training.set_state(after_one, momenta)
    loss, x = training.step()
    assert same_result((loss, x)), "next step"
    assert close(training.state(), after_two), "next step"
    return failures, error, warned() - warned_before

chaos.configure(base)
for _ in range(3):
    run_with("PJRT_Client_Create:1:INTERNAL")  # is not called: this only warms up
training = Training("xla")
training.step()
chaos.configure(base)
training.step()
calls = chaos.calls()
del training
quiet = settle()
"""

EACH_CALL = """
GIVES_BACK = ("_Destroy", "_DecreaseExternalReferenceCount")
for function, count in sorted(calls.items()):
    if function in ("PJRT_Error_Destroy", "PJRT_Error_Message"):
        continue  # these cannot fail
    for number in range(1, count + 1):
        failures, error, warned_of = run_with(f"{function}:{number}:DATA_LOSS")
        assert settle() == quiet, (function, number, error, settle(), quiet)
        if failures == 0:
            continue  # one call fewer than in the first run
        if error is not None:
            assert f"of {function} fails" in error and "DATA_LOSS" in error, error
        else:
            assert warned_of, f"nobody was told of call {number} of {function}"
            assert function.endswith(GIVES_BACK), f"no exception: call {number} of {function}"
"""

FROM_A_CALL_ON = """
def fail_the_rest(function, call, code, exception):
    failures, error, _ = run_with(f"{function}:{call}+:{code}")
    assert settle() == quiet, (function, error, settle(), quiet)
    if failures and "Decrease" not in function:
        assert error and error.startswith(f"{exception}: "), (function, error)
        assert f"of {function} fails" in error and code in error, error

for function, count in sorted(calls.items()):
    if not function.startswith("PJRT_Error") and not function.endswith("_Destroy"):
        fail_the_rest(function, (count + 1) // 2, "UNAVAILABLE", "RuntimeError")
fail_the_rest("PJRT_LoadedExecutable_Execute", 1, "INTERNAL", "RuntimeError")
fail_the_rest("PJRT_Client_BufferFromHostBuffer", 1, "RESOURCE_EXHAUSTED", "OutOfMemoryError")
fail_the_rest("PJRT_Client_BufferFromHostBuffer", 1, "UNIMPLEMENTED", "NotImplementedError")
"""


@pytest.mark.parametrize("base", ["", "aliasing=refused"])
def test_each_call_of_a_training_step_fails_once(base):
    program = f"TESTS = {TESTS!r}\nbase = {base!r}\n" + TRAINING + EACH_CALL
    output_of(program, **environment(base))


def test_functions_fail_for_the_rest_of_a_training_step():
    program = f"TESTS = {TESTS!r}\nbase = ''\n" + TRAINING + FROM_A_CALL_ON
    output_of(program, **environment())

"""The first call of the compiled transformer, forward and backward, in a process of its own.
bench/compile.py starts it.

    python bench/first_call_worker.py BACKEND

Prints seconds of the first and of the second call as JSON, by the clock and of the processor.
BACKEND is one that torch.compile knows, or "nothing": AOTAutograd's graphs, which are not run;
their results are empty tensors. Inductor runs on the CPU, the others on xla.
"""

import json
import sys
import time


def main(backend: str) -> None:
    import torch
    import torch._dynamo

    import torch_pjrt  # noqa: F401
    from workloads import transformer_torch

    torch.ones(2, device="xla").cpu()  # the client is there
    device = torch.device("cpu" if backend == "inductor" else "xla")
    chosen = nothing() if backend == "nothing" else backend
    loss = transformer_torch.loss(device, backend=chosen)
    times = {}
    for call in ("first", "second"):
        start, processor_start = time.perf_counter(), processor_seconds()
        value = loss()
        value.backward()
        value.item()
        torch.xla.synchronize()
        times[call] = time.perf_counter() - start
        times[f"{call}, processor"] = processor_seconds() - processor_start
    print(json.dumps(times))


def processor_seconds() -> float:
    """Of this process and of those that it has waited for, such as compilers."""
    import os

    return sum(os.times()[:4])


def nothing():
    import torch
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    def empty(node):
        made = node.meta["val"]
        return torch.empty_strided(made.shape, made.stride(), dtype=made.dtype, device=made.device)

    def compile_nothing(graph, inputs):
        results = graph.graph.output_node().args[0]
        return make_boxed_func(lambda *_: [node and empty(node) for node in results])

    return aot_autograd(
        fw_compiler=compile_nothing, partition_fn=min_cut_rematerialization_partition
    )


if __name__ == "__main__":
    main(sys.argv[1])

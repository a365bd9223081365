"""Parts of a split graph that run on other devices than xla, compiled by Inductor."""

import contextlib
from collections.abc import Callable

from torch._dynamo.utils import detect_fake_mode
from torch._guards import TracingContext, tracing
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx


def compile_with_inductor(part: GraphModule) -> Callable[[list], object]:
    """The part as a function that empties the list of its arguments. Its results have the strides
    that its operators give them."""
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.exc import InductorError, InvalidCxxCompiler

    inputs = [node.meta["val"] for node in part.graph.nodes if node.op == "placeholder"]
    fake_mode = detect_fake_mode(inputs)
    # A context of its own: that of the whole graph tells of other arguments, and which of them
    # Inductor may overwrite.
    with tracing(TracingContext(fake_mode)):
        # What makes tensors from sizes alone sees no argument that says it is traced.
        with fake_mode or contextlib.nullcontext():
            decomposed = make_fx(part, decomposition_table=select_decomp_table())(*inputs)
        output = decomposed.graph.output_node()
        output.meta["user_visible_output_idxs"] = list(range(len(output.args[0])))
        try:
            return compile_fx_inner(decomposed, inputs)
        except (InductorError, InvalidCxxCompiler) as error:
            cause = getattr(error, "inner_exception", error)
            if not isinstance(cause, InvalidCxxCompiler):
                raise
            raise RuntimeError(
                "compile a part of a function with options={'inductor': True}: Inductor finds no "
                f"C++ compiler; got {config.cpp.cxx}, expected one that runs; install g++, or "
                "leave the option out"
            ) from error

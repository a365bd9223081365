"""The user's lines that the operators of AOTAutograd's graphs stand for, for errors."""

import functools
import re
import weakref
from collections.abc import Callable
from types import CodeType

import torch

# By the name that torch.fx gives the file of each one's code.
_graphs: "weakref.WeakValueDictionary[str, torch.fx.GraphModule]" = weakref.WeakValueDictionary()


def in_words(node: torch.fx.Node) -> str:
    """As ' (File "file.py", line 12, in function: its text)'; empty where that is not known."""
    place = _last_place(node)
    return f" ({': '.join(place)})" if place else ""


def _last_place(node: torch.fx.Node) -> list[str]:
    lines = [line.strip() for line in (node.stack_trace or "").splitlines() if line.strip()]
    places = [i for i, line in enumerate(lines) if re.match('File "(?!<eval_with_key>)', line)]
    return lines[places[-1] : places[-1] + 2] if places else []


def naming(graph_module: torch.fx.GraphModule) -> Callable[[list], object]:
    """The graph as a function whose errors name the operator and the user's line. Errors that come
    later find them by `of_code`."""
    assert graph_module.code  # a lazy one is compiled now
    forward = graph_module.forward
    code = forward.__code__
    _graphs[code.co_filename] = graph_module

    @functools.wraps(forward)
    def call(arguments: list) -> object:
        try:
            return forward(arguments)
        except Exception as error:
            _add_note(error, code)
            raise

    return call


def of_code(code: CodeType, line: int) -> str:
    """The user's line for one of a graph's code, as "file.py:12"; empty for other code."""
    node = _node_at(code, line)
    if node is None:
        return ""
    found = re.match(r'File "(.*)", line (\d+)', "".join(_last_place(node)[:1]))
    return ":".join(found.groups()) if found else ""


def _node_at(code: CodeType, line: int) -> torch.fx.Node | None:
    graph_module = _graphs.get(code.co_filename)
    if graph_module is None:
        return None
    lines = graph_module.code.splitlines()
    if not 0 < line <= len(lines):
        return None
    name = re.match(r"\s*(\w*)", lines[line - 1]).group(1)
    return next((node for node in graph_module.graph.nodes if node.name == name), None)


def _add_note(error: Exception, code: CodeType) -> None:
    if not hasattr(error, "add_note"):  # before Python 3.11
        return
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is code:
            node = _node_at(code, trace.tb_lineno)
            if node is not None:
                error.add_note(f"raised by {node.target}{in_words(node)}")
            return
        trace = trace.tb_next

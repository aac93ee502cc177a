"""Names that people bring from NumPy, torch and TVM, and what is written for them here."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any

from loopir.ir.dtypes import BY_NAME

_NO_ELEMENTS = "it has no elements until its kernel is called: lp.Schedule(x).build()"
_CONVERT = '.astype("float32") converts'
_NAME_OF_LOOP = 'a step of a Schedule takes the name of a loop: s.split("i", 4)'
METHODS = {
    "view": ".reshape changes the shape", "permute": ".transpose takes an order of dimensions",
    "unsqueeze": "lp.expand_dims(x, axis) or x[:, None] adds a dimension", "size": ".shape has the sizes",
    "dim": ".ndim is the number of dimensions", "to": _CONVERT, "type": _CONVERT, "float": _CONVERT, "half": _CONVERT,
    "int": _CONVERT, "numpy": _NO_ELEMENTS, "item": _NO_ELEMENTS, "tolist": _NO_ELEMENTS, "detach": _NO_ELEMENTS,
    "cpu": 'lp.Schedule(x).build("llvm") is for the CPU', "cuda": 'lp.Schedule(x).build("cuda") is for the GPU',
    "compute": _NO_ELEMENTS, "realize": _NO_ELEMENTS, "backward": "gradients come from torch: docs/pytorch.md",
    "op": _NAME_OF_LOOP, "axis": _NAME_OF_LOOP, "copy": "an expression never changes, so it needs no copy",
    "contiguous": "arrays are contiguous as they are", "fill": "lp.full makes a constant tensor",
}  # fmt: skip
"""What is written in place of a method of another library's arrays."""
FUNCTIONS = {
    "cat": "lp.concatenate joins tensors", "concat": "lp.concatenate joins tensors",
    "hstack": "lp.concatenate joins tensors", "vstack": "lp.concatenate joins tensors",
    "array": "lp.placeholder declares an input, and the call takes its array",
    "asarray": "lp.placeholder declares an input, and the call takes its array",
    "permute": "lp.transpose takes an order of dimensions", "unsqueeze": "lp.expand_dims adds a dimension",
    "create_schedule": "lp.Schedule(C) makes one", "te": "lp.placeholder and lp.compute are in lp itself",
    "compile": "lp.Schedule(C).build() compiles", "linear": "write x @ w.T + b",
    "bmm": "lp.matmul takes batches", "mm": "lp.matmul multiplies", "if_then_else": "lp.where chooses",
    "size_var": "lp.symbol makes a size", "amax": "lp.max does this", "amin": "lp.min does this",
    "absolute": "lp.abs does this", "power": "write x ** y", "true_divide": "write x / y",
}  # fmt: skip
"""What is written in place of a function of another library."""

KEYWORDS = {
    "dim": "axis", "dims": "axis", "axes": "axis", "keepdim": "keepdims", "input": "x", "a": "x",
    "unbiased": "correction", "ddof": "correction", "dtype": "accum_dtype", "arrays": "tensors", "other": "b",
    "pad_width": "widths", "constant_values": "value",
}  # fmt: skip
"""The keywords of NumPy and torch, and what an argument of that kind is called here."""


def answer_keywords(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which answers keywords that it does not have with those that it has."""
    parameters = signature(function).parameters
    named = [p.name for p in parameters.values() if p.kind is not p.VAR_POSITIONAL and p.name != "self"]
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return function

    @wraps(function)
    def answering(*args: Any, **kwargs: Any) -> Any:
        if kwargs and (other := [k for k in kwargs if k not in parameters]):
            ours = KEYWORDS.get(other[0], "")
            cure = f"{ours}= is it here" if ours in named else f"it takes {', '.join(named)}"
            raise TypeError(f"{function.__name__} has no {other[0]}=; {cure}")
        return function(*args, **kwargs)

    return answering


def method_instead(name: str, functions: frozenset[str]) -> str:
    """What is written for `x.name` of a tensor, which has no such attribute; `functions` of lp take tensors."""
    if name in METHODS:
        return METHODS[name]
    if name in functions:
        return f"lp.{name} is a function: lp.{name}(x)"
    return function_instead(name) or _close(name, functions)


def function_instead(name: str) -> str:
    """What is written for `lp.name`, which lp does not have; empty if nothing is known of that name."""
    if name in BY_NAME:
        return f'a type is named by a string: "{name}"'
    return FUNCTIONS.get(name, "")


def _close(name: str, functions: frozenset[str]) -> str:
    close = get_close_matches(name, functions, n=2)
    return f"did you mean lp.{' or lp.'.join(close)}?" if close else "see dir(lp.Tensor) and dir(lp)"

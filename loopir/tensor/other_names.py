"""Names that people bring from NumPy, torch and TVM, and what is written for them here."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any

from loopir.ir.arguments import answer_arguments
from loopir.ir.dtypes import BY_NAME

_NO_ELEMENTS = "it has no elements until its kernel is called: lp.Schedule(x).build()"
_CONVERT = '.astype("float32") converts'
_DECLARE = "lp.placeholder declares an input, and the call takes its array"
_AUTO = 'schedules.auto(lp.Schedule(C), "llvm") chooses a schedule, after from loopir import schedules'
_SCHEDULE, _COMPILE = "lp.Schedule(C) makes one", "lp.Schedule(C).build() compiles"
_OF_ELEMENTS = "its size depends on the elements, and that of a kernel's result does not: lp.where keeps the shape"
_NO_COMPLEX = "there are no complex numbers: take a tensor of real parts and one of imaginary ones"
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
    **dict.fromkeys(("cat", "concat"), "lp.concatenate joins tensors"), "row_stack": "lp.vstack joins rows",
    **dict.fromkeys(("array", "asarray", "from_numpy", "fromiter"), _DECLARE),
    **dict.fromkeys(("permute", "permute_dims", "rollaxis"), "lp.transpose takes an order of dimensions"),
    "unsqueeze": "lp.expand_dims adds a dimension", "matrix_transpose": "lp.swapaxes(x, -1, -2) does this",
    "movedim": "lp.moveaxis does this", "swapdims": "lp.swapaxes does this", "flatten": "lp.ravel does this",
    "create_schedule": _SCHEDULE,
    "te": "lp.placeholder and lp.compute are in lp itself",
    "compile": _COMPILE,
    **dict.fromkeys(("auto", "autoschedule", "auto_schedule", "optimize"), _AUTO),
    **dict.fromkeys(("tune", "autotune"), 'schedules.tune(lp.Schedule(C), "llvm") chooses by measuring'),
    "linear": "write x @ w.T + b",
    "bmm": "lp.matmul takes batches", "mm": "lp.matmul multiplies", "mv": "lp.matmul multiplies",
    "matvec": "lp.matmul multiplies", "vecmat": "lp.matmul multiplies", "addmm": "write c + a @ b",
    "if_then_else": "lp.where chooses", "masked_fill": "lp.where(mask, value, x) does this",
    "fill_diagonal": "lp.where(lp.eye(n, dtype=\"bool\"), value, x) makes a new tensor",
    "size_var": "lp.symbol makes a size", "amax": "lp.max does this", "amin": "lp.min does this",
    **dict.fromkeys(("absolute", "fabs"), "lp.abs does this"), "power": "write x ** y", "positive": "write x",
    **dict.fromkeys(("true_divide", "divide", "div"), "write x / y"),
    **dict.fromkeys(("subtract", "sub"), "write x - y"),
    "add": "write x + y", **dict.fromkeys(("multiply", "mul"), "write x * y"), "divmod": "divmod(x, y) is Python's",
    **dict.fromkeys(("equal", "eq"), "write x == y"), **dict.fromkeys(("not_equal", "ne"), "write x != y"),
    **dict.fromkeys(("less", "lt"), "write x < y"), **dict.fromkeys(("less_equal", "le"), "write x <= y"),
    **dict.fromkeys(("greater", "gt"), "write x > y"), **dict.fromkeys(("greater_equal", "ge"), "write x >= y"),
    "bitwise_and": "write x & y", "bitwise_or": "write x | y", "bitwise_xor": "write x ^ y",
    **dict.fromkeys(("bitwise_not", "bitwise_invert", "invert"), "write ~x"),
    **dict.fromkeys(("left_shift", "bitwise_left_shift"), "write x << y"),
    **dict.fromkeys(("right_shift", "bitwise_right_shift"), "write x >> y"),
    **{f"arc{name}": f"lp.a{name} does this" for name in ("sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh")},
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max"), "lp.clip does this"), "frac": "lp.modf gives it",
    "cumulative_sum": "lp.cumsum does this", "cumulative_prod": "lp.cumprod does this",
    **dict.fromkeys(("chunk", "tensor_split"), "lp.array_split cuts a tensor"), "unbind": "lp.unstack does this",
    "index_select": "lp.take takes an axis", "gather": "lp.take_along_axis does this", "embedding": "write weight[ids]",
    **dict.fromkeys(("scatter", "index_put", "put"), "lp.put_along_axis makes a new tensor, lp.scatter_add adds"),
    **dict.fromkeys(("delete", "insert"), "lp.concatenate of slices makes a new tensor"),
    **dict.fromkeys(("empty", "empty_like"), "lp.zeros makes a tensor, which costs nothing until it is stored"),
    **dict.fromkeys(("partition", "argpartition"), "lp.topk selects, lp.sort puts all in order"),
    "lexsort": "lp.argsort is stable: sort by the last key first", "fromfunction": "lp.compute does this",
    **dict.fromkeys(("nonzero", "argwhere", "flatnonzero", "unique", "compress", "masked_select"), _OF_ELEMENTS),
    **dict.fromkeys(
        ("linalg", "nn", "random", "special", "signal"),
        "its functions are in lp itself: lp.norm, lp.softmax, lp.rand, lp.erfc",
    ),
    **dict.fromkeys(("svd", "qr", "eig", "eigh", "lstsq", "pinv"), "lp.cholesky factors, and lp.solve solves"),
    **dict.fromkeys(("real", "imag", "conj", "conjugate", "angle", "iscomplex", "isreal"), _NO_COMPLEX),
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values"), _OF_ELEMENTS),
    **dict.fromkeys(("union1d", "intersect1d", "setdiff1d", "setxor1d", "trim_zeros"), _OF_ELEMENTS),
    **dict.fromkeys(("putmask", "place", "copyto"), "lp.where(mask, value, x) makes a new tensor"),
    **dict.fromkeys(("shape", "ndim"), "write x.shape, x.ndim"), "size": "the size of a dimension is x.shape[0]",
    "astype": 'write x.astype("float32")', "around": "lp.round does this", "copy": METHODS["copy"],
    "choose": "lp.select takes conditions and tensors", "piecewise": "lp.select takes conditions and tensors",
    "array_equiv": "lp.array_equal does this", "indices": "lp.arange and lp.meshgrid make them",
    "resize": ".reshape changes the shape, lp.tile repeats",
    **dict.fromkeys(("tril_indices", "triu_indices", "mask_indices"), "lp.tril and lp.triu keep a triangle"),
    "diag_indices": "lp.diagonal takes the elements", "ix_": "write x[rows[:, None], columns]",
    "polymul": "lp.convolve does this", "polyadd": "write x + y", "polysub": "write x - y",
    "polyfit": "lp.solve(v.T @ v, v.T @ y) of v = lp.vander(x, degree + 1)", "poly1d": "lp.polyval evaluates",
    "histogram2d": "lp.bincount of row * columns + column counts", "histogram_bin_edges": "lp.histogram gives them",
    **dict.fromkeys(("ascontiguousarray", "asfortranarray", "asanyarray", "frombuffer"), _DECLARE),
    **dict.fromkeys(("apply_along_axis", "vectorize", "frompyfunc"), "lp.compute takes a function of the indices"),
    **dict.fromkeys(("isscalar", "iterable", "can_cast"), "an expression is a lp.Tensor, and x.dtype is its type"),
    **dict.fromkeys(("save", "savez", "savetxt", "loadtxt"), "NumPy's, of the arrays that a kernel gives"),
    **dict.fromkeys(("seterr", "errstate"), "build(checks=True) tells where the first nan is stored"),
    "fft": "the gallery of the docs has one, from lp.compute", "cross_entropy": "the gallery of the docs has one",
    "scaled_dot_product_attention": "write lp.softmax(q @ lp.swapaxes(k, -1, -2) * scale) @ v",
}  # fmt: skip
"""What is written in place of a function of another library."""
MODULES = {"tensor": _DECLARE, "schedule": _SCHEDULE, "build": _COMPILE, "show": "s.show() prints a Schedule s"}
"""What is written in place of a call of a module of ours, which others have as a function."""

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
        return answer_arguments(function)
    checked = answer_arguments(function)

    @wraps(function)
    def answering(*args: Any, **kwargs: Any) -> Any:
        if kwargs and (other := [k for k in kwargs if k not in parameters]):
            ours = KEYWORDS.get(other[0], "")
            cure = f"{ours}= is it here" if ours in named else f"it takes {', '.join(named)}"
            raise TypeError(f"{function.__name__} has no {other[0]}=; {cure}")
        return checked(*args, **kwargs)

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

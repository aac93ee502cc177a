"""Work out what shapes are made of while a model is read: arithmetic on small arrays of integers and of sizes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loopir.frontend.onnx.node import Node
from loopir.frontend.onnx.reading import dtype_of
from loopir.frontend.onnx.values import MAX_FOLDED_ELEMENTS, Array, decided, is_symbolic, objects, simplified_array
from loopir.tensor.functions import maximum, minimum
from loopir.tensor.index import CondExpr, IndexExpr


def fold(n: Node) -> Array | None:
    """The output of `n`, if all its inputs are small arrays that are known and it is one of those listed here."""
    fn = FOLDED.get(n.op)
    arrays = [x for x in n.inputs if isinstance(x, np.ndarray)]
    if fn is None or not arrays or len(arrays) < sum(x is not None for x in n.inputs):
        return None
    if any(x.size > MAX_FOLDED_ELEMENTS or x.dtype.kind not in "biuO" for x in arrays):
        return None
    if any(map(is_symbolic, arrays)):
        arrays = [x.astype(object) if x.dtype.kind in "iu" else x for x in arrays]
    made = fn(n, *arrays)
    return None if made is None else simplified_array(np.asarray(made))


def _each(fn: Callable[..., Any]) -> Callable[..., Array]:
    """`fn` of each pair of objects, broadcast."""

    def apply(*arrays: Array) -> Array:
        together = np.broadcast_arrays(*(np.asarray(a, object) for a in arrays))
        return objects([fn(*items) for items in zip(*(a.flat for a in together), strict=True)], together[0].shape)

    return apply


def _arithmetic(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda n, a, b: _each(fn)(a, b) if is_symbolic(a) else np.asarray(fn(a, b), a.dtype)


def _divide(n: Node, a: Array, b: Array) -> Array | None:
    if is_symbolic(a):
        return _each(lambda x, y: x // y)(a, b)
    if not np.all(b):
        return None
    quotient = np.abs(a.astype(object)) // np.abs(b.astype(object)) * np.sign(a) * np.sign(b)
    return quotient.astype(a.dtype)


def _compare(fn: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def row(n: Node, a: Array, b: Array) -> Array:
        if not is_symbolic(a):
            return np.asarray(fn(a, b))
        return _each(lambda x, y: decided(fn(x, y)) if isinstance(fn(x, y), CondExpr) else bool(fn(x, y)))(a, b)

    return row


def _fold_extreme(of_numbers: Any, of_sizes: Any) -> Callable[..., Any]:
    def one(a: Any, b: Any) -> Any:
        return of_sizes(a, b) if isinstance(a, IndexExpr) or isinstance(b, IndexExpr) else of_numbers(int(a), int(b))

    def row(n: Node, *arrays: Array) -> Any:
        made = arrays[0]
        for other in arrays[1:]:
            made = _each(one)(made, other)
        return made if is_symbolic(arrays[0]) else np.asarray(made).astype(arrays[0].dtype)

    return row


def _cast(n: Node, x: Array) -> Array | None:
    t = dtype_of(n.attr("to"), n.what)
    if is_symbolic(x):
        return x if t.is_integer else None
    return x.astype(t.numpy) if t.is_integer or t.name == "bool" else None


def _where(n: Node, c: Array, a: Array, b: Array) -> Array | None:
    return np.where(c, a, b) if c.dtype == bool else None


def _gather(n: Node, x: Array, at: Array) -> Array | None:
    if is_symbolic(at) or not x.ndim or at.dtype.kind == "O":
        return None
    at = at.astype(np.int64)
    axis = n.axis(x.ndim)
    return np.take(x, at, axis) if np.all((at >= -x.shape[axis]) & (at < x.shape[axis])) else None


def _gather_sizes(n: Node, x: Array, at: Array) -> Array | None:
    """Indices stay integers where sizes are picked by them."""
    index = n.inputs[1]
    return _gather(n, x, index if isinstance(index, np.ndarray) else at)


def _slice(n: Node, x: Array, *rest: Array) -> Array | None:
    if n.version < 10:
        cuts: list[Any] = [n.attr("starts"), n.attr("ends"), n.attr("axes"), None]
    else:
        given = [None if not n.has(k) else n.inputs[k] for k in range(1, 5)]
        if any(is_symbolic(g) for g in given):
            return None
        cuts = [None if g is None else [int(v) for v in np.asarray(g).reshape(-1)] for g in given]
    starts, ends, axes, steps = cuts
    axes = axes if axes is not None else list(range(len(starts)))
    cut: list[Any] = [slice(None)] * x.ndim
    for d, start, stop, step in zip(axes, starts, ends, steps or [1] * len(axes), strict=True):
        cut[d] = slice(start, stop if not (step < 0 and stop < -x.shape[d]) else None, step)
    return x[tuple(cut)]


def _reshaped(n: Node, x: Array, to: Any = None) -> Array | None:
    shape = n.attr("shape") if n.version < 5 else n.inputs[1]
    if shape is None or is_symbolic(shape):
        return None
    kept = [x.shape[d] if s == 0 and not n.attr("allowzero", 0) else int(s) for d, s in enumerate(np.asarray(shape))]
    return x.reshape(kept)


def _given_axes(n: Node) -> list[int] | None:
    if n.version < 13 or "axes" in n.attributes:
        return n.attr("axes")
    given = n.inputs[1] if n.has(1) else None
    return None if given is None else [int(a) for a in np.asarray(given).reshape(-1)]


def _squeeze(n: Node, x: Array, *_: Array) -> Array:
    axes = _given_axes(n)
    return np.squeeze(x) if axes is None else np.squeeze(x, tuple(axes))


def _unsqueeze(n: Node, x: Array, *_: Array) -> Array:
    return np.expand_dims(x, tuple(_given_axes(n) or ()))


def _fold_list(fn: Callable[[Any, Any], Any], start: int) -> Callable[..., Any]:
    """A fold of a list of sizes, all of it."""

    def row(n: Node, x: Array, *_: Array) -> Array | None:
        if x.ndim != 1 or (n.attr("noop_with_empty_axes", 0) and _reduced_axes(n) is None):
            return None
        total: Any = start
        for item in x:
            total = fn(total, item)
        made = objects([total], (1,) if n.attr("keepdims", 1) else ())
        return made if is_symbolic(x) else made.astype(x.dtype)

    return row


def _reduced_axes(n: Node) -> Any:
    return n.attr("axes") if "axes" in n.attributes else n.inputs[1] if n.has(1) else None


def _range(n: Node, start: Array, stop: Array, step: Array) -> Array | None:
    if any(is_symbolic(x) for x in (start, stop, step)) or not step.item():
        return None
    return np.arange(int(start), int(stop), int(step)).astype(start.dtype)


def _concat(n: Node, *arrays: Array) -> Array:
    return np.concatenate(arrays, n.attr("axis", 1))


def _transpose(n: Node, x: Array) -> Array:
    return np.transpose(x, n.attr("perm"))


FOLDED: dict[str, Callable[..., Any]] = {
    "Add": _arithmetic(lambda a, b: a + b), "Sub": _arithmetic(lambda a, b: a - b),
    "Mul": _arithmetic(lambda a, b: a * b), "Div": _divide, "Min": _fold_extreme(min, minimum),
    "Max": _fold_extreme(max, maximum), "Equal": _compare(lambda a, b: a == b), "Less": _compare(lambda a, b: a < b),
    "Greater": _compare(lambda a, b: a > b), "LessOrEqual": _compare(lambda a, b: a <= b),
    "GreaterOrEqual": _compare(lambda a, b: a >= b), "Not": lambda n, x: ~x, "And": lambda n, a, b: a & b,
    "Or": lambda n, a, b: a | b, "Identity": lambda n, x: x, "Cast": _cast, "Where": _where, "Gather": _gather_sizes,
    "Concat": _concat, "Slice": _slice, "Reshape": _reshaped, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze,
    "ReduceProd": _fold_list(lambda a, b: a * b, 1), "ReduceSum": _fold_list(lambda a, b: a + b, 0), "Range": _range,
    "Transpose": _transpose, "Neg": lambda n, x: -x,
}  # fmt: skip
"""How each is worked out with NumPy, the arrays being of Python objects if one of them has a size in it."""

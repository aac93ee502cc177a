"""Operators that ask for shapes, change them, join and cut: most are views."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from loopir.frontend.onnx.node import Node, operator
from loopir.frontend.onnx.reading import dtype_of
from loopir.frontend.onnx.values import Value, is_one, is_symbolic, sizes_array
from loopir.ir import dtypes
from loopir.tensor import functions as f, shapes
from loopir.tensor.creation import arange, full
from loopir.tensor.tensor import Tensor


def _shape(n: Node) -> list[Any]:
    value = n.value(0)
    return list(value.shape) if isinstance(value, np.ndarray | Tensor) else list(n.tensor(0).shape)


@operator("Shape")
def shape(n: Node) -> Value:
    return sizes_array(_shape(n)[slice(n.attr("start", 0), n.attr("end"))])


@operator("Size")
def size(n: Node) -> Value:
    return sizes_array([prod(_shape(n))]).reshape(())


@operator("Constant")
def constant_node(n: Node) -> Value:
    for name, t in (("value_float", np.float32), ("value_int", np.int64), ("value_floats", np.float32),
                    ("value_ints", np.int64)):  # fmt: skip
        if name in n.attributes:
            return np.array(n.attributes[name], t)
    if "value" in n.attributes:
        return n.attributes["value"]
    raise n.unsupported(f"a constant by {', '.join(n.attributes) or 'no attribute'}")


@operator("ConstantOfShape")
def constant_of_shape(n: Node) -> Value:
    value = n.attr("value", np.zeros(1, np.float32)).reshape(())
    sizes = n.sizes(0)
    if all(isinstance(s, int) for s in sizes) and prod(sizes) <= 64:
        return np.full(sizes, value)
    return full(sizes, f.cast(value, value.dtype), value.dtype)


@operator("Reshape")
def reshape(n: Node) -> Tensor:
    """0 is the size that stands there, unless `allowzero`; -1 is what is left."""
    x = n.tensor(0)
    to = n.attr("shape") if n.version < 5 else n.sizes(1)
    kept = not n.attr("allowzero", 0)
    sizes = [x.shape[d] if kept and isinstance(s, int) and s == 0 else s for d, s in enumerate(to)]
    if any(isinstance(s, int) and s == 0 for s in x.shape):  # what is left of nothing is nothing
        sizes = [0 if isinstance(s, int) and s == -1 else s for s in sizes]
    return x.reshape(sizes)


@operator("Flatten")
def flatten(n: Node) -> Tensor:
    x = n.tensor(0)
    at = n.attr("axis", 1)
    at = at + x.ndim if at < 0 else at
    return x.reshape((prod(x.shape[:at]), prod(x.shape[at:])))


@operator("Squeeze")
def squeeze(n: Node) -> Tensor:
    axes = n.ints_of(1, "axes", 13)
    return shapes.squeeze(n.tensor(0), None if axes is None else tuple(axes))


@operator("Unsqueeze")
def unsqueeze(n: Node) -> Tensor:
    return shapes.expand_dims(n.tensor(0), tuple(n.ints_of(1, "axes", 13) or ()))


@operator("Transpose")
def transpose(n: Node) -> Tensor:
    x = n.tensor(0)
    return x.transpose(tuple(n.attr("perm", range(x.ndim)[::-1]))) if x.ndim else x


@operator("Concat")
def concatenate(n: Node) -> Tensor:
    return f.concatenate(n.tensors(), n.attr("axis", 1))


@operator("Expand")
def expand(n: Node) -> Tensor:
    """Broadcasting both ways: a size of 1 in either is the other one's."""
    x, to = n.tensor(0), n.sizes(1)
    rank = max(x.ndim, len(to))
    ours, theirs = [1] * (rank - x.ndim) + list(x.shape), [1] * (rank - len(to)) + to
    return x.broadcast_to([a if is_one(b) else b for a, b in zip(ours, theirs, strict=True)])


@operator("Tile")
def tile(n: Node) -> Tensor:
    x = n.tensor(0)
    repeats = n.sizes(1)
    spread = x[tuple(k for _ in range(x.ndim) for k in (None, slice(None)))]
    wide = spread.broadcast_to([s for pair in zip(repeats, x.shape, strict=True) for s in pair])
    return wide.reshape([r * s for r, s in zip(repeats, x.shape, strict=True)])


@operator("Split")
def split_apart(n: Node) -> tuple[Tensor, ...]:
    """Into the sizes that are given, or into as many parts as there are outputs, the last one perhaps smaller."""
    x = n.tensor(0)
    axis = n.axis(x.ndim)
    sizes = n.ints_of(1, "split", 13)
    if sizes is None:
        count, whole = n.attr("num_outputs", n.outputs), x.shape[axis]
        if not isinstance(whole, int):
            return tuple(shapes.split(x, count, axis))
        width = -(-whole // count)
        sizes = [max(0, min(width, whole - k * width)) for k in range(count)]
    ends = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    before = (slice(None),) * axis
    if isinstance(x.shape[axis], int) and ends[-1] != x.shape[axis]:
        raise n.unsupported(f"parts of {sizes} of a dimension of {x.shape[axis]}; the model is not well-formed")
    return tuple(x[(*before, slice(a, b))] for a, b in pairwise(ends))


@operator("Slice")
def slice_(n: Node) -> Tensor:
    x = n.tensor(0)
    if n.version < 10:
        starts, ends, axes, steps = n.attr("starts"), n.attr("ends"), n.attr("axes"), None
    else:
        starts, ends = n.sizes(1), n.sizes(2)
        axes = n.ints(3) if n.has(3) else None
        steps = n.ints(4) if n.has(4) else None
    axes = list(range(len(starts))) if axes is None else axes
    cut: list[Any] = [slice(None)] * x.ndim
    for d, start, stop, step in zip(axes, starts, ends, steps or [1] * len(axes), strict=True):
        d = d % x.ndim
        cut[d] = _bounds(start, stop, step, x.shape[d])
    return x[tuple(cut)]


def _bounds(start: Any, stop: Any, step: int, size: Any) -> slice:
    """A slice as ONNX's: what lies far outside is the end, which a slice of Python's spells by None."""
    far = 1 << 30
    if isinstance(size, int) and isinstance(start, int) and isinstance(stop, int):
        low, high = (0, size) if step > 0 else (-1, size - 1)
        start, stop = (min(max(v + size if v < 0 else v, low), high) for v in (start, stop))
        return slice(start, None if stop < 0 else stop, step)
    whole = isinstance(stop, int) and (stop >= far or stop <= -far)
    first = isinstance(start, int) and (start >= far or start <= -far)
    return slice(None if first else start, None if whole else stop, step)


@operator("Range")
def range_(n: Node) -> Tensor:
    start, stop, step = (n.scalar(k) for k in range(3))
    t = dtypes.int64 if is_symbolic(n.known(0)) else dtypes.dtype(n.known(0).dtype)
    return arange(start, stop, step, t)


@operator("Trilu")
def triangle(n: Node) -> Tensor:
    x, k = n.tensor(0), int(n.scalar(1)) if n.has(1) else 0
    return shapes.triu(x, k) if n.attr("upper", 1) else shapes.tril(x, k)


@operator("EyeLike")
def eye(n: Node) -> Tensor:
    x, k = n.tensor(0), n.attr("k", 0)
    t = x.dtype if n.attr("dtype") is None else dtype_of(n.attr("dtype"), n.what)
    rows, columns = (arange(d) for d in x.shape)
    return (rows[:, None] + k == columns[None, :]).astype(t)


@operator("Pad")
def pad(n: Node) -> Tensor:
    """With a number, the nearest element, or elements mirrored; negative widths cut."""
    x, mode = n.tensor(0), n.attr("mode", "constant")
    widths = n.attr("pads") if n.version < 11 else n.ints(1)
    axes = [a % x.ndim for a in n.ints(3)] if n.has(3) else list(range(x.ndim))
    half = len(widths) // 2
    for d, before, after in zip(axes, widths[:half], widths[half:], strict=True):
        x = _padded(n, x, d, before, after, mode)
    return x


def _padded(n: Node, x: Tensor, d: int, before: int, after: int, mode: str) -> Tensor:
    whole = (slice(None),) * d
    if before < 0 or after < 0:
        x = x[(*whole, slice(max(0, -before), x.shape[d] - max(0, -after)))]
        before, after = max(0, before), max(0, after)
    if mode == "constant":
        value = n.scalar(2) if n.has(2) else n.attr("value", 0.0)
        value = value if x.dtype.is_float else bool(value) if x.dtype == dtypes.bool_ else int(value)
        return f.pad(x, [(before, after) if k == d else (0, 0) for k in range(x.ndim)], value)
    size = x.shape[d]
    if not isinstance(size, int):
        raise n.unsupported(f"mode={mode!r} of a size that is known only at the call")
    np_mode = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}.get(mode)
    if np_mode is None:
        raise n.unsupported(f"mode={mode!r}")
    places = np.pad(np.arange(size), (before, after), mode=np_mode)  # pyright: ignore[reportCallIssue, reportArgumentType]
    return f.take_from_start(x, n.reader.tensor(places, n.what), d)


@operator("DepthToSpace")
def depth_to_space(n: Node) -> Tensor:
    x, b = n.tensor(0), n.attr("blocksize")
    count, c, h, w = x.shape
    if n.attr("mode", "DCR") == "DCR":
        parts = x.reshape((count, b, b, c // (b * b), h, w)).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape((count, c // (b * b), b, b, h, w)).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape((count, c // (b * b), h * b, w * b))


@operator("SpaceToDepth")
def space_to_depth(n: Node) -> Tensor:
    x, b = n.tensor(0), n.attr("blocksize")
    count, c, h, w = x.shape
    order = (0, 3, 5, 1, 2, 4) if n.attr("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = x.reshape((count, c, h // b, b, w // b, b)).transpose(order)
    return parts.reshape((count, c * b * b, h // b, w // b))

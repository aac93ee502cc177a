"""Resize: each dimension in turn is a sum of elements at places, and with weights, that are worked out here."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np

from loopir.frontend.onnx.node import Node, operator
from loopir.frontend.onnx.values import Array
from loopir.tensor import functions as f
from loopir.tensor.grid_sampling import grid_sample
from loopir.tensor.tensor import Tensor

NEAREST = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5), "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor, "ceil": np.ceil,
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One dimension: its old size, the new one, and how many times as long it becomes."""

    old: int
    new: int
    scale: float


@operator("GridSample")
def sampled(n: Node) -> Tensor:
    names = {"linear": "bilinear", "cubic": "bicubic"}
    mode = str(n.attr("mode", "linear"))
    x, grid = n.tensor(0), n.tensor(1)
    if not x.dtype.is_float or (x.ndim > 4 and names.get(mode, mode) == "bicubic"):
        raise n.unsupported(f"mode={mode!r} of {x.dtype} in {x.ndim} dimensions")
    corners = bool(n.attr("align_corners", 0))
    return grid_sample(x, grid, names.get(mode, mode), n.attr("padding_mode", "zeros"), corners).astype(x.dtype)


@operator("Resize", "Upsample")
def resize(n: Node) -> Tensor:
    x = n.tensor(0)
    if n.attr("antialias", 0):
        raise n.unsupported("antialias")
    nearest = n.attr("mode", "nearest") == "nearest"
    if not nearest and not x.dtype.is_float:
        raise n.unsupported(f"means of {x.dtype}, whose rounding is not defined")
    made = x.astype("float32") if x.dtype.is_narrow and not nearest else x
    for d, line in sorted(_resized_dims(n, x).items(), key=lambda found: found[1].scale):  # the smallest steps between
        if line.new != line.old or line.scale != 1:
            made = _resampled(n, made, d, line)
    return made.astype(x.dtype)


def _resized_dims(n: Node, x: Tensor) -> dict[int, Line]:
    """The dimensions that are resized."""
    axes = [a % x.ndim for a in n.attr("axes") or range(x.ndim)]
    scales, sizes = _scales(n), n.sizes(3) if n.has(3) else []
    if len(scales or sizes) != len(axes):
        raise n.unsupported(f"{len(scales or sizes)} scales or sizes for {len(axes)} dimensions")
    given = dict(zip(axes, scales or sizes, strict=True))
    if scales:
        return {a: Line(d, floor(d * s), s) for a, s in given.items() if s != 1 for d in [_known_size(n, x.shape[a])]}
    policy = n.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        wanted = {a: (_known_size(n, x.shape[a]), _known_size(n, new))
                  for a, new in given.items() if str(new) != str(x.shape[a])}  # fmt: skip
        return {a: Line(d, new, new / d) for a, (d, new) in wanted.items()}
    old = {a: _known_size(n, x.shape[a]) for a in axes}
    scale = {"not_larger": min, "not_smaller": max}[policy](_known_size(n, given[a]) / d for a, d in old.items())
    return {a: Line(d, floor(d * scale + 0.5), scale) for a, d in old.items()}


def _known_size(n: Node, d: Any) -> int:
    if not isinstance(d, int):
        raise n.unsupported("a size that is known only at the call")
    return d


def _scales(n: Node) -> list[float]:
    """What each dimension is multiplied by; empty where sizes are given."""
    if n.op == "Upsample" and "scales" in n.attributes:
        return [float(s) for s in n.attr("scales")]
    at = 2 if n.op == "Resize" and n.version >= 11 else 1
    return n.known(at).astype(np.float64).reshape(-1).tolist() if n.has(at) else []


def _source_positions(n: Node, line: Line) -> Array:
    """Where each new element lies among the old ones."""
    i = np.arange(line.new, dtype=np.float64)
    usual = "half_pixel" if n.op == "Resize" and n.version >= 11 else "asymmetric"
    match n.attr("coordinate_transformation_mode", usual):
        case "asymmetric":
            return i / line.scale
        case "half_pixel":
            return (i + 0.5) / line.scale - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / line.scale - 0.5 if line.new > 1 else i * 0
        case "align_corners":
            exact = line.scale * line.old
            return i * (line.old - 1) / (exact - 1) if exact != 1 else i * 0
        case "half_pixel_symmetric":
            left = line.old / 2 * (1 - line.new / (line.scale * line.old))
            return left + (i + 0.5) / line.scale - 0.5
        case other:
            raise n.unsupported(f"coordinate_transformation_mode={other!r}")


def _taps(n: Node, line: Line) -> list[tuple[Array, Array]]:
    """For each term of a sum, where its element is, and its weight, for every new element."""
    places = _source_positions(n, line)
    before = np.floor(places)
    r = places - before
    match n.attr("mode", "nearest"):
        case "nearest":
            rule = n.attr("nearest_mode", "round_prefer_floor" if n.op == "Resize" and n.version >= 11 else "floor")
            return [(_clamped(NEAREST[rule](places), line), r * 0 + 1)]
        case "linear":
            offsets, weights = (0, 1), [1 - r, r]
        case "cubic":
            a = float(n.attr("cubic_coeff_a", -0.75))
            near = [((a + 2) * t - (a + 3)) * t * t + 1 for t in (r, 1 - r)]
            far = [((a * t - 5 * a) * t + 8 * a) * t - 4 * a for t in (r + 1, 2 - r)]
            offsets, weights = (-1, 0, 1, 2), [far[0], near[0], near[1], far[1]]
        case other:
            raise n.unsupported(f"mode={other!r}")
    at = [before + k for k in offsets]
    if n.attr("exclude_outside", 0):
        weights = [np.where((p >= 0) & (p < line.old), w, 0) for p, w in zip(at, weights, strict=True)]
        total = sum(weights)
        weights = [w / total for w in weights]
    return [(_clamped(p, line), w) for p, w in zip(at, weights, strict=True)]


def _clamped(places: Array, line: Line) -> Array:
    """The nearest element that there is."""
    return np.clip(places, 0, line.old - 1).astype(np.int64)


def _resampled(n: Node, x: Tensor, d: int, line: Line) -> Tensor:
    """`x` with another size in dimension `d`."""
    made: Any = None
    for places, weights in _taps(n, line):
        taken = _gathered(n, x, d, places, line)
        if not (weights == 1).all():
            shape = [line.new if k == d else 1 for k in range(x.ndim)]
            share = n.reader.tensor(weights.astype(x.dtype.numpy).reshape(shape), "weights")
            taken = taken * share
        made = taken if made is None else made + taken
    return made.named("resized")


def _gathered(n: Node, x: Tensor, d: int, places: Array, line: Line) -> Tensor:
    """Elements of `x` along `d`: each some times in a row, or at places that are kept as a table."""
    times = line.new // line.old
    if line.new == times * line.old and (places == np.arange(line.new) // times).all():
        grown = f.broadcast_to(
            x[(*(slice(None),) * (d + 1), None)], (*x.shape[: d + 1], times, *x.shape[d + 1 :])
        )  # fmt: skip
        return grown.reshape((*x.shape[:d], line.new, *x.shape[d + 1 :]))
    return f.take(x, n.reader.tensor(places, "places"), d)

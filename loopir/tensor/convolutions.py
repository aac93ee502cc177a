"""Convolutions and pools over one to three dimensions, with torch's arguments and layouts: batch, channels, space.

Padding is stored, as every element of it is read by many; the sums accumulate narrow floats in float32.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd, prod
from operator import and_
from typing import Any

from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.ir.dtypes import DType, float32
from loopir.ir.ops import Intrinsic
from loopir.ir.values import Op
from loopir.tensor.core import as_expr, as_stage, cast, common_type, elementwise, stage_reduction, store
from loopir.tensor.functions import maximum, minimum, pad, sum as total, where
from loopir.tensor.index import reduce_axis
from loopir.tensor.reductions import stored_if_costly
from loopir.tensor.tensor import Tensor, compute, divide, real_type

__all__ = [
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "max_pool1d", "max_pool2d", "max_pool3d",
]  # fmt: skip

TF32 = "tf32", "tf32_below"
"""Functions of an element that say which units may multiply it."""
Several = int | Sequence[int]
"""A number for each dimension of space, or one for all."""


def _each(what: str, name: str, given: Any, rank: int, least: int) -> tuple[int, ...]:
    """`given` for each of `rank` dimensions."""
    found = tuple(given) if isinstance(given, tuple | list) else (given,) * rank
    if len(found) != rank or not all(isinstance(n, int) and not isinstance(n, bool) and n >= least for n in found):
        raise ExprError(f"{what}: {name}={given!r}; it is an integer of at least {least}, or {rank} of them")
    return found


def _images(what: str, x: Any, rank: int) -> Tensor:
    e = stage_reduction(as_expr(Tensor, x, None))
    if e.ndim != rank + 2:
        raise ExprError(f"{what} of {e.described()}: its dimensions are batch, channels and {rank} of space")
    return e


def _window_count(what: str, e: Tensor, d: int, size: Any, reach: int, stride: int) -> Any:
    """How many windows of `reach` elements lie in `size`; ExprError where it is known that none does."""
    if isinstance(size, int) and size < reach:
        raise ExprError(f"{what} of {e.described()}: a window of {reach} is larger than axis {d}, {size} with padding")
    return (size - reach) // stride + 1


def _bordered(e: Tensor, widths: Sequence[tuple[int, int]], value: float) -> Tensor:
    """`e` with a border in its dimensions of space, stored; without one before, if it is costly.

    What is made of sums, an element of each, is stored without a border, too: by what makes the sums, then.
    """
    e = stored_if_costly(e)
    if not any(map(any, widths)):
        return e
    if e.source is None and any(d.axes and tuple(n for _, n in d.loops) == e.dims for d in e.deps) and not store(e):
        e = as_stage(e, "t")
    return pad(e, [(0, 0), (0, 0), *widths], value).named("padded")


def _rounding(e: Tensor) -> Intrinsic | None:
    """The rounding that `e` ends with, which says in a product which units may multiply: what is stored of `e` is
    rounded once more there, which changes nothing."""
    last = e.element
    return last.fn if isinstance(last, Op) and last.fn.name in TF32 else None


def _work(t: DType) -> DType:
    return float32 if t.is_narrow else t


def _with_bias(what: str, made: Tensor, bias: Any, t: DType) -> Tensor:
    if bias is not None:
        b = as_expr(Tensor, bias, None)
        if b.ndim != 1:
            raise ExprError(f"{what}: the bias is {b.described()}; it has one dimension, the channels of the result")
        made = made + cast(b, made.dtype)[(None, slice(None), *(None,) * (made.ndim - 2))]
    return cast(made, t)


def _grouped(what: str, x: Tensor, w: Tensor, groups: Any, inputs: Any, outputs: Any) -> None:
    """Check that channels can be parted into `groups`."""
    if not isinstance(groups, int) or isinstance(groups, bool) or groups < 1:
        raise ExprError(f"{what}: groups={groups!r}; it is an integer of at least 1")
    for n in (inputs, outputs):
        if groups > 1 and (not isinstance(n, int) or n % groups):
            raise ExprError(f"{what} of {x.described()} by {w.described()}: {n!r} channels are no {groups} groups")


def _conv(
    rank: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Tensor:  # fmt: skip
    what = f"conv{rank}d"
    e, w = _images(what, x, rank), stage_reduction(as_expr(Tensor, weight, None))
    if w.ndim != rank + 2:
        raise ExprError(f"{what} by {w.described()}: filters have channels out, channels of a group, and {rank} sizes")
    steps, holes = _each(what, "stride", stride, rank, 1), _each(what, "dilation", dilation, rank, 1)
    _grouped(what, e, w, groups, e.shape[1], w.shape[0])
    own = w.shape[1]
    if not isinstance(own, int) or e.shape[1] != own * groups:
        raise ExprError(
            f"{what} of {e.described()} by {w.described()}: filters have the channels of one of {groups} groups of x"
        )
    kernel = w.shape[2:]
    if not all(isinstance(n, int) and n > 0 for n in kernel):
        raise ExprError(f"{what} by {w.described()}: the sizes of filters are numbers of at least 1")
    sizes: list[int] = [int(n) for n in kernel]  # pyright: ignore[reportArgumentType]
    reach = [d * (n - 1) + 1 for n, d in zip(sizes, holes, strict=True)]
    widths = _border(what, padding, rank, reach, steps)
    rounding = _rounding(e)
    p = _bordered(e, widths, 0)
    if rounding is not None and _rounding(p) is None:
        p = elementwise(Tensor, rounding, p)
    space = [_window_count(what, e, 2 + n, p.shape[2 + n], reach[n], steps[n]) for n in range(rank)]
    t = common_type((e, w))
    work, each = _work(t), w.shape[0] // groups if groups > 1 else 0
    z, inner = reduce_axis(own, name="c"), [reduce_axis(n, name=v) for n, v in zip(sizes, "uvw", strict=False)]

    def element(b: Any, o: Any, *at: Any) -> Any:
        channel = z if groups == 1 else o // each * own + z
        where_ = [i * s + u * d for i, s, u, d in zip(at, steps, inner, holes, strict=True)]
        return total(cast(p[(b, channel, *where_)], work) * cast(w[(o, z, *inner)], work), axis=(z, *inner),
                     accum_dtype=work)  # fmt: skip

    return _with_bias(what, compute((e.shape[0], w.shape[0], *space), element, name="conv"), bias, t)


def _border(
    what: str, padding: Any, rank: int, reach: Sequence[int], steps: Sequence[int]
) -> list[tuple[int, int]]:  # fmt: skip
    if padding == "valid":
        return [(0, 0)] * rank
    if padding == "same":
        if any(n != 1 for n in steps):
            raise ExprError(f'{what}: padding="same" is for a stride of 1; give the padding as numbers')
        return [((r - 1) // 2, r // 2) for r in reach]
    if isinstance(padding, str):
        raise ExprError(f'{what}: padding={padding!r}; it is "valid", "same" or integers of at least 0')
    return [(n, n) for n in _each(what, "padding", padding, rank, 0)]


def _conv_transpose(
    rank: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: Any,
    dilation: Any,
) -> Tensor:  # fmt: skip
    what = f"conv_transpose{rank}d"
    e, w = _images(what, x, rank), stage_reduction(as_expr(Tensor, weight, None))
    if w.ndim != rank + 2:
        raise ExprError(f"{what} by {w.described()}: filters have channels in, those out of a group, and {rank} sizes")
    steps, holes = _each(what, "stride", stride, rank, 1), _each(what, "dilation", dilation, rank, 1)
    cut, more = _each(what, "padding", padding, rank, 0), _each(what, "output_padding", output_padding, rank, 0)
    if any(m >= max(s, d) for m, s, d in zip(more, steps, holes, strict=True)):
        raise ExprError(f"{what}: output_padding={output_padding!r}; it is less than the stride or the dilation")
    _grouped(what, e, w, groups, e.shape[1], 0)
    if e.dims[1] != w.dims[0]:
        raise ExprError(f"{what} of {e.described()} by {w.described()}: the first size of filters is the channels of x")
    sizes = w.shape[2:]
    channels, each = e.shape[1] // groups if groups > 1 else e.shape[1], w.shape[1]
    space = [(h - 1) * s - 2 * c + d * (r - 1) + m + 1
             for h, s, c, d, r, m in zip(e.shape[2:], steps, cut, holes, sizes, more, strict=True)]  # fmt: skip
    if any(isinstance(n, int) and n < 0 for n in space):
        raise ExprError(f"{what} of {e.described()}: padding={padding!r} cuts off more than there is")
    t = common_type((e, w))
    work = _work(t)
    z, inner = reduce_axis(channels, name="c"), [reduce_axis(n, name=v) for n, v in zip(sizes, "uvw", strict=False)]

    out = each if groups == 1 else each * groups
    ways = [
        _Phases.of(s, c, d, r, m)
        for s, c, d, r, m in zip(steps, cut, holes, sizes, more, strict=True)
        if isinstance(r, int) and gcd(s, d) == 1
    ]
    if len(ways) == rank:
        made = _by_phases(e, w, groups, channels, ways, space)
        return _with_bias(what, made, bias, t)

    def element(b: Any, o: Any, *at: Any) -> Any:
        """What was spread to here: for each place of the filter, the element whose share it is, if there is one."""
        far = [i + c - u * d for i, c, u, d in zip(at, cut, inner, holes, strict=True)]
        source = [f // s for f, s in zip(far, steps, strict=True)]
        there = None
        for f, q, s, h in zip(far, source, steps, e.shape[2:], strict=True):
            inside = (f >= 0) & (q < h)
            inside = inside & (f % s == 0) if s > 1 else inside
            there = inside if there is None else there & inside
        first = z if groups == 1 else o // each * channels + z
        product = cast(e[(b, first, *source)], work) * cast(w[(first, o if groups == 1 else o % each, *inner)], work)
        return total(where(there, product, 0), axis=(z, *inner), accum_dtype=work)

    return _with_bias(what, compute((e.shape[0], out, *space), element, name="conv"), bias, t)


@dataclass(frozen=True)
class _Phases:
    """How a transposed convolution goes along one dimension: places of the output that are `step` apart are reached by
    the same places of the filter, `taps` of them at most, from neighbouring elements of the input.

    Place `phase + q * step` is reached, by place `tap(phase, n)` of the filter, from element `q + start(phase) + n *
    hole` of the input with `border` elements before and after. There are `more` values of `q` than elements.
    """

    step: int
    cut: int
    hole: int
    size: int
    taps: int
    border: tuple[int, int]
    more: int

    @staticmethod
    def of(step: int, cut: int, hole: int, size: int, added: int) -> _Phases:
        """Of a stride, a padding, a dilation, a filter's size and an output padding."""
        taps = -(-size // step)
        way = _Phases(step, cut, hole, size, taps, (0, 0), -((step - 1 + 2 * cut - hole * (size - 1) - added) // step))
        starts = [way.start(n) for n in range(step)]
        return replace(way, border=(max(0, -min(starts)), max(0, way.more + max(starts) + (taps - 1) * hole)))

    def tap(self, phase: Any, n: Any) -> Any:
        return self._first(phase) + self.step * (self.taps - 1 - n)

    def start(self, phase: Any) -> Any:
        first = (phase + self.cut - self.hole * self._first(phase)) // self.step
        return first - self.hole * (self.taps - 1) + self.border[0]

    @property
    def whole(self) -> bool:
        """Whether all places of the output are reached by as many of the filter."""
        return self.size % self.step == 0

    def _first(self, phase: Any) -> Any:
        return (phase + self.cut) * pow(self.hole, -1, self.step) % self.step if self.step > 1 else 0


def _by_phases(
    e: Tensor, w: Tensor, groups: int, channels: Any, ways: Sequence[_Phases], space: Sequence[Any]
) -> Tensor:  # fmt: skip
    """A transposed convolution as convolutions, one for each phase of the stride, whose results alternate."""
    work, each = _work(common_type((e, w))), w.shape[1]
    grouped, out = groups > 1, each if groups == 1 else each * groups
    p = _bordered(e, [x.border for x in ways], 0)
    z, inner = reduce_axis(channels, name="c"), [reduce_axis(x.taps, name=v) for x, v in zip(ways, "uvw", strict=False)]
    cut = [x for x in ways if x.step > 1]

    def phases(given: Sequence[Any]) -> list[Any]:
        own = iter(given)
        return [next(own) if x.step > 1 else 0 for x in ways]

    def reached(at: Sequence[Any], taps: Sequence[Any]) -> Any:
        """Whether there are such places in the filter, where that is not known of all."""
        tests = [x.tap(a, n) < x.size for x, a, n in zip(ways, at, taps, strict=True) if not x.whole]
        return reduce(and_, tests) if tests else None

    def place(*given: Any) -> Any:
        at, (o, c, *taps) = phases(given[: len(cut)]), given[len(cut) :]
        first = o // each * channels + c if grouped else c
        there = reached(at, taps)
        value = w[(first, o % each if grouped else o, *(x.tap(a, n) for x, a, n in zip(ways, at, taps, strict=True)))]
        return value if there is None else where(there, value, 0)

    filters = compute((*(x.step for x in cut), out, channels, *(x.taps for x in ways)), place, name="filters")

    def element(*given: Any) -> Any:
        own, (b, o, *at) = given[: len(cut)], given[len(cut) :]
        first = o // each * channels + z if grouped else z
        source = [q + x.start(a) + n * x.hole for q, x, a, n in zip(at, ways, phases(own), inner, strict=True)]
        value, there = p[(b, first, *source)], reached(phases(own), inner)
        value = value if there is None else where(there, value, 0)  # which is not multiplied by 0 where it is infinite
        return total(cast(value, work) * cast(filters[(*own, o, z, *inner)], work), axis=(z, *inner), accum_dtype=work)

    counts = [h + x.more for h, x in zip(e.shape[2:], ways, strict=True)]
    conv = compute((*(x.step for x in cut), e.shape[0], out, *counts), element, name="conv")
    if not cut:
        return conv

    def alternating(b: Any, o: Any, *at: Any) -> Any:
        own = [i % x.step for i, x in zip(at, ways, strict=True) if x.step > 1]
        return conv[(*own, b, o, *(i // x.step if x.step > 1 else i for i, x in zip(at, ways, strict=True)))]

    return compute((e.shape[0], out, *space), alternating, name="alternating")


def _windows(what: str, x: Any, kernel_size: Any, stride: Any, padding: Any, rank: int) -> Any:
    """(x, sizes, steps, borders) of a pool."""
    e = _images(what, x, rank)
    sizes = _each(what, "kernel_size", kernel_size, rank, 1)
    steps = sizes if stride is None else _each(what, "stride", stride, rank, 1)
    border = _each(what, "padding", padding, rank, 0)
    if any(2 * p > n for p, n in zip(border, sizes, strict=True)):
        raise ExprError(f"{what}: padding={padding!r}; it is at most half of the kernel_size {kernel_size!r}")
    return e, sizes, steps, border


def _max_pool(rank: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any) -> Tensor:
    what = f"max_pool{rank}d"
    e, sizes, steps, border = _windows(what, x, kernel_size, stride, padding, rank)
    holes = _each(what, "dilation", dilation, rank, 1)
    if e.dtype == dtypes.bool_:
        raise ExprError(f"{what} of {e.described()}; convert bools to a type of numbers first")
    reach = [d * (n - 1) + 1 for n, d in zip(sizes, holes, strict=True)]
    p = _bordered(e, [(n, n) for n in border], _least(e.dtype))
    space = [_window_count(what, e, 2 + n, p.shape[2 + n], reach[n], steps[n]) for n in range(rank)]
    inner = [reduce_axis(n, name=v) for n, v in zip(sizes, "uvw", strict=False)]

    def element(b: Any, c: Any, *at: Any) -> Any:
        there = [i * s + u * d for i, s, u, d in zip(at, steps, inner, holes, strict=True)]
        return p[(b, c, *there)].max(axis=tuple(inner))

    return compute((*e.shape[:2], *space), element, name="max_pool")


def _least(t: DType) -> float:
    """What no element of `t` is below."""
    if t.is_float:
        return -float("inf") if t not in (dtypes.float8_e4m3fn,) else -448.0
    return 0 if t.kind == "uint" else -(1 << (t.bits - 1))


def _avg_pool(rank: int, x: Any, kernel_size: Any, stride: Any, padding: Any, count_include_pad: bool) -> Tensor:
    what = f"avg_pool{rank}d"
    e, sizes, steps, border = _windows(what, x, kernel_size, stride, padding, rank)
    t = real_type(e.dtype)
    work = _work(t)
    p = _bordered(e, [(n, n) for n in border], 0)
    space = [_window_count(what, e, 2 + n, p.shape[2 + n], sizes[n], steps[n]) for n in range(rank)]
    inner = [reduce_axis(n, name=v) for n, v in zip(sizes, "uvw", strict=False)]

    def element(b: Any, c: Any, *at: Any) -> Any:
        there = [i * s + u for i, s, u in zip(at, steps, inner, strict=True)]
        return total(cast(p[(b, c, *there)], work), axis=tuple(inner), accum_dtype=work)

    summed = compute((*e.shape[:2], *space), element, name="avg_pool")
    if count_include_pad or not any(border):
        return cast(divide(summed, as_expr(Tensor, float(prod(sizes)), work)), t)

    def counted(*at: Any) -> Any:
        number: Any = 1
        for i, s, n, q, h in zip(at, steps, sizes, border, e.shape[2:], strict=True):
            number = number * (minimum(i * s + (n - q), h) - maximum(i * s - q, 0))
        return cast(as_expr(Tensor, number, None), work)

    return cast(divide(summed, compute(space, counted, name="count")), t)


def conv1d(
    x: Any, weight: Any, bias: Any = None, stride: Several = 1, padding: Several | str = 0, dilation: Several = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The convolution of x[n, c, w] by weight[o, c / groups, r], as torch's."""
    return _conv(1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: Several = 1, padding: Several | str = 0, dilation: Several = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The convolution of x[n, c, h, w] by weight[o, c / groups, r, s], as torch's."""
    return _conv(2, x, weight, bias, stride, padding, dilation, groups)


def conv3d(
    x: Any, weight: Any, bias: Any = None, stride: Several = 1, padding: Several | str = 0, dilation: Several = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The convolution of x[n, c, d, h, w] by weight[o, c / groups, q, r, s], as torch's."""
    return _conv(3, x, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    x: Any, weight: Any, bias: Any = None, stride: Several = 1, padding: Several = 0, output_padding: Several = 0,
    groups: int = 1, dilation: Several = 1,
) -> Tensor:  # fmt: skip
    """The transposed convolution of x[n, c, w] by weight[c, o / groups, r], as torch's."""
    return _conv_transpose(1, x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    x: Any, weight: Any, bias: Any = None, stride: Several = 1, padding: Several = 0, output_padding: Several = 0,
    groups: int = 1, dilation: Several = 1,
) -> Tensor:  # fmt: skip
    """The transposed convolution of x[n, c, h, w] by weight[c, o / groups, r, s], as torch's."""
    return _conv_transpose(2, x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    x: Any, weight: Any, bias: Any = None, stride: Several = 1, padding: Several = 0, output_padding: Several = 0,
    groups: int = 1, dilation: Several = 1,
) -> Tensor:  # fmt: skip
    """The transposed convolution of x[n, c, d, h, w] by weight[c, o / groups, q, r, s], as torch's."""
    return _conv_transpose(3, x, weight, bias, stride, padding, output_padding, groups, dilation)


def max_pool1d(
    x: Any, kernel_size: Several, stride: Several | None = None, padding: Several = 0, dilation: Several = 1
) -> Tensor:
    """The largest element of each window of x[n, c, w], as torch's; without `stride`, windows side by side."""
    return _max_pool(1, x, kernel_size, stride, padding, dilation)


def max_pool2d(
    x: Any, kernel_size: Several, stride: Several | None = None, padding: Several = 0, dilation: Several = 1
) -> Tensor:
    """The largest element of each window of x[n, c, h, w], as torch's; without `stride`, windows side by side."""
    return _max_pool(2, x, kernel_size, stride, padding, dilation)


def max_pool3d(
    x: Any, kernel_size: Several, stride: Several | None = None, padding: Several = 0, dilation: Several = 1
) -> Tensor:
    """The largest element of each window of x[n, c, d, h, w], as torch's; without `stride`, windows side by side."""
    return _max_pool(3, x, kernel_size, stride, padding, dilation)


def avg_pool1d(
    x: Any, kernel_size: Several, stride: Several | None = None, padding: Several = 0, count_include_pad: bool = True
) -> Tensor:
    """The mean of each window of x[n, c, w], as torch's; the padding counts unless `count_include_pad` is False."""
    return _avg_pool(1, x, kernel_size, stride, padding, count_include_pad)


def avg_pool2d(
    x: Any, kernel_size: Several, stride: Several | None = None, padding: Several = 0, count_include_pad: bool = True
) -> Tensor:
    """The mean of each window of x[n, c, h, w], as torch's; the padding counts unless `count_include_pad` is False."""
    return _avg_pool(2, x, kernel_size, stride, padding, count_include_pad)


def avg_pool3d(
    x: Any, kernel_size: Several, stride: Several | None = None, padding: Several = 0, count_include_pad: bool = True
) -> Tensor:
    """The mean of each window of x[n, c, d, h, w], as torch's; the padding counts unless `count_include_pad` is
    False."""
    return _avg_pool(3, x, kernel_size, stride, padding, count_include_pad)

"""Random expressions over whole tensors, each beside what NumPy says: `exprs()`.

Everything holds by construction: shapes fit, no axis that is reduced by a maximum is empty, and numbers are whole, so
that the two agree to the bit.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import loopir.tensor as lp
from loopir.ir.dtypes import Array
from loopir.testing.generate.draws import between, choose

Reference = Callable[..., Array]
Dim = int | str
"""A number, or the name of a size."""


class Expr(NamedTuple):
    """An expression; its inputs, in the order in which a kernel takes them; and NumPy's word for it, a function of
    arrays for these."""

    tensor: lp.Tensor
    inputs: tuple[lp.Tensor, ...]
    reference: Reference


@st.composite
def exprs(draw: st.DrawFn, *, dtype: str = "int32", most: int = 5, largest: int = 5, symbolic: bool = True) -> Expr:
    """An expression of up to `most` operations over one or two inputs of up to two dimensions.

    Elementwise operations, division, comparisons, reductions along an axis, the place of the largest, products of
    matrices, also of one with itself, transposes, slices, padding, gathers, joins, stages in between. `dtype` is a type
    of signed integers, which wrap around and are widened as NumPy's are; the first dimension may be a symbolic size, 0
    included, called n, or as loops and dimensions often are. To run it:
    `lp.Schedule(e.tensor).build("interpret")(*arrays)`.
    """
    n = lp.symbol(choose(draw, ("n", "k", "x", "j")), min=0)
    rows: Dim = "n" if symbolic and draw(st.booleans()) else draw(between(1, largest))
    columns = draw(between(1, largest))
    shapes: list[tuple[Dim, ...]] = [(rows, columns), choose(draw, [(rows, columns), (columns,), (columns, rows)])]
    sized = [tuple(n if d == "n" else d for d in s) for s in shapes]
    inputs = tuple(lp.placeholder(s, dtype, name=name) for s, name in zip(sized, "AB", strict=True))
    terms = [_Term(t, s, _argument(k)) for k, (t, s) in enumerate(zip(inputs, shapes, strict=True))]
    made = _Terms(draw, terms)
    for _ in range(draw(between(1, most))):
        made.terms.append(made.next())
    last = made.terms[-1]
    both = last.tensor + made.everything(inputs)
    return Expr(both, inputs, lambda *arrays: last.value(*arrays) + sum(a.sum() for a in arrays))


def _argument(k: int) -> Reference:
    return lambda *arrays: arrays[k]


@dataclass(frozen=True)
class _Term:
    tensor: lp.Tensor
    shape: tuple[Dim, ...]
    value: Reference


@dataclass
class _Terms:
    """What there is to compute with, and how to draw the next of it."""

    draw: st.DrawFn
    terms: list[_Term]

    def everything(self, inputs: tuple[lp.Tensor, ...]) -> lp.Tensor:
        """A sum of all inputs, so that each is one."""
        first, second = (x.sum() for x in inputs)
        return first + second

    def pick(self, ok: Callable[[_Term], bool] = lambda t: True) -> _Term | None:
        found = [t for t in reversed(self.terms) if ok(t)]
        return choose(self.draw, found) if found else None

    def next(self) -> _Term:
        """An operation on some of the terms."""
        kinds = (
            self.scaled,
            self.both,
            self.selected,
            self.reduced,
            self.turned,
            self.sliced,
            self.padded,
            self.product,
            self.divided,
            self.gathered,
            self.joined,
            self.squared,
            self.stored,
        )
        return choose(self.draw, kinds)() or self.scaled()

    def scaled(self) -> _Term:
        t, c = choose(self.draw, self.terms[::-1]), self.draw(between(-3, 3))
        return _Term(t.tensor * c + 1, t.shape, lambda *a: t.value(*a) * c + 1)

    def both(self) -> _Term | None:
        t = choose(self.draw, self.terms[::-1])
        u = self.pick(lambda x: x.shape in (t.shape, t.shape[1:]))
        if u is None:
            return None
        word, ours = choose(self.draw, ((np.add, "__add__"), (np.multiply, "__mul__"), (np.maximum, "maximum")))
        made = lp.maximum(t.tensor, u.tensor) if ours == "maximum" else getattr(t.tensor, ours)(u.tensor)
        return _Term(made, t.shape, lambda *a: word(t.value(*a), u.value(*a)))

    def selected(self) -> _Term:
        t = choose(self.draw, self.terms[::-1])
        return _Term(lp.where(t.tensor > 0, t.tensor, -t.tensor), t.shape, lambda *a: np.abs(t.value(*a)))

    def reduced(self) -> _Term | None:
        t = self.pick(lambda t: bool(t.shape))
        if t is None:
            return None
        axis = self.draw(between(0, len(t.shape) - 1))
        left = (*t.shape[:axis], *t.shape[axis + 1 :])
        if isinstance(t.shape[axis], int) and t.shape[axis] and self.draw(st.booleans()):
            how = choose(self.draw, ("max", "min", "argmax"))
            return _Term(
                getattr(lp, how)(t.tensor, axis=axis), left, lambda *a: getattr(np, how)(t.value(*a), axis=axis)
            )
        return _Term(t.tensor.sum(axis=axis), left, lambda *a: t.value(*a).sum(axis=axis))

    def turned(self) -> _Term | None:
        t = self.pick(lambda t: len(t.shape) == 2)
        return None if t is None else _Term(t.tensor.T, t.shape[::-1], lambda *a: t.value(*a).T)

    def sliced(self) -> _Term | None:
        """One element less at either end, or turned round."""
        t = self.pick(lambda t: _length(t) > 1)
        if t is None:
            return None
        key = choose(self.draw, (slice(1, None), slice(None, -1), slice(None, None, -1)))
        length = len(range(_length(t))[key])
        return _Term(t.tensor[..., key], (*t.shape[:-1], length), lambda *a: t.value(*a)[..., key])

    def padded(self) -> _Term | None:
        t = self.pick(lambda t: _length(t) > 0)
        if t is None:
            return None
        widths = [(0, 0)] * (len(t.shape) - 1) + [(self.draw(between(0, 2)), self.draw(between(0, 2)))]
        shape = (*t.shape[:-1], _length(t) + sum(widths[-1]))
        return _Term(lp.pad(t.tensor, widths), shape, lambda *a: np.pad(t.value(*a), widths))

    def product(self) -> _Term | None:
        t = self.pick(lambda t: len(t.shape) == 2)
        u = None if t is None else self.pick(lambda u: len(u.shape) == 2 and u.shape[0] == t.shape[1])
        if t is None or u is None:
            return None
        return _Term(t.tensor @ u.tensor, (t.shape[0], u.shape[1]), lambda *a: t.value(*a) @ u.value(*a))

    def squared(self) -> _Term | None:
        """A product of a matrix and itself, turned round."""
        t = self.pick(lambda t: len(t.shape) == 2)
        if t is None:
            return None
        if self.draw(st.booleans()):
            return _Term(t.tensor @ t.tensor.T, (t.shape[0],) * 2, lambda *a: t.value(*a) @ t.value(*a).T)
        return _Term(t.tensor.T @ t.tensor, (t.shape[1],) * 2, lambda *a: t.value(*a).T @ t.value(*a))

    def divided(self) -> _Term:
        """By a number of either sign, rounded to minus infinity, or what is left then."""
        t, c = choose(self.draw, self.terms[::-1]), choose(self.draw, (2, 3, -2, 7, -5))
        if self.draw(st.booleans()):
            return _Term(t.tensor // c, t.shape, lambda *a: t.value(*a) // c)
        return _Term(t.tensor % c, t.shape, lambda *a: t.value(*a) % c)

    def gathered(self) -> _Term | None:
        """Rows or columns at places that are computed."""
        t = self.pick(lambda t: _length(t) > 0)
        places = self.pick(lambda u: len(u.shape) == 1)
        if t is None or places is None:
            return None
        last = _length(t) - 1
        made = lp.take(t.tensor, places.tensor, axis=len(t.shape) - 1)
        shape = (*t.shape[:-1], *places.shape)
        return _Term(made, shape, lambda *a: np.take(t.value(*a), _places_read(places.value(*a), last), axis=-1))

    def joined(self) -> _Term | None:
        """Two of one shape, one after the other or side by side."""
        t = self.pick(lambda t: _length(t) > 0)
        u = None if t is None else self.pick(lambda u: u.shape == t.shape)
        if t is None or u is None:
            return None
        if self.draw(st.booleans()):
            shape = (*t.shape[:-1], 2 * _length(t))
            made = lp.concatenate([t.tensor, u.tensor], axis=-1)
            return _Term(made, shape, lambda *a: np.concatenate([t.value(*a), u.value(*a)], axis=-1))
        made = lp.stack([t.tensor, u.tensor], axis=-1)
        return _Term(made, (*t.shape, 2), lambda *a: np.stack([t.value(*a), u.value(*a)], axis=-1))

    def stored(self) -> _Term:
        """The newest as a stage of its own."""
        t = self.terms[-1]
        return _Term(t.tensor.named("stage"), t.shape, t.value)


def _places_read(places: np.ndarray[Any, Any], last: int) -> np.ndarray[Any, Any]:
    """The places that a gather reads: below 0 from the end, and what is outside then at the nearest end."""
    return np.clip(np.where(places < 0, places.astype(np.int64) + last + 1, places), 0, last)


def _length(t: _Term) -> int:
    """Of the last dimension; 0 where that is no number."""
    return t.shape[-1] if t.shape and isinstance(t.shape[-1], int) else 0

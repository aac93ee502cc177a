"""Compute the meaning of an instruction on whole operands at once, as NumPy arrays.

The loops over the elements of the result are the arrays' axes; those that are folded over run in order, so sums round
as they do element by element. Meanings whose operations have no array form in a value domain are left to
`loopir.interp.to_python`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from loopir.interp.value_domains import DOMAINS, Domain
from loopir.ir.dtypes import DType
from loopir.ir.grammar import Cast, Const, Func, Int, Load, Loop, Op, Param, Reduce, Store, Value, Var
from loopir.ir.ops import Instruction

Cells = list[Any]
"""The elements of an operand, row after row."""
Computed = Callable[[Mapping[str, Cells]], dict[str, Cells]]
"""What is written, by the operands that are read; their elements have all been written before."""
Arrays = Mapping[str, Any]
Term = Callable[[Arrays], Any]
"""A value, by the operands and the parameters of a monoid: an array with an axis for each loop."""
_RING_OPS = frozenset({"add", "sub", "mul", "neg", "fma"})
"""Operations of the ring that are the same on arrays of 64 bits."""


@lru_cache(maxsize=256)
def array_meaning(fn: Instruction, domain: str) -> Computed | None:
    """What computes the meaning of `fn` in `domain`; None if an element has to be computed at a time."""
    loops, stmt = _loops_and_stmt(fn.meaning)
    names, shape = [x.var for x in loops], [x.extent.value for x in loops if isinstance(x.extent, Int)]
    if isinstance(stmt, Store) and isinstance(stmt.value, Load) and len(stmt.at) == len(loops):
        return _copy_elements(stmt.buffer.name, stmt.at, stmt.value, names, shape)
    if isinstance(stmt, Reduce) and len(stmt.buffers) == 1 and domain != "field":  # whose numbers are pairs
        return _Folded(stmt, names, shape, DOMAINS[domain]()).computed()
    return None


def _loops_and_stmt(meaning: Func) -> tuple[list[Loop], object]:
    loops: list[Loop] = []
    (inner,) = meaning.body
    while isinstance(inner, Loop):
        loops.append(inner)
        (inner,) = inner.body
    return loops, inner


def _loop_numbers(at: Sequence[object], names: Sequence[str]) -> list[int]:
    """The loop of each subscript, by its number."""
    return [names.index(x.name) for x in at if isinstance(x, Var)]


def _copy_elements(to: str, at: Sequence[object], source: Load, names: Sequence[str], shape: Sequence[int]) -> Computed:
    """A copy of each element: what it copies may be unwritten."""
    from_axes, to_axes = _loop_numbers(source.at, names), _loop_numbers(at, names)
    numbers = np.arange(int(np.prod([shape[x] for x in from_axes], dtype=np.int64)))
    numbers = numbers.reshape([shape[x] for x in from_axes])
    order: list[int] = numbers.transpose([from_axes.index(x) for x in to_axes]).ravel().tolist()
    name = source.buffer.name

    def computed(given: Mapping[str, Cells]) -> dict[str, Cells]:
        cells = given[name]
        return {to: [cells[n] for n in order]}

    return computed


class _Folded:
    """A reduction into one operand."""

    def __init__(self, stmt: Reduce, names: list[str], shape: list[int], domain: Domain) -> None:
        self.stmt, self.names, self.shape, self.domain = stmt, names, shape, domain
        self.loads: dict[str, Load] = {}

    def computed(self) -> Computed | None:
        stmt, shape = self.stmt, self.shape
        buffer, kept = stmt.buffers[0], _loop_numbers(stmt.at, self.names)
        params = (*stmt.monoid.left, *stmt.monoid.right)
        value, step = self.term(stmt.values[0]), self.term(stmt.monoid.combine[0])
        if value is None or step is None or buffer.name in self.loads or len(params) != 2:
            return None
        folded = [n for n in range(len(shape)) if n not in kept]
        turns = list(product(*(range(shape[n]) for n in folded)))
        places = [(name, x, _loop_numbers(x.at, self.names)) for name, x in self.loads.items()]
        left, right = params[0].name, params[1].name

        def run(given: Mapping[str, Cells]) -> dict[str, Cells]:
            arrays = {name: self.spread(given[name], x.buffer.dtype, axes) for name, x, axes in places}
            all_of = np.broadcast_to(value(arrays), shape).transpose(*folded, *kept)
            now = self.array(given[buffer.name], buffer.dtype).reshape([shape[n] for n in kept])
            for turn in turns:
                now = step({left: now, right: all_of[turn]})
            return {buffer.name: self.cells(now, buffer.dtype)}

        return run

    def spread(self, cells: Cells, t: DType, axes: list[int]) -> Any:
        """The elements of an operand, with an axis for each loop."""
        own = self.array(cells, t).reshape([self.shape[x] for x in axes])
        own = own.transpose(sorted(range(len(axes)), key=axes.__getitem__))
        return own.reshape([size if n in axes else 1 for n, size in enumerate(self.shape)])

    def array(self, cells: Cells, t: DType) -> Any:
        return np.array(cells, np.uint64 if self.in_ring(t) else t.numpy)

    def cells(self, array: Any, t: DType) -> Cells:
        return array.ravel().tolist() if self.in_ring(t) else list(array.ravel())

    def in_ring(self, t: DType) -> bool:
        return t.is_float and self.domain.name == "ring"

    def term(self, v: Value) -> Term | None:
        """`v` on arrays, which gives what the domain gives for each element; None where that is not known."""
        match v:
            case Load(buffer):
                if self.loads.setdefault(buffer.name, v).at != v.at:
                    return None
                return lambda given: given[buffer.name]
            case Param(name, _):
                return lambda given: given[name]
            case Const(number, t):
                constant = self.array([self.domain.const(number, t)], t)[0]
                return lambda given: constant
            case Cast(inner, t):
                return self.converted(inner, t)
            case Op():
                return self.operation(v)
            case _:
                return None

    def converted(self, inner: Value, t: DType) -> Term | None:
        term, source = self.term(inner), inner.dtype
        if term is None or t.kind == "bool" or (source.is_float and not t.is_float):
            return None
        if self.domain.name != "real" and t.is_float:
            return term if source.is_float else None
        return lambda given: term(given).astype(t.numpy)

    def operation(self, v: Op) -> Term | None:
        terms, t, fn = [x for a in v.args if (x := self.term(a)) is not None], v.args[0].dtype, v.fn
        exact = fn.name in _RING_OPS if self.in_ring(t) else fn.ulp == 0 and fn.lane is None
        if not exact or len(terms) != len(v.args):
            return None
        op = self.domain.op(fn, t) if self.in_ring(t) else fn.meaning
        return lambda given: op(*[x(given) for x in terms])

"""What a tensor expression is: a shape, a dtype, and the value at an index.

Elementwise operations and views are lazy: they wrap the value at an index and make no loop. A stage, which is a nest
with a buffer of its own, is made by `compute`, by reductions and products, by `.named(...)`, and for outputs. A lazy
expression is computed where it is read, as often as it is read, as long as that is short when it is written out; what
is longer is stored once (`bounded`), so that no program grows faster than what it was written as.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from operator import is_
from typing import Any, NoReturn, TypeAlias

import numpy as np

import loopir.intrinsics  # noqa: F401  # pyright: ignore[reportUnusedImport]  (registers every operation)
from loopir.arith.value_range import value_range
from loopir.errors import ExprError
from loopir.ir import dtypes
from loopir.ir.dtypes import DType, DTypeLike, bool_, int32, int64, promote
from loopir.ir.grammar import (
    Body,
    Buffer,
    Cast,
    Cond,
    Const,
    Index,
    IndexToValue,
    Int,
    Load,
    Monoid,
    Op,
    Param,
    Select,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
    maximum,
    minimum,
)
from loopir.ir.ops import REGISTRY, Intrinsic
from loopir.ir.printer import text
from loopir.ir.recursion import deep
from loopir.ir.traverse.measure import measured, nesting, written_size
from loopir.ir.traverse.walk import free_vars, nodes, substitute
from loopir.tensor.in_bounds import in_bounds, require_inside
from loopir.tensor.index import (
    AXES,
    CondExpr,
    IndexExpr,
    ReduceAxis,
    Symbols,
    dimension,
    given_name,
    require_name,
    same,
    shown,
    unique,
)

At: TypeAlias = "Callable[[tuple[Index, ...]], Value]"


@dataclass(frozen=True, eq=False)
class Source:
    """What owns memory: a placeholder (no body) or a stage with its loops and its store or reduction."""

    name: str
    buffers: tuple[Buffer, ...]
    order: int
    symbols: Symbols
    loops: tuple[tuple[str, Index], ...] = ()
    values: tuple[Value, ...] = ()
    monoid: Monoid | None = None
    axes: tuple[ReduceAxis, ...] = ()
    deps: tuple[Source, ...] = ()
    updates: Updates | None = None
    body: Body = ()
    """In place of loops and values: what a nest that is called does."""

    @property
    def is_placeholder(self) -> bool:
        return not self.values and not self.body


@dataclass(frozen=True, eq=False)
class Updates:
    """Values that are folded into the elements of a stage once these are stored: over `loops`, each into element `at`,
    which memory may choose, where `cond` holds."""

    loops: tuple[tuple[str, Index], ...]
    cond: Cond
    at: tuple[Index, ...]
    monoid: Monoid
    value: Value


@dataclass(frozen=True, eq=False)
class Reduction:
    """A reduction that has no loops of its own yet: `compute` gives them, or a larger expression makes it a stage."""

    monoid: Monoid
    values: tuple[Value, ...]
    axes: tuple[ReduceAxis, ...]


class Expr:
    """The data of a tensor expression; `Tensor` adds what can be done with one."""

    __slots__ = (
        "_at", "_deps", "_element", "_shape", "dtype", "height", "parts", "readers", "reduction", "source",
        "symbols",
    )  # fmt: skip

    def __init__(
        self, shape: tuple[Index, ...], dtype: DType, at: At, deps: Sequence[Source], symbols: Symbols,
        *, source: tuple[Source, int] | None = None, reduction: tuple[Reduction, int] | None = None,
        parts: tuple[Expr, ...] = (),
    ) -> None:  # fmt: skip
        self._shape, self.dtype, self._at, self.parts = shape, dtype, at, parts
        self.height = 1 + max((p.height for p in parts), default=-1)
        self.readers = 0  # how many lazy tensors are made of it
        for part in {id(p): p for p in parts}.values():
            part.readers += 1
        self._element: Value | None = None
        self._deps, self.symbols = tuple(dict.fromkeys(deps)), dict(symbols)
        self.source, self.reduction = source, reduction

    @property
    def dims(self) -> tuple[Index, ...]:
        return self._shape

    @property
    def deps(self) -> tuple[Source, ...]:
        """The sources that it reads, directly or through expressions that are not stored."""
        return self._deps if not self.parts else tuple(dict.fromkeys(d for e in unstored(self) for d in e._deps))

    @property
    def shape(self) -> tuple[int | IndexExpr, ...]:
        """The sizes, as integers where they are known."""
        return tuple(shown(d, self.symbols) for d in self._shape)

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def name(self) -> str | None:
        """The name of the buffer it is stored in; None for an expression that is not stored."""
        return self.source[0].name if self.source is not None else None

    @deep(ExprError)
    def at(self, at: tuple[Index, ...]) -> Value:
        """The value of the element at `at`."""
        if self._element is not None and all(map(is_, at, ANYWHERE)):
            return self._element
        return self._at(at)

    @property
    def element(self) -> Value:
        """The value of any element, at the first of the variables ANYWHERE; made once."""
        if self._element is None:
            self._element = self.at(ANYWHERE[: len(self._shape)])
        return self._element

    def forget(self) -> None:
        """Make `element` anew when it is asked for next: a part of it is stored by now."""
        self._element = None

    def described(self) -> str:
        """For messages: name or kind, dtype and shape."""
        dims = ", ".join(text(d) for d in self._shape)
        return given_name(f"{self.name or 'an expression'} {self.dtype}[{dims}]")

    def like(self, shape: tuple[Index, ...], dtype: DType, at: At, *others: Expr) -> Any:
        """A lazy tensor that reads this one, and `others`; parts of it are stored where it gets too large."""
        parts = (self, *others)
        symbols = {k: s for e in parts for k, s in e.symbols.items()}
        return bounded(type(self)(shape, dtype, at, (), symbols, parts=parts))

    def __iter__(self) -> NoReturn:
        raise TypeError("a tensor expression has no elements to go through; A[i] reads one, lp.sum folds all")

    def __bool__(self) -> bool:
        raise TypeError(
            "a tensor expression has no truth while it is built; use lp.where(cond, a, b) for if, and & | ~ for and, "
            "or, not; lp.maximum and lp.minimum for max and min"
        )

    def __len__(self) -> int:
        raise TypeError(f"len of {self.described()}: the size of a dimension is .shape[0], a number or a symbol")

    def _value(self) -> NoReturn:
        raise TypeError(
            f"{self.described()} has no value until its kernel is called; lp.exp and its like take expressions, math "
            "and float do not"
        )

    def __float__(self) -> float:
        self._value()

    def __int__(self) -> int:
        self._value()

    __complex__ = __float__

    def __format__(self, spec: str) -> str:
        if spec:
            self._value()
        return str(self)

    def __contains__(self, item: object) -> NoReturn:
        raise TypeError(f"`in` of {self.described()}: it has no elements yet; lp.any(x == value) is an expression")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            f"{self.described()} is an expression, and NumPy makes arrays of values: lp.Schedule(x).build() makes the "
            "kernel, and a call of it gives an array; lp.stack and lp.concatenate join expressions"
        )

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise TypeError(
            f"{self.described()} is an expression and is not written to; lp.compute and lp.where make a new tensor, a "
            "nest under @lp.func writes in place"
        )


# ---------------------------------------------------------------- compute


@dataclass(frozen=True)
class Frame:
    """The index variables of the compute that is being written."""

    loops: tuple[tuple[str, Index], ...]
    symbols: Symbols


FRAMES: list[Frame] = []
ANYWHERE = tuple(Var(f"any#{d}") for d in range(64))
"""The variables of any element, by dimension."""
_order = 0


def next_order() -> int:
    global _order
    _order += 1
    return _order


def staged(cls: type[Expr], source: Source) -> tuple[Any, ...]:
    """The tensors that read the buffers of `source`."""

    def reader(n: int) -> Any:
        b = source.buffers[n]
        return cls(b.shape, b.dtype, lambda at: Load(b, at), (source,), source.symbols, source=(source, n))

    return tuple(reader(n) for n in range(len(source.buffers)))


def make_stage(
    cls: type[Expr], name: str, loops: tuple[tuple[str, Index], ...], values: tuple[Value, ...],
    deps: Sequence[Source], symbols: Symbols, monoid: Monoid | None = None, axes: tuple[ReduceAxis, ...] = (),
) -> tuple[Any, ...]:  # fmt: skip
    """A stage over `loops` that stores `values`, or folds them by `monoid` over `axes`."""
    inside = {v for v, _ in loops} | {a.name for a in axes}
    free = sorted({v for value in values for v in free_vars(value) if "#" in v} - inside)  # what `unique` named
    if free:
        raise ExprError(
            f"nothing here runs over {' and '.join(map(given_name, free))}; an index belongs to the function of its "
            "compute, a reduce_axis to a reduction over it, as lp.sum(A[i, k], axis=k)"
        )
    around = (*loops, *((a.name, a.extent) for a in axes))
    for value in values:
        require_inside(value, around, symbols, name)
    shape = tuple(extent for _, extent in loops)
    names = [name] if len(values) == 1 else [f"{name}_{n}" for n in range(len(values))]
    buffers = tuple(Buffer(unique(n), shape, v.dtype) for n, v in zip(names, values, strict=True))
    return staged(cls, Source(name, buffers, next_order(), symbols, loops, values, monoid, axes, tuple(deps)))


def stage_reduction(e: Expr) -> Any:
    """`e`, or if it is a bare reduction, the stage that computes it, read at the indices of the compute around it."""
    if e.reduction is None:
        return e
    r, part = e.reduction
    frame = FRAMES[-1] if FRAMES else Frame((), {})
    made = make_stage(type(e), "t", frame.loops, r.values, e.deps, {**frame.symbols, **e.symbols}, r.monoid, r.axes)
    stage = made[part]
    here = tuple(Var(v) for v, _ in frame.loops)
    return stage.like((), stage.dtype, lambda _: stage.at(here))


def compute_in(cls: type[Expr], shape: Sequence[object], fn: Callable[..., Any], name: str | None) -> Any:
    """`compute`, for tensors of class `cls`."""
    what = f"compute {name}" if name else "compute"
    if name:
        require_stage_name(name, what)
    if isinstance(shape, int | IndexExpr):
        shape = (shape,)
    if not isinstance(shape, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{what}: {shortened(shape)} is no shape; it comes first: lp.compute((n, m), lambda i, j: ...)")
    dims = [dimension(d, what) for d in shape]
    symbols = {k: s for _, found in dims for k, s in found.items()}
    if not callable(fn):
        raise TypeError(f"{what}: {shortened(fn)} is no function; an element is given by one, as lambda i, j: A[i, j]")
    loops = tuple((unique(n), d) for n, (d, _) in zip(_index_names(fn, len(dims), what), dims, strict=True))
    FRAMES.append(Frame(loops, symbols))
    try:
        result = fn(*(IndexExpr(Var(v), symbols) for v, _ in loops))
        several = isinstance(result, tuple)
        bodies = [as_expr(cls, x, None) for x in (result if several else (result,))]
        if several and not _of_one_reduction(bodies):
            raise ExprError(f"{what}: several values come only from one reduction; compute each by itself")
    finally:
        FRAMES.pop()
    body = bodies[0]
    if body.ndim:
        raise ExprError(f"{what}: the function gives {body.described()}; it has to give one element")
    symbols = {**symbols, **body.symbols}
    made_name = name or "t"
    if body.reduction is not None:
        r, part = body.reduction
        made = make_stage(cls, made_name, loops, r.values, body.deps, symbols, r.monoid, r.axes)
        return made if several else made[part]
    return make_stage(cls, made_name, loops, (body.at(()),), body.deps, symbols)[0]


def _index_names(fn: Callable[..., Any], count: int, what: str) -> list[str]:
    """The names of the `count` indices that `fn` takes; ExprError if it takes more or fewer."""
    parameters = inspect.signature(fn).parameters.values()
    # one with a default is not an index: `lambda i, x=x: x[i]` is how a loop of Python keeps its x
    names = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        names += default_names(count)[len(names) :]
    if len(names) != count:
        raise ExprError(f"{what}: the shape has {count} dimensions, and the function takes {len(names)}")
    return names


def _of_one_reduction(bodies: Sequence[Any]) -> bool:
    """Whether all of `bodies` are values of one reduction."""
    return bool(bodies) and all(
        b.reduction is not None and b.reduction[0] is bodies[0].reduction[0] for b in bodies
    )  # fmt: skip


def require_stage_name(name: object, what: str) -> None:
    """ExprError unless a stage may be called `name`."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ExprError(f"{what}: a stage is named by an identifier, not {name!r}")
    require_name(name, what)


def default_names(count: int) -> list[str]:
    return ["i", "j", "k", "l", "m", "n", "o", "p"][:count] if count <= 8 else [f"i{n}" for n in range(count)]


def as_stage(e: Expr, name: str) -> Any:
    """`e` stored in a buffer of its own."""
    require_stage_name(name, f"{e.described()}.named({name!r})")
    e = stage_reduction(e)
    loops = tuple((unique(v), d) for v, d in zip(default_names(e.ndim), e.dims, strict=True))
    return make_stage(type(e), name, loops, (e.at(tuple(Var(v) for v, _ in loops)),), e.deps, e.symbols)[0]


# ---------------------------------------------------------------- what is stored on the way


WRITTEN, NESTED = 2048, 96
"""How many nodes an element of a lazy tensor is made of when it is written out, and how many parentheses it has in one
another, before a part of it is stored: a parser of Python takes 200 of these."""
MOST = 32 * WRITTEN
"""Nodes of an element of which no part can be stored, as where no guard is around that keeps it in its array."""
LAZY = 256
"""Lazy tensors on one another, views among them."""


def unstored(e: Expr) -> list[Expr]:
    """`e` and the lazy tensors that it is made of, each once; what is stored is not looked into."""
    found, seen = [e], {id(e)}
    for x in found:  # which grows on the way
        for part in x.parts:
            if id(part) not in seen:
                seen.add(id(part))
                found.append(part)
    return found


def bounded(e: Any) -> Any:
    """`e`, a lazy tensor, with parts of it stored until an element of it is short when it is written out."""
    if e.height > LAZY and (high := max(e.parts, key=lambda x: x.height)).height >= LAZY:
        store(high)
        e.height = 1 + max(x.height for x in e.parts)
    while True:
        size, depth = measured(e.element)
        if size <= WRITTEN and depth <= NESTED:
            return e
        if not any(store(x) for x in _worth_storing(e, deep=size <= WRITTEN)):
            if size > MOST:
                raise ExprError(
                    f"an element of {e.described()} is {size} operations when it is written out, and no part of it "
                    "can be stored, as its subscripts may be outside of their arrays; name a part of it by lp.compute"
                )
            return e
        for x in unstored(e):
            x.forget()


def _worth_storing(e: Expr, *, deep: bool) -> list[Expr]:
    """The lazy tensors in `e` in the order in which to store them: first that of which most is written again, as it is
    read in several places that are read in several places themselves.

    What reads a tensor so far, and is not in `e`, counts as much as what is in it: the state of a recurrence is stored,
    not each of the terms that the next one is made of.
    """
    inside = unstored(e)
    if deep:
        return sorted(e.parts, key=lambda x: -nesting(x.element))
    times, here = Counter({id(e): 1}), Counter[int]()
    for x in sorted(inside, key=lambda x: -x.height):  # each before what it reads
        for part in x.parts:
            times[id(part)] += times[id(x)]
        here.update({id(part) for part in x.parts})
    found = [(written_size(x.element), times[id(x)] * x.readers // here[id(x)], x) for x in inside[1:] if x.parts]
    found = [(size * (written - 1), size, x) for size, written, x in found if size >= WRITTEN // 16]
    return [x for _, _, x in sorted(found, key=lambda f: f[:2], reverse=True)]


def store(e: Any) -> bool:
    """Store `e`, from now on, in a stage of its own, if it is lazy and every element of it that this takes is there.

    Loops that run around it where it is written are dimensions of what is stored.
    """
    if not e.parts or e.reduction is not None:
        return False
    own = tuple((unique(v), d) for v, d in zip(default_names(e.ndim), e.dims, strict=True))
    value = e.at(tuple(Var(v) for v, _ in own))
    outer, symbols = _loops_around(value, {v for v, _ in own}), _symbols_around(e)
    if outer is None or (outer and not in_bounds(value, (*outer, *own), symbols)):
        return False
    renamed = tuple((unique(v.partition("#")[0]), extent) for v, extent in outer)
    value = substitute(value, {v: Var(new) for (v, _), (new, _) in zip(outer, renamed, strict=True)})
    stage = make_stage(type(e), "t", (*renamed, *own), (value,), e.deps, symbols)[0]
    here = tuple(Var(v) for v, _ in outer)
    e._at, e._deps, e.parts, e.height, e._element = lambda at: stage.at((*here, *at)), stage.deps, (), 0, None
    if not outer:
        e.source = stage.source
    return True


def _loops_around(value: Value, own: Set[str]) -> tuple[tuple[str, Index], ...] | None:
    """The loops, and their extents, that run around `value` where it is written, and are not its `own`; None if it
    depends on what is no such loop."""
    free = {v for v in free_vars(value) if "#" in v} - own
    around = {v: extent for frame in FRAMES for v, extent in frame.loops} | {v: k.extent for v, k in AXES.items()}
    if not free <= around.keys() or any(isinstance(n, Param) for n in nodes(value)):
        return None
    return tuple((v, extent) for v, extent in around.items() if v in free)


def _symbols_around(e: Any) -> Symbols:
    """The sizes of `e`, and those of what it is written in."""
    return {k: s for frame in FRAMES for k, s in frame.symbols.items()} | e.symbols


# ---------------------------------------------------------------- elementwise


def as_expr(cls: type[Expr], x: Any, context: DType | None) -> Any:
    """`x` as a tensor: a number takes the type `context`, an index or condition becomes a value."""
    if isinstance(x, Expr):
        return x
    if isinstance(x, IndexExpr):
        ix, t = x.ix, context or dtypes.int64
        return cls((), t, lambda _: IndexToValue(ix, t), (), x.symbols)
    if isinstance(x, CondExpr):
        c, t = x.cond, context or bool_
        return cls((), t, lambda _: IndexToValue(c, t), (), x.symbols)
    if isinstance(x, bool | int | float) and not isinstance(x, np.generic):
        t = context or (bool_ if isinstance(x, bool) else dtypes.int64 if isinstance(x, int) else dtypes.float64)
        if t.is_integer and isinstance(x, float):
            raise TypeError(f"{x} is no {t}")
        if t.is_integer and not t.holds(int(x)):
            raise ExprError(f"{x} is no {t}, which a number takes from the tensor beside it; convert that with astype")
        return cls((), t, lambda _: Const(x, t), (), {})
    if _typed(x):
        t = _type_of(x)
        return cls((), t, lambda _: Const(x.item(), t), (), {})
    raise TypeError(no_tensor(x))


def no_tensor(x: Any) -> str:
    """Why `x` cannot stand in an expression, and what can."""
    kind = type(x)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    if x is None:
        return "None is no tensor expression and no number; a function that gives an element ends with return"
    if isinstance(x, list | tuple):
        return f"{shortened(x)}, a {name}, is no tensor expression and no number; lp.stack of a list makes one tensor"
    if isinstance(x, Iterator):
        return (
            f"a {name} is no tensor expression: lp.sum folds a reduce_axis, or a dimension of a tensor; sum is Python's"
        )
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        return f"{shortened(x)}, a {name}, is no tensor expression and no number"
    return (
        f"an array ({name}) is no tensor expression: declare it, as lp.placeholder(shape, dtype, name=...), build with "
        "that, and give the array to the kernel"
    )


def shortened(x: object) -> str:
    said = repr(x)
    return said if len(said) <= 40 else f"{said[:37]}..."


def _typed(x: Any) -> bool:
    """Whether `x` is a number with a type of its own: a scalar of NumPy's, or an array without dimensions."""
    return hasattr(x, "dtype") and getattr(x, "shape", None) == ()


def _type_of(x: Any) -> DType:
    """The type of a tensor, or of a scalar of NumPy's or torch's, whose types have their library in their names."""
    return dtypes.dtype(str(x.dtype).removeprefix("torch.") if type(x.dtype).__module__ == "torch" else x.dtype)


def common_type(args: Sequence[Any]) -> DType:
    """NumPy's promotion: tensors and what has a type by it, Python numbers and indices only by their kind."""
    strong = [_type_of(a) for a in args if isinstance(a, Expr) or _typed(a)]
    numbers = (bool, int, float, IndexExpr, CondExpr)
    weak = [a for a in args if isinstance(a, numbers) and not isinstance(a, np.generic)]
    if not strong:
        if any(isinstance(a, float) for a in weak):
            return dtypes.float64
        return bool_ if all(isinstance(a, bool | CondExpr) for a in weak) else dtypes.int64
    t = strong[0]
    for other in strong[1:]:
        t = promote(t, other)
    if any(isinstance(a, float) for a in weak) and not t.is_float:
        return dtypes.float64
    whole = any(isinstance(a, int | IndexExpr) and not isinstance(a, bool) for a in weak)
    return dtypes.int64 if whole and t == bool_ else t


def broadcast(what: str, exprs: Sequence[Expr]) -> tuple[Index, ...]:
    """The shape that NumPy's broadcasting gives; ExprError, with both shapes, if there is none."""
    symbols = {k: s for e in exprs for k, s in e.symbols.items()}
    rank = max((e.ndim for e in exprs), default=0)
    out: list[Index] = []
    for d in range(-rank, 0):
        size: Index = Int(1)
        for e in exprs:
            if -d > e.ndim or e.dims[d] == Int(1):
                continue
            if size != Int(1) and not same(size, e.dims[d], symbols):
                listed = " and ".join(x.described() for x in exprs)
                raise ExprError(f"{what}: {listed} do not broadcast; sizes are equal or 1, from the right")
            size = e.dims[d] if size == Int(1) else size
        out.append(size)
    return tuple(out)


def at_broadcast(e: Expr, shape: tuple[Index, ...], at: tuple[Index, ...]) -> Value:
    """The element of `e` that stands at `at` of a shape it broadcasts to."""
    skip = len(shape) - e.ndim
    return e.at(tuple(Int(0) if e.dims[n] == Int(1) and shape[skip + n] != Int(1) else at[skip + n]
                      for n in range(e.ndim)))  # fmt: skip


def cast_value(v: Value, t: DType) -> Value:
    """`v` as a `t`; literals, indices and conditions that their own type holds as they are are made in that type."""
    if v.dtype == t:
        return v
    if isinstance(v, IndexToValue) and (isinstance(v.of, Cond) or v.type == dtypes.int64):
        return IndexToValue(v.of, t)
    if isinstance(v, Const) and _same_number(v, t):
        return Const(v.value, t)
    return Cast(v, t)


def _same_number(v: Const, t: DType) -> bool:
    """Whether the literal, converted to `t`, is what its digits are in `t`."""
    if v.type.is_float:
        own = float(v.type.numpy.type(v.value))
        return t.is_float and (own == v.value or own != own)
    if t.is_integer:
        return t.holds(int(v.value))
    return t == bool_ or abs(v.value) <= 1 << 53


def elementwise(cls: type[Expr], fn: Intrinsic | str, *args: Any, to: DType | None = None) -> Any:
    """`fn` of the elements of broadcast arguments of one type (`to`, or what promotion gives)."""
    op = REGISTRY[fn] if isinstance(fn, str) else fn
    t = to or common_type(args)
    exprs = [stage_reduction(as_expr(cls, a, None if isinstance(a, Expr) else t)) for a in args]
    if t.kind not in op.kinds:
        other = "float32" if "float" in op.kinds else "int32"
        said = f"{_WRITTEN.get(op.name, op.name)} takes {' or '.join(sorted(op.kinds))}"
        raise TypeError(f'{said}, and is given {_types(exprs)}; .astype("{other}") converts')
    shape = broadcast(op.name, exprs)

    def at(ix: tuple[Index, ...]) -> Value:
        return Op(op, tuple(cast_value(at_broadcast(e, shape, ix), t) for e in exprs))

    return exprs[0].like(shape, bool_ if op.result == "bool" else t, at, *exprs[1:])


_WRITTEN = {"and_": "&", "or_": "|", "xor": "^", "invert": "~", "shl": "<<", "shr": ">>", "sub": "-", "neg": "unary -"}
"""How the operators are written that do not take every type."""


def _types(exprs: Sequence[Expr]) -> str:
    return " and ".join(str(e.dtype) for e in exprs)


def cast(e: Expr, dtype: DTypeLike) -> Any:
    """`e` converted to `dtype`."""
    t = dtypes.dtype(dtype)
    if t == e.dtype:
        return e
    e = stage_reduction(e)
    return e.like(e.dims, t, lambda at: cast_value(e.at(at), t))


def truth(v: Value) -> Cond:
    """A bool value as a condition."""
    if isinstance(v, IndexToValue) and isinstance(v.of, Cond):
        return v.of
    return ValueToCond(v)


def as_index(e: Expr, top: Index, *, from_end: bool) -> Index:
    """An element of an integer tensor as an index into a dimension of size `top`, clamped to it; one below 0 is counted
    `from_end`, or clamped as others."""
    value = e.at(())
    if from_end and not _never_negative(value):
        exact = isinstance(top, Int) and int32.holds(top.value) and value.dtype.bits >= 32
        value = cast_value(value, value.dtype if exact else int64)
        less, add, t = REGISTRY["lt"], REGISTRY["add"], value.dtype
        size = Const(top.value, t) if isinstance(top, Int) else IndexToValue(top, t)
        negative = truth(Op(less, (value, Const(0, t))))
        value = Select(negative, Op(add, (value, size)), value)
    return minimum(maximum(_index_of_number(value) or ValueToIndex(value), Int(0)), top - 1)


def _index_of_number(v: Value) -> Index | None:
    """The index whose number an integer is, if it has as many bits."""
    return v.of if isinstance(v, IndexToValue) and v.dtype == int64 and isinstance(v.of, Index) else None


def _never_negative(v: Value) -> bool:
    """Whether an integer is 0 or more for its type, or as it counts a loop."""
    while isinstance(v, Cast) and v.dtype == int64 and v.value.dtype.is_integer:
        v = v.value
    counts = isinstance(v, IndexToValue) and v.dtype == int64 and isinstance(v.of, Var)
    return counts or value_range(v)[0] >= 0

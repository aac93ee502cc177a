"""The expressions of a generated program: values of a dtype, conditions, and indices that stay in bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

import loopir.intrinsics  # noqa: F401  (registers the operations)
from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    Buffer,
    Cast,
    Cmp,
    Cond,
    Const,
    Index,
    IndexToValue,
    Int,
    Load,
    Mod,
    Node,
    Not,
    Op,
    Or,
    Select,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
    conj,
)
from loopir.ir.ops import REGISTRY
from loopir.ir.traverse.walk import nodes
from loopir.testing.generate.draws import Drawer, between
from loopir.testing.generate.scope import Scope, bounds, forms, offered

_INTEGER = ("add", "mul", "sub", "maximum", "minimum", "neg", "floordiv", "mod", "and_", "xor", "or_", "invert", "shr")
_OPS = {
    "float": ("add", "mul", "sub", "maximum", "minimum", "neg"),
    "int": _INTEGER,
    "uint": _INTEGER,
    "bool": ("and_", "or_", "xor", "invert"),
}


@dataclass(frozen=True)
class Plan:
    """What a generated program may hold; `strategies.funcs` says what each means."""

    dtypes: tuple[DType, ...]
    max_nests: int
    max_depth: int
    max_extent: int
    symbolic: bool
    memory: bool
    functions: tuple[str, ...]


@dataclass
class Expressions(Drawer):
    """Draws expressions over the buffers that have been written where the builder stands."""

    plan: Plan
    readable: list[Buffer] = field(default_factory=list[Buffer])

    # ------------------------------------------------------------ indices

    def element(self, dim: Index, scope: Scope) -> Index:
        """An index in bounds of `dim`, which some index of `scope` is."""
        known = offered(scope, dim)
        gathered = self.gathered(scope, dim) if self.plan.memory and known and self.rarely() else None
        return self.pick(*known) if gathered is None else gathered

    def gathered(self, scope: Scope, dim: Index) -> Index | None:
        """An index from memory, brought into bounds of a constant dimension; None where there is none to read."""
        tables = [b for b in self.reachable(scope) if b.dtype.is_integer]
        if not tables or not isinstance(dim, Int):
            return None
        return Mod(ValueToIndex(self.load(self.pick(*tables), scope, plain=True)), dim)

    def reachable(self, scope: Scope) -> list[Buffer]:
        """The buffers with an element that can be read without a test."""
        return [b for b in self.readable if all(offered(scope, d) for d in b.shape)]

    def load(self, b: Buffer, scope: Scope, *, plain: bool = False) -> Load:
        at = (self.pick(*offered(scope, d)) if plain else self.element(d, scope) for d in b.shape)
        return Load(b, tuple(at))

    # ------------------------------------------------------------ conditions

    def condition(self, scope: Scope) -> Cond:
        kind = self.pick("compare", "compare", "odd", "both", "either", "not", *(("data",) if self.plan.memory else ()))
        match kind:
            case "odd" if scope.loops:
                return Cmp("==", Var(self.pick(*scope.loops).var) % 2, Int(0))
            case "both":
                return conj(self.comparison(scope), self.comparison(scope))
            case "either":
                return Or((self.comparison(scope), self.comparison(scope)))
            case "not":
                return Not(self.comparison(scope))
            case "data":
                return self.test(scope)
            case _:
                return self.comparison(scope)

    def comparison(self, scope: Scope) -> Cond:
        known = forms(scope) or (Int(0),)
        limits = (Int(self.draw(between(0, 4))), *(Var(n) - 1 for n, _ in scope.least))
        return Cmp(self.pick("<", "<=", "!=", "=="), self.pick(*known), self.pick(*limits, *known))

    def test(self, scope: Scope) -> Cond:
        """A condition that reads memory, where there is some to read."""
        known = self.reachable(scope)
        if not known:
            return self.comparison(scope)
        one = self.load(self.pick(*known), scope)
        if one.dtype.kind == "bool":
            return ValueToCond(one)
        return ValueToCond(Op(REGISTRY[self.pick("lt", "le", "ne")], (one, self.literal(one.dtype))))

    # ------------------------------------------------------------ values

    def literal(self, t: DType) -> Const:
        """A small number, which every dtype holds exactly."""
        if t.kind == "bool":
            return Const(self.draw(st.booleans()), t)
        if t.is_float:
            return Const(self.draw(between(-6, 6)) / 2, t)
        return Const(self.draw(between(0 if t.kind == "uint" else -3, 3)), t)

    def value(self, t: DType, scope: Scope, depth: int = 2) -> Value:
        kinds = ["load", "load", "op", "op", "select", "call"] if depth else ["load"]
        match self.pick(*kinds):
            case "op":
                return self.op(t, self.pick(*_OPS[t.kind]), scope, depth)
            case "call" if t.is_float and self.plan.functions:
                return self.op(t, self.pick(*self.plan.functions), scope, depth)
            case "select" if self.rarely():
                cond = self.condition(scope)
                return Select(cond, self.value(t, scope, depth - 1), self.value(t, scope, depth - 1))
            case "select" if t.kind == "bool":
                c = self.test(scope)
                return c.value if isinstance(c, ValueToCond) else IndexToValue(c, t)
            case _:
                return self.atom(t, scope)

    def op(self, t: DType, name: str, scope: Scope, depth: int) -> Value:
        fn = REGISTRY[name]
        return Op(fn, tuple(self.value(t, scope, depth - 1) for _ in range(fn.arity)))

    def atom(self, t: DType, scope: Scope) -> Value:
        """An element, a tested element, an index, or a number, of type `t`."""
        known = self.reachable(scope)
        same = [b for b in known if b.dtype == t]
        if same and not self.rarely():
            return self.load(self.pick(*same), scope)
        kind = self.pick("tested", "other", "index", "literal")
        if kind == "tested" and (tested := [b for b in self.readable if b.dtype == t and b.shape]):
            return self.tested(self.pick(*tested), scope)
        if kind == "other" and known:
            one = self.load(self.pick(*known), scope)
            return one if one.dtype == t else Cast(one, t)
        if kind == "index" and t.kind != "bool":
            return IndexToValue(self.pick(*forms(scope) or (Int(1),)), t)
        return self.literal(t)

    def tested(self, b: Buffer, scope: Scope) -> Value:
        """An element where there is one, else a number: how padding reads."""
        at = tuple(self.pick(*(forms(scope) or (Int(0),))) for _ in b.shape)
        test = bounds(at, b, scope)
        return Load(b, at) if test == conj() else Select(test, Load(b, at), self.literal(b.dtype))


def reads_memory(node: Node) -> bool:
    return any(isinstance(n, Load) for n in nodes(node))


def all_in(dims: Sequence[Index], scope: Scope) -> bool:
    """Whether some index is known to be in bounds of each of `dims`."""
    return all(offered(scope, d) for d in dims)

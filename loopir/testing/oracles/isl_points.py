"""Indices and conditions as isl functions and sets over named integers: their meaning at every point at once.

An oracle for what `loopir.analysis` says of them, and so made without it. Products of two variables and divisions by
a variable are not of this kind: replace enough variables by numbers first (`substitute`).
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportMissingTypeArgument=false

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NoReturn

import islpy as isl

from loopir.arith.bits import xor_by_divisions
from loopir.ir.grammar import Add, And, Cmp, Cond, FloorDiv, Index, Int, Max, Min, Mod, Mul, Not, Or, Var, Xor
from loopir.ir.parser.parse_expr import Expressions, Names


def read(source: str) -> Index | Cond:
    """The index or condition that `source` is the text of; every name in it is a variable."""
    return _Reader(source).read()


class _Reader(Expressions):
    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source, mode="eval").body
        names = {n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name)} - {"min", "max"}
        self.names, self.constants, self.sorts = Names({name: Var(name) for name in names}), {}, {}

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        raise ValueError(f"{ast.unparse(node)}: {message}")

    def read(self) -> Index | Cond:
        return self.cond(self.tree) if self.sort(self.tree) == "cond" else self.index(self.tree)


class NotAffine(ValueError):
    """A product of variables, a division by one, or a read of memory."""


class Points:
    """All integer values of some variables."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(self.names))
        self.local = isl.LocalSpace.from_space(self.space)
        self.everywhere = isl.Set.universe(self.space)

    def index(self, ix: Index) -> isl.PwAff:
        """The value of `ix` at every point."""
        match ix:
            case Int(value):
                return isl.PwAff.from_aff(isl.Aff.val_on_domain(self.local, isl.Val(str(value))))
            case Var(name):
                at = self.names.index(name)
                return isl.PwAff.from_aff(isl.Aff.var_on_domain(self.local, isl.dim_type.set, at))
            case Add(a, b):
                return self.index(a).add(self.index(b))
            case Mul(a, Int(c)) | Mul(Int(c), a):
                return self.index(a).scale_val(isl.Val(str(c)))
            case FloorDiv(a, Int(c)):
                return self.index(a).scale_down_val(isl.Val(str(c))).floor()
            case Mod(a, Int(c)):
                return self.index(a).mod_val(isl.Val(str(c)))
            case Xor() if (divided := xor_by_divisions(ix)) is not None:
                return self.index(divided)
            case Min(a, b):
                return self.index(a).min(self.index(b))
            case Max(a, b):
                return self.index(a).max(self.index(b))
            case _:
                raise NotAffine(repr(ix))

    def cond(self, c: Cond) -> isl.Set:
        """The points where `c` holds."""
        match c:
            case And(terms):
                out = self.everywhere
                for t in terms:
                    out = out.intersect(self.cond(t))
                return out
            case Or(terms):
                out = isl.Set.empty(self.space)
                for t in terms:
                    out = out.union(self.cond(t))
                return out
            case Not(term):
                return self.everywhere.subtract(self.cond(term))
            case Cmp(op, a, b):
                x, y = self.index(a), self.index(b)
                compare = {"<": x.lt_set, "<=": x.le_set, "==": x.eq_set, "!=": x.ne_set}
                return compare[op](y)
            case _:
                raise NotAffine(repr(c))

    def differ(self, a: Index | Cond, b: Index | Cond) -> isl.Set:
        """The points where `a` and `b` do not say the same."""
        if isinstance(a, Index) and isinstance(b, Index):
            return self.index(a).ne_set(self.index(b))
        assert isinstance(a, Cond)
        assert isinstance(b, Cond)
        x, y = self.cond(a), self.cond(b)
        return x.subtract(y).union(y.subtract(x))

    def one(self, s: isl.Set) -> dict[str, int] | None:
        """A point of `s`, None if there is none."""
        if s.is_empty():
            return None
        point = s.sample_point()
        return {name: point.get_coordinate_val(isl.dim_type.set, n).to_python() for n, name in enumerate(self.names)}

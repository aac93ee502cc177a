"""Parse expressions: indices, conditions and values, with the types of literals inferred."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, NoReturn, SupportsIndex

from loopir.ir.dtypes import BY_NAME, DType, bool_, dtype
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Add,
    And,
    Buffer,
    Cast,
    Cmp,
    CmpOp,
    Cond,
    Const,
    FloorDiv,
    Index,
    IndexToValue,
    Int,
    Load,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Op,
    Or,
    Param,
    Select,
    Value,
    ValueToCond,
    ValueToIndex,
    Xor,
)
from loopir.ir.ops import REGISTRY
from loopir.ir.parser.python_instead import CALLS, instead_of_expression

Sort = Literal["index", "cond", "value", "literal"]
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr", ast.Pow: "pow",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], tuple[CmpOp, bool]] = {
    ast.Lt: ("<", False), ast.LtE: ("<=", False), ast.Gt: ("<", True), ast.GtE: ("<=", True),
    ast.Eq: ("==", False), ast.NotEq: ("!=", False),
}  # fmt: skip
_VALUE_COMPARE = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne"}
_INDEX: dict[str, type[Add | Mul | FloorDiv | Mod | Xor]] = {
    "add": Add, "mul": Mul, "floordiv": FloorDiv, "mod": Mod, "xor": Xor,
}  # fmt: skip


@dataclass
class Names:
    """What each name means at the current position."""

    indices: dict[str, Index] = field(default_factory=dict[str, Index])
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    params: dict[str, Param] = field(default_factory=dict[str, Param])


def _called(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        f = node.func
        return f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""
    return ""


class Expressions:
    """Parses indices, conditions and values; the statement parser resolves names and raises errors."""

    names: Names
    constants: Mapping[str, object]
    sorts: dict[ast.expr, Sort]

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        raise NotImplementedError

    # ------------------------------------------------------------ sorts

    def sort(self, node: ast.expr) -> Sort:
        """What `node` is made of, found once. A number alone is a literal and fits anywhere."""
        found = self.sorts.get(node)
        if found is None:
            found = self.sorts[node] = self._sort(node)
        return found

    def _sort(self, node: ast.expr) -> Sort:
        match node:
            case ast.Constant(value=bool()) | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return "cond"
            case ast.Constant():
                return "literal"
            case ast.Name(id=name):
                if name in self.names.indices:
                    return "index"
                return "value" if name in self.names.params or name in self.names.buffers else "literal"
            case ast.Subscript():
                return "value"
            case ast.UnaryOp(operand=x):
                return self.sort(x)
            case ast.BinOp(op=ast.MatMult()):
                self.fail(node, instead_of_expression(node, self.names.buffers))
            case ast.BinOp(left=a, right=b):
                return self.joined([a, b])
            case ast.Compare():
                sides = {self.sort(x) for x in (node.left, *node.comparators)}
                return "value" if "value" in sides or "cond" in sides else "cond"
            case ast.IfExp(body=a, orelse=b):
                return "value" if self.joined([a, b]) != "literal" else "literal"
            case ast.Call(args=args):
                return self.call_sort(_called(node), args)
            case _:
                self.fail(node, instead_of_expression(node, self.names.buffers))

    def joined(self, args: Sequence[ast.expr]) -> Sort:
        sorts = {self.sort(a) for a in args}
        for sort in ("value", "cond", "index"):
            if sort in sorts:
                return sort
        return "literal"

    def call_sort(self, name: str, args: Sequence[ast.expr]) -> Sort:
        if name in ("min", "max", "index", "opaque"):
            return "index"
        if name in ("cond", "truth"):
            return "cond"
        if name == "select":
            return "literal" if self.joined(args[1:]) == "literal" else "value"
        fn = REGISTRY.get(name)
        return "literal" if fn and fn.result == "same" and args and self.joined(args) == "literal" else "value"

    def number(self, node: ast.expr) -> int | float | bool | None:
        """The Python number that `node` is, negative ones and named ones included."""
        match node:
            case ast.Constant(value=bool() | int() | float() as v):
                return v
            case ast.UnaryOp(op=ast.USub(), operand=x):
                v = self.number(x)
                return None if v is None or isinstance(v, bool) else -v
            case ast.Name(id=name) if name in ("inf", "nan"):
                return math.inf if name == "inf" else math.nan
            case ast.Name(id=name) | ast.Attribute(attr=name) if name not in self.names.indices:
                v = self.constants.get(name)
                if isinstance(v, bool | float):
                    return v
                if not isinstance(v, SupportsIndex):
                    self.fail(node, f"{name!r} is no loop, size, array or number known here")
                return v.__index__()
            case _:
                return None

    # ------------------------------------------------------------ indices

    def index(self, node: ast.expr) -> Index:
        match node:
            case ast.Name(id=name) if name in self.names.indices:
                return self.names.indices[name]
            case ast.Subscript() | ast.Name() if self.sort(node) == "value":
                return self.opaque(node, self.value(node, None))
            case ast.BinOp(left=a, op=op, right=b):
                return self.index_op(node, _BINARY.get(type(op), ""), self.index(a), b)
            case ast.UnaryOp(op=ast.USub(), operand=x) if self.number(node) is None:
                return Mul(Int(-1), self.index(x))
            case ast.Call(args=args):
                return self.index_call(node, _called(node), args)
            case _:
                number = self.number(node)
                if isinstance(number, int) and not isinstance(number, bool):
                    return Int(number)
                if isinstance(node, ast.Slice):
                    self.fail(node, "a nest has no slices: write the loop, for i in range(n): a[i] = b[i]")
                if isinstance(number, float):
                    self.fail(node, f"an index is a whole number, and {number!r} is none")
                if isinstance(node, ast.Constant | ast.Attribute):
                    self.fail(node, instead_of_expression(node, self.names.buffers))
                self.fail(node, "an index is made of integers, loop variables, sizes, + - * // % ^, min and max")

    def index_op(self, node: ast.expr, name: str, a: Index, right: ast.expr) -> Index:
        b = self.index(right)
        if name == "sub":
            return Add(a, Int(-b.value)) if isinstance(b, Int) else Add(a, Mul(Int(-1), b))
        if name not in _INDEX:
            self.fail(node, "an index is made with + - * // % ^ only: write // for /; for a value, cast it: float32(i)")
        if name in ("floordiv", "mod") and isinstance(b, Int) and b.value <= 0:
            self.fail(node, f"an index is divided by {b.value}; the divisor has to be positive")
        return _INDEX[name](a, b)

    def index_call(self, node: ast.expr, name: str, args: Sequence[ast.expr]) -> Index:
        if name in ("min", "max") and len(args) >= 2:
            make = Min if name == "min" else Max
            total = self.index(args[0])
            for x in args[1:]:
                total = make(total, self.index(x))
            return total
        if name == "index" and len(args) == 1:
            return self.index(args[0])
        if name == "opaque" and len(args) == 1:
            return self.opaque(node, self.value(args[0], None))
        gives_none = f"{name or 'this'} gives no index; there are min, max, index and, of a value, opaque"
        self.fail(node, CALLS.get(name, gives_none))

    def opaque(self, node: ast.expr, value: Value) -> ValueToIndex:
        if not value.dtype.is_integer:
            self.fail(node, f"an index from memory is an integer, not {value.dtype}")
        return ValueToIndex(value)

    def scalar(self, node: ast.expr) -> Buffer | None:
        """The memory of no dimension that `node` names."""
        b = self.names.buffers.get(node.id) if isinstance(node, ast.Name) else None
        return b if b is not None and not b.shape else None

    def load(self, node: ast.expr) -> Load:
        """An element, `name[index, ...]`; of memory of no dimension, just `name`."""
        if (scalar := self.scalar(node)) is not None:
            return Load(scalar, ())
        if not isinstance(node, ast.Subscript):
            self.fail(node, f"{ast.unparse(node)} is a whole array; name an element of it, such as A[i]")
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        b = self.names.buffers.get(name)
        if isinstance(node.value, ast.Attribute):
            self.fail(node, instead_of_expression(node.value, self.names.buffers))
        if isinstance(node.value, ast.Subscript):
            self.fail(node, "an element of several dimensions has its subscripts in one bracket: a[i, j], not a[i][j]")
        if b is None:
            known = ", ".join(self.names.buffers) or "none"
            outside = "; an array from around the nest is a parameter of it" if name in self.constants else ""
            self.fail(node, f"{name!r} is no array known here; there are {known}{outside}")
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(items) != len(b.shape):
            self.fail(node, f"{b.name} has {len(b.shape)} dimensions, and {len(items)} indices are given")
        return Load(b, tuple(self.index(x) for x in items))

    # ------------------------------------------------------------ conditions

    def cond(self, node: ast.expr) -> Cond:
        match node:
            case ast.Constant() | ast.Name() if self.sort(node) != "value" and isinstance(v := self.number(node), bool):
                return TRUE if v else FALSE
            case ast.BoolOp(op=op, values=values):
                if isinstance(op, ast.Or):
                    return Or(tuple(self.cond(x) for x in values))
                return And(tuple(t for x in values for t in self.chain(x)))
            case ast.UnaryOp(op=ast.Not(), operand=x):
                return Not(self.cond(x))
            case ast.UnaryOp(op=ast.Invert(), operand=x) if self.sort(x) == "cond":
                return Not(self.cond(x))
            case ast.BinOp(left=a, op=ast.BitAnd() | ast.BitOr() as op, right=b) if self.joined([a, b]) == "cond":
                terms = (self.cond(a), self.cond(b))
                return And(terms) if isinstance(op, ast.BitAnd) else Or(terms)
            case ast.Compare():
                terms = self.chain(node)
                return terms[0] if len(terms) == 1 else And(terms)
            case ast.Call(args=[x]) if _called(node) == "cond":
                return self.cond(x)
            case ast.Call(args=[x]) if _called(node) == "truth":
                return ValueToCond(self.value(x, bool_))
            case _:
                value = self.value(node, bool_)
                if value.dtype != bool_:
                    self.fail(node, f"a condition is a comparison or a bool, not {value.dtype}")
                return ValueToCond(value)

    def chain(self, node: ast.expr) -> tuple[Cond, ...]:
        """The comparisons of `a < b < c`; any other condition as it is."""
        if not isinstance(node, ast.Compare):
            return (self.cond(node),)
        pairs = zip((node.left, *node.comparators), node.ops, node.comparators, strict=False)
        return tuple(self.compare(node, a, op, b) for a, op, b in pairs)

    def compare(self, node: ast.expr, a: ast.expr, op: ast.cmpop, b: ast.expr) -> Cond:
        if type(op) not in _COMPARE:
            self.fail(node, "a condition compares with < <= > >= == or !=")
        name, swap = _COMPARE[type(op)]
        a, b = (b, a) if swap else (a, b)
        if self.joined([a, b]) in ("value", "cond"):
            return ValueToCond(Op(REGISTRY[_VALUE_COMPARE[name]], self.arguments(node, [a, b], None)))
        return Cmp(name, self.index(a), self.index(b))

    # ------------------------------------------------------------ values

    def value(self, node: ast.expr, context: DType | None) -> Value:
        """The value of `node`; literals have the type of what stands beside them, else of `context`."""
        number = self.number(node) if self.sort(node) in ("literal", "cond") else None
        if number is not None:
            return self.constant(node, number, context)
        match node:
            case ast.Name(id=name) if name in self.names.params:
                return self.names.params[name]
            case ast.Subscript() | ast.Name() if self.sort(node) == "value":
                return self.load(node)
            case ast.Call(args=args) if _called(node) in ("min", "max") and self.joined(args) == "value":
                self.fail(node, "min and max are of indices; of values there are minimum and maximum")
            case ast.BinOp(left=a, op=op, right=b) if self.sort(node) != "index" and type(op) in _BINARY:
                return self.op(node, _BINARY[type(op)], [a, b], context)
            case ast.UnaryOp(op=ast.USub(), operand=x) if self.sort(node) != "index":
                return self.op(node, "neg", [x], context)
            case ast.UnaryOp(op=ast.Invert(), operand=x) if self.sort(x) != "cond":
                return self.op(node, "invert", [x], context)
            case ast.IfExp(test=c, body=a, orelse=b):
                return Select(self.cond(c), *self.arguments(node, [a, b], context))
            case ast.Call(args=args) if self.sort(node) != "index":
                return self.call(node, _called(node), args, context)
            case _ if self.sort(node) == "value":  # a comparison
                found = self.cond(node)
                return found.value if isinstance(found, ValueToCond) else IndexToValue(found, bool_)
            case _ if self.sort(node) == "cond":
                return IndexToValue(self.cond(node), context or bool_)
            case _:
                if context is None:
                    self.fail(node, "an index becomes a value by a cast, such as int64(i)")
                return IndexToValue(self.index(node), context)

    def constant(self, node: ast.expr, number: int | float | bool, context: DType | None) -> Const:
        t = bool_ if context is None and isinstance(number, bool) else context
        if t is None:
            self.fail(node, f"the literal {number} has no type here; write float32({number}) or another dtype")
        if not t.is_float and (isinstance(number, float) or (t.kind == "bool") != isinstance(number, bool)):
            self.fail(node, f"the literal {number} is no {t}")
        if t.is_integer and not t.holds(int(number)):
            self.fail(node, f"the literal {number} does not fit {t}")
        try:
            return Const(number, t)
        except OverflowError:
            self.fail(node, f"the literal does not fit {t}")

    def arguments(self, node: ast.expr, args: Sequence[ast.expr], context: DType | None) -> tuple[Value, ...]:
        """Arguments of one type: literals and indices take it from the first that has one."""
        typed = {n: self.value(a, None) for n, a in enumerate(args) if self.sort(a) in ("value", "cond")}
        known = next((v.dtype for v in typed.values()), context)
        out = tuple(typed[n] if n in typed else self.value(a, known) for n, a in enumerate(args))
        types = {v.dtype for v in out}
        if len(types) > 1:
            listed = " and ".join(sorted(map(str, types)))
            self.fail(node, f"{listed} are mixed; cast one, such as float32(x)")
        return out

    def op(self, node: ast.expr, name: str, args: Sequence[ast.expr], context: DType | None) -> Value:
        fn = REGISTRY[name]
        if len(args) != fn.arity:
            self.fail(node, f"{name} takes {fn.arity} arguments, and {len(args)} are given")
        values = self.arguments(node, args, context if fn.result == "same" else None)
        if values[0].dtype.kind not in fn.kinds:
            self.fail(node, f"{name} takes {' or '.join(sorted(fn.kinds))}, not {values[0].dtype}")
        return Op(fn, values)

    def call(self, node: ast.expr, name: str, args: Sequence[ast.expr], context: DType | None) -> Value:
        if name in BY_NAME and len(args) == 1:
            return self.converted(args[0], dtype(name))
        if name in ("select", "where") and len(args) == 3:
            return Select(self.cond(args[0]), *self.arguments(node, args[1:], context))
        if name in ("cond", "truth"):
            return IndexToValue(self.cond(node), context or bool_)
        if name in REGISTRY:
            return self.op(node, name, args, context)
        if not name:
            self.fail(node, "a nest calls operations of one element by name, as exp(a[i])")
        close = get_close_matches(name, [*REGISTRY, "select", *BY_NAME], n=3)
        known = "; a function from around the nest is none: write what it does" if name in self.constants else ""
        hint = (
            f"did you mean {' or '.join(close)}?"
            if close and not known
            else "exp, sqrt, maximum and so on are, as in dir(lp)"
        )
        self.fail(node, CALLS.get(name, f"{name!r} is no operation of one element; {hint}{known}"))

    def converted(self, node: ast.expr, to: DType) -> Value:
        match self.sort(node):
            case "index":
                return IndexToValue(self.index(node), to)
            case "cond" if self.number(node) is None:
                return IndexToValue(self.cond(node), to)
            case "literal" | "cond" if (number := self.number(node)) is not None:
                return self.constant(node, number, to)
            case _:
                return Cast(self.value(node, None), to)

"""Print a Func as Python source, which `loopir.ir.parser.parse` reads back.

`parse(text(f)) == f` for every Func that verifies, so the text preserves the tree: it has parentheses where Python
would build another tree, a type on a literal where the parser cannot infer it, and a label where it is not the default
(the first buffer's name, made unique in textual order).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from loopir.errors import VerifyError, literal
from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    AXES,
    Add,
    Alloc,
    And,
    Arg,
    AsyncCommit,
    AsyncWait,
    Barrier,
    Body,
    Buffer,
    Cast,
    Cmp,
    Cond,
    Const,
    ExpectTx,
    Fence,
    FloorDiv,
    Fragment,
    Func,
    If,
    Index,
    IndexToValue,
    InstrCall,
    InstrRegion,
    Int,
    InTurn,
    Kernel,
    Layout,
    Load,
    Loop,
    Mapped,
    Max,
    MBarrierInit,
    MBarrierWait,
    Min,
    Mod,
    Monoid,
    Mul,
    Node,
    Not,
    Op,
    Or,
    Param,
    Prefetch,
    Reduce,
    RegisterFence,
    Select,
    SetMaxRegs,
    Stmt,
    Store,
    Strided,
    Turn,
    Value,
    ValueToCond,
    ValueToIndex,
    Var,
    WarpSpecialized,
    Xor,
)
from loopir.ir.ops import MONOIDS
from loopir.ir.recursion import deep
from loopir.ir.text_width import WIDTH, wrapped
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.walk import fresh_name, nodes

ATOM, UNARY, TIMES, PLUS, SHIFT, BAND, XOR, BOR, COMPARE, NOT, CONJ, DISJ = range(12, 0, -1)
_INFIX = {
    "+": PLUS,
    "-": PLUS,
    "*": TIMES,
    "/": TIMES,
    "//": TIMES,
    "%": TIMES,
    "<<": SHIFT,
    ">>": SHIFT,
    "&": BAND,
    "^": XOR,
    "|": BOR,
    "<": COMPARE,
    "<=": COMPARE,
    "==": COMPARE,
    "!=": COMPARE,
}


@dataclass(frozen=True, slots=True)
class Line:
    """One printed line, and the node it comes from."""

    depth: int
    text: str
    node: Node | None

    def __str__(self) -> str:
        return "    " * self.depth + self.text


class Source(str):
    """Source or a diff: a string that an interactive prompt shows as its lines, not quoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@deep(VerifyError)
def text(node: Node) -> str:
    """A Func, statement, index, condition or value as source."""
    match node:
        case Func():
            return _source(node)
        case Stmt():
            return "\n".join(map(str, _fitted(_body((node,), 0, set())))) + "\n"
        case Index():
            return _index(node)
        case Cond():
            return _cond(node)
        case Value():
            return _value(node)
        case Buffer():
            return f"{node.name}: {_declared(node)}"
        case _:
            return repr(node)


@memoized
def _source(func: Func) -> str:
    return "\n".join(map(str, lines(func))) + "\n"


@deep(VerifyError)
def unwrapped(s: Stmt) -> str:
    """A statement as source whose lines are as long as they are."""
    return "\n".join(map(str, _body((s,), 0, set())))


@deep(VerifyError)
def lines(func: Func) -> list[Line]:
    """The source of `func`, line by line, each with the node it prints."""
    out: list[Line] = []
    monoids = {n.name: n for n in nodes(func) if isinstance(n, Monoid) and not is_builtin(n)}
    for m in monoids.values():
        out += _monoid(m)
    out.append(Line(0, f"def {func.name}({', '.join(map(_param, func.params))}):", func))
    out += (Line(1, f"assume({_cond(c)})", c) for c in func.assumes)
    out += _body(func.body, 1, set())
    return [*_fitted(out)]


def _fitted(whole: Iterable[Line]) -> Iterator[Line]:
    """Lines of at most WIDTH characters: what is longer goes on in lines that stand for no node."""
    for line in whole:
        if len(line.text) + 4 * line.depth <= WIDTH:
            yield line
        else:
            for n, (depth, piece) in enumerate(wrapped(line.text, line.depth)):
                yield Line(depth, piece, None if n else line.node)


def is_builtin(monoid: Monoid) -> bool:
    """Whether `monoid` is the predefined one of its name, so that the text need not define it."""
    make = MONOIDS.get(monoid.name)
    return make is not None and make(tuple(p.type for p in monoid.left)) == monoid


# ---------------------------------------------------------------- declarations


def _param(p: object) -> str:
    if not isinstance(p, Arg):
        return f'{p.name}: "size"'  # type: ignore[attr-defined]
    access = "" if p.access == "in" else f"{p.access} "
    scope = "" if p.buffer.scope == "global" else f" {p.buffer.scope}"
    return f'{p.buffer.name}: "{access}{_declared(p.buffer)}{scope}{_layout(p.buffer.layout, " ")}"'


def _declared(b: Buffer) -> str:
    return f"{b.dtype}[{', '.join(map(_index, b.shape))}]"


def _layout(layout: Layout | None, before: str) -> str:
    match layout:
        case Strided(strides):
            return f"{before}strided({', '.join(map(_index, strides))})"
        case Mapped(dims, at):
            return f"{before}mapped(lambda {', '.join(dims)}: {_index(at)})"
        case Fragment(lanes, registers, dims, at):
            element = f"({', '.join(map(_index, at))}{',' if len(at) == 1 else ''})"
            return f"{before}fragment({lanes}, {registers}, lambda {', '.join(dims)}: {element})"
        case _:
            return ""


def _alloc(b: Buffer) -> str:
    scope = "" if b.scope == "global" else f', scope="{b.scope}"'
    return f'alloc("{_declared(b)}"{scope}{_layout(b.layout, ", layout=")}) as {b.name}'


def _monoid(m: Monoid) -> Iterator[Line]:
    identity = ", ".join(_const(c, c.type) for c in m.identity)
    comma = "," if len(m.identity) == 1 else ""
    yield Line(0, f"@monoid(identity=({identity}{comma}))", m)
    params = ", ".join(f'{p.name}: "{p.type}"' for p in (*m.left, *m.right))
    yield Line(0, f"def {m.name}({params}):", m)
    folded = ", ".join(_value(v, p.type) for v, p in zip(m.combine, m.left, strict=True))
    yield Line(1, f"return {folded}", m)
    yield Line(0, "", None)


# ---------------------------------------------------------------- statements


def _body(body: Body, depth: int, labels: set[str]) -> Iterator[Line]:
    if not body:
        yield Line(depth, "pass", None)
    for s in body:
        yield from _stmt(s, depth, labels)


def _stmt(s: Stmt, depth: int, labels: set[str]) -> Iterator[Line]:
    parts = tuple(_bodies_with_heads(s))
    if not parts:
        yield Line(depth, _without_body(s, labels), s)
    for head, body in parts:
        yield Line(depth, head, s)
        yield from (_instruction_loops if isinstance(s, InstrRegion) else _body)(body, depth + 1, labels)


def _bodies_with_heads(s: Stmt) -> Iterator[tuple[str, Body]]:
    """The bodies of a statement, each with the line above it."""
    match s:
        case Loop(var, extent, kind, body):
            head = f'bind("{kind}", ' if kind in AXES else ("range(" if kind == "serial" else f"{kind}(")
            yield f"for {var} in {head}{_index(extent)}):", body
        case Alloc():
            chain = [s.buffer]
            body = s.body
            while len(body) == 1 and isinstance(body[0], Alloc):
                chain.append(body[0].buffer)
                body = body[0].body
            yield f"with {', '.join(map(_alloc, chain))}:", body
        case If(cond, then, orelse):
            yield f"if {_cond(cond)}:", then
            if orelse:
                yield "else:", orelse
        case InstrRegion(fn, body, ring):
            yield f"with {fn.name}({f'ring={_value(ring)}' if ring is not None else ''}):", body
        case WarpSpecialized((own, others), body):
            yield f"with role({own}, {others}):", body
        case InTurn(body):
            yield "with turns():", body
        case Kernel(name, body):
            yield f'with kernel("{name}"):', body
        case _:
            pass


def _without_body(s: Stmt, labels: set[str]) -> str:
    """A statement that has no body."""
    match s:
        case Store():
            note = _label(s.label, s.buffer.name, labels)
            return f"{_element(s.buffer, s.at)}{note} = {_value(s.value, s.buffer.dtype)}"
        case Reduce():
            return _reduce(s, _label(s.label, s.buffers[0].name, labels))
        case Prefetch(element):
            return f"prefetch({_value(element)})"
        case InstrCall():
            return _instr_call(s)
        case AsyncCommit(group):
            return f"commit({_group_argument(group, '')})"
        case AsyncWait(pending, group):
            return f"wait({pending}{_group_argument(group, ', ')})"
        case MBarrierInit(ring, arrivals):
            return f"init({ring.name}, {arrivals})"
        case ExpectTx(slot, count, block):
            return f"expect({_value(slot)}, {count}{'' if block is None else f', block={_index(block)}'})"
        case MBarrierWait(slot, turn, skip):
            return f"wait_for({_value(slot)}, {turn}{', skip=True' * skip})"
        case RegisterFence(buffer, apart):
            return f"hold({buffer.name}{', apart=True' * apart})"
        case Fence(kind):
            return f'fence("{kind}")'
        case Barrier(threads, cluster):
            return f"barrier({'cluster=True' if cluster else threads or ''})"
        case Turn(group, groups, wait):
            return f"{'take' if wait else 'give'}_turn({_index(group)}, {groups})"
        case SetMaxRegs(registers, more):
            return f"registers({registers}, more={more})"
        case _:
            raise TypeError(f"{type(s).__name__} is no statement of the language")


def _group_argument(group: str, before: str) -> str:
    return "" if group == "copies" else f'{before}"{group}"'


def _instr_call(s: InstrCall) -> str:
    args = [*map(_value, s.operands), *(f"{name}={word:#x}" for name, word in s.words)]
    args += [f"{b.name}={b.buffer.name}[{', '.join(map(_from, b.at, b.sizes))}]" for b in s.boxes]
    args += [f"ring={_value(s.ring)}"] if s.ring is not None else []
    args += [f"blocks={s.blocks}"] if s.blocks > 1 else []
    return f"{s.fn.name}({', '.join(args)})"


def _from(at: Index, size: int) -> str:
    return f"{_index(at)}:+{size}"


def _instruction_loops(body: Body, depth: int, labels: set[str]) -> Iterator[Line]:
    """What an instruction does: its loops, which nest perfectly, on one line."""
    first, heads = body, list[Loop]()
    while len(body) == 1 and isinstance(loop := body[0], Loop) and loop.kind == "serial":
        heads.append(loop)
        body = loop.body
    if len(heads) < 2:
        yield from _body(first, depth, labels)
        return
    names, extents = ", ".join(x.var for x in heads), ", ".join(_index(x.extent) for x in heads)
    yield Line(depth, f"for {names} in grid({extents}):", heads[0])
    yield from _body(body, depth + 1, labels)


def _label(label: str, buffer: str, labels: set[str]) -> str:
    default = fresh_name(buffer, labels)
    labels.add(label)
    return "" if label == default else f': "{label}"'


def _element(b: Buffer, at: tuple[Index, ...]) -> str:
    return f"{b.name}[{', '.join(map(_index, at)) or '()'}]"


def _reduce(s: Reduce, note: str) -> str:
    types = [b.dtype for b in s.buffers]
    values = [_value(v, t) for v, t in zip(s.values, types, strict=True)]
    target = ", ".join(_element(b, s.at) for b in s.buffers)
    plain = not (s.over or s.init is not None or s.atomic or note)
    if plain and s.monoid.name == "sum" and is_builtin(s.monoid):
        return f"{target} += {values[0]}"
    if s.over:
        values.append(f"over={s.over[0] if len(s.over) == 1 else '(' + ', '.join(s.over) + ')'}")
    if s.init is not None:
        inits = [_value(v, t) for v, t in zip(s.init, types, strict=True)]
        values.append(f"init={inits[0] if len(inits) == 1 else '(' + ', '.join(inits) + ')'}")
    if s.atomic:
        values.append("atomic=True")
    if note:
        values.append(f"label={note[2:]}")
    return f"{target} = {s.monoid.name}({', '.join(values)})"


# ---------------------------------------------------------------- indices and conditions


def _wrap(source: str, level: int, need: int) -> str:
    return source if level >= need else f"({source})"


def _index(ix: Index, need: int = 0) -> str:
    source, level = _index_level(ix)
    return _wrap(source, level, need)


def _index_level(ix: Index) -> tuple[str, int]:
    match ix:
        case Int(value):
            return literal(value), ATOM if value >= 0 else UNARY
        case Var(name):
            return name, ATOM
        case Add(a, Int(value)) if value < 0:
            return f"{_index(a, PLUS)} - {literal(-value)}", PLUS
        case Add(a, Mul(Int(-1), b)) if not isinstance(b, Int):
            return f"{_index(a, PLUS)} - {_index(b, TIMES)}", PLUS
        case Add(a, b):
            return f"{_index(a, PLUS)} + {_index(b, TIMES)}", PLUS
        case Mul(Int(-1), b) if not isinstance(b, Int):
            return f"-{_index(b, UNARY)}", UNARY
        case Mul(a, b):
            return f"{_index(a, TIMES)} * {_index(b, UNARY)}", TIMES
        case FloorDiv(a, b):
            return f"{_index(a, TIMES)} // {_index(b, UNARY)}", TIMES
        case Mod(a, b):
            return f"{_index(a, TIMES)} % {_index(b, UNARY)}", TIMES
        case Xor(a, b):
            return f"{_index(a, XOR)} ^ {_index(b, XOR + 1)}", XOR
        case Min(a, b):
            return f"min({_index(a)}, {_index(b)})", ATOM
        case Max(a, b):
            return f"max({_index(a)}, {_index(b)})", ATOM
        case ValueToIndex(Load() as load):
            return _value(load), ATOM
        case ValueToIndex(value):
            return f"opaque({_value(value)})", ATOM
        case _:
            raise TypeError(f"{type(ix).__name__} is no index of the language")


def _cond(c: Cond, need: int = 0) -> str:
    match c:
        case And(()):
            return "True"
        case Or(()):
            return "False"
        case And(terms):
            return _wrap(" and ".join(_cond(t, CONJ + 1) for t in terms), CONJ, need)
        case Or(terms):
            return _wrap(" or ".join(_cond(t, DISJ + 1) for t in terms), DISJ, need)
        case Not(term):
            return _wrap(f"not {_cond(term, NOT)}", NOT, need)
        case Cmp(op, a, b):
            return _wrap(f"{_side(a)} {op} {_side(b)}", COMPARE, need)
        case ValueToCond(Load() | Op() as value):
            return _value(value, need=need)
        case ValueToCond(value):
            return f"truth({_value(value, value.dtype)})"
        case _:
            raise TypeError(f"{type(c).__name__} is no condition of the language")


def _side(ix: Index) -> str:
    """One side of a comparison of indices; a bare element there would make it a comparison of values."""
    return f"index({_index(ix)})" if _is_element(ix) else _index(ix, BOR)


def _is_element(ix: Index) -> bool:
    match ix:
        case ValueToIndex(value):
            return isinstance(value, Load)
        case Add(a, b) | Mul(a, b) | FloorDiv(a, b) | Mod(a, b) | Xor(a, b):
            return _is_element(a) or _is_element(b)
        case _:
            return False


# ---------------------------------------------------------------- values


@memoized
def untyped(v: Value) -> bool:
    """Whether `v` consists of literals alone, so that its type has to be inferred from its context."""
    match v:
        case Const():
            return True
        case Op(fn, args):
            return fn.result == "same" and all(map(untyped, args))
        case Select(_, a, b):
            return untyped(a) and untyped(b)
        case _:
            return False


def _const(c: Const, context: DType | None) -> str:
    literal = repr(c.value)
    return literal if context == c.type else f"{c.type}({literal})"


def _value(v: Value, context: DType | None = None, need: int = 0) -> str:
    """`v` as source; a literal goes without its type where `context` is that type."""
    match v:
        case Const():
            source = _const(v, context)
            return _wrap(source, UNARY if source.startswith("-") else ATOM, need)
        case Load(buffer, at):
            return _element(buffer, at)
        case IndexToValue(Index() as ix, t):
            bare = any(isinstance(n, Var) for n in nodes(ix)) and not any(
                isinstance(n, ValueToIndex) for n in nodes(ix)
            )
            return f"{t}({_index(ix)})" if bare else f"{t}(index({_index(ix)}))"
        case IndexToValue(Cond() as c, t):
            return f"{t}(cond({_cond(c)}))"
        case Cast(value, t):
            return f"{t}({_value(value)})"
        case Select(c, a, b):
            left, right = _arguments((a, b), context)
            return f"select({_cond(c)}, {left}, {right})"
        case Op():
            return _op(v, context, need)
        case Param(name, _):
            return name
        case _:
            raise TypeError(f"{type(v).__name__} is no value of the language")


def _arguments(args: tuple[Value, ...], context: DType | None, needs: tuple[int, ...] = ()) -> list[str]:
    """Sources of values of one type: literals bare if another argument, or the context, has the type."""
    t = args[0].dtype
    known = context if context == t else None
    if not all(map(untyped, args)):
        known = t
    out: list[str] = []
    for n, a in enumerate(args):
        out.append(_value(a, known if untyped(a) else None, needs[n] if needs else 0))
        known = t
    return out


def _op(v: Op, context: DType | None, need: int) -> str:
    fn, args = v.fn, v.args
    context = context if fn.result == "same" else None
    if fn.name == "neg" and not untyped(args[0]):
        return _wrap(f"-{_value(args[0], None, UNARY)}", UNARY, need)
    of_bools = args[0].dtype.kind == "bool" and fn.result == "same" and all(map(untyped, args))
    if fn.infix is None or fn.name == "neg" or of_bools:  # ~True would be a condition
        return f"{fn.name}({', '.join(_arguments(args, context))})"
    if fn.infix == "~":
        return _wrap(f"~{_arguments(args, context, (UNARY,))[0]}", UNARY, need)
    level = _INFIX[fn.infix]
    needs = (level + 1 if level == COMPARE else level, level + 1)
    a, b = _arguments(args, context, needs)
    return _wrap(f"{a} {fn.infix} {b}", level, need)


def _shown(self: Node) -> str:
    return text(self).rstrip("\n")


Func.__repr__ = Loop.__repr__ = _shown
"""What a prompt shows of a program or a nest: its source. Grammar comes before this module, which knows how."""

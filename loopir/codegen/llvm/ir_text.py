"""LLVM IR as text: types, values, blocks, functions and modules.

A value is a type and a name. An instruction is stored only as its line: nothing reads it again, and writing the line at
once takes a fraction of the time that an object would. Two kinds of lines are written when the function is complete: a
`Phi`, and a `Link` of an address. `loopir.codegen.llvm.builder` appends instructions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

# ---------------------------------------------------------------- types


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type, one object for each: its text, and its part in the name of an intrinsic."""

    text: str
    short: str
    bits: int = 0
    """Of an integer."""
    element: Type | None = None
    count: int = 0
    """Of what a vector is, and how many."""

    @property
    def scalar(self) -> Type:
        return self.element or self


HALF, BFLOAT, FLOAT, DOUBLE = Type("half", "f16"), Type("bfloat", "bf16"), Type("float", "f32"), Type("double", "f64")
POINTER, VOID = Type("ptr", "p0"), Type("void", "isVoid")


_MADE: dict[str, Type] = {}


def _one(made: Type) -> Type:
    """The one object for this type, whichever thread makes it first, and where caches are dropped, too."""
    return _MADE.setdefault(made.text, made)


@cache
def integer(bits: int) -> Type:
    return _one(Type(f"i{bits}", f"i{bits}", bits))


@cache
def vector(element: Type, count: int) -> Type:
    return _one(Type(f"<{count} x {element.text}>", f"v{count}{element.short}", element=element, count=count))


def like(v: Operand, scalar: Type) -> Type:
    """The type `scalar`, or a vector of it with as many lanes as `v` has."""
    return vector(scalar, v.type.count) if v.type.count else scalar


I1, I8, I16, I32, I64 = map(integer, (1, 8, 16, 32, 64))


# ---------------------------------------------------------------- values


class Operand:
    """An operand of an instruction: its type, its name, and both as text."""

    __slots__ = ("text", "type", "typed")

    def __init__(self, kind: Type, text: str) -> None:
        self.type, self.text, self.typed = kind, text, f"{kind.text} {text}"


class Constant(Operand):
    """A constant, with the number of a scalar."""

    __slots__ = ("number",)

    def __init__(self, kind: Type, text: str, number: float | None = None) -> None:
        super().__init__(kind, text)
        self.number = number


@lru_cache(maxsize=4096, typed=True)
def word(number: int, kind: Type = I64) -> Constant:
    """An integer constant, wrapped to its width."""
    half = 1 << (kind.bits - 1)
    number = number & 1 if kind is I1 else (number + half) % (2 * half) - half
    return Constant(kind, ("false", "true")[number] if kind is I1 else str(number), number)


def constant(kind: Type, number: float) -> Constant:
    """A constant of type `kind`, which holds it exactly; of a vector type, in all lanes."""
    if kind.element is not None:
        one = constant(kind.element, number)
        return Constant(kind, f"splat ({one.typed})")
    return word(int(number), kind) if kind.bits else Constant(kind, _decimal(number, kind), number)


def listed(kind: Type, numbers: Iterable[int]) -> Constant:
    """A constant vector of integers."""
    return _listed(kind, tuple(numbers))


@lru_cache(maxsize=256)
def _listed(kind: Type, numbers: tuple[int, ...]) -> Constant:
    return Constant(kind, f"<{', '.join(word(n, kind.scalar).typed for n in numbers)}>")


@lru_cache(maxsize=256)
def zero(kind: Type) -> Constant:
    """The zero of a type."""
    number = None if kind.element is not None or kind is POINTER else 0
    return word(0, kind) if kind.bits else Constant(kind, "null" if kind is POINTER else "zeroinitializer", number)


@lru_cache(maxsize=256)
def poison(kind: Type) -> Constant:
    """The poison value of a type."""
    return Constant(kind, "poison")


def _decimal(x: float, kind: Type) -> str:
    """A float, by its digits where those are few, else by its bits; a float32 by those of a float64."""
    if kind is HALF:
        return f"0xH{struct.unpack('>H', struct.pack('>e', x))[0]:04X}"
    if x.is_integer() and abs(x) < 1 << 24:
        return repr(x)
    return f"0x{struct.unpack('>Q', struct.pack('>d', x))[0]:016X}"


# ---------------------------------------------------------------- lines


class Phi(Operand):
    """A phi: a value for each predecessor block."""

    __slots__ = ("incoming",)

    def __init__(self, kind: Type, text: str) -> None:
        super().__init__(kind, text)
        self.incoming: list[tuple[Operand, Block]] = []

    def spelt(self, left: bool) -> tuple[str, ...]:
        pairs = ", ".join(f"[ {v.text}, %{block.name} ]" for v, block in self.incoming)
        return (f"{self.text} = phi {self.type.text} {pairs}",)


HIDE = "llvm.strip.invariant.group.p0"


class Link(Operand):
    """An address computed from the previous link and the term of one loop.

    Where LLVM has no loops `left` to optimize, links are passed through `llvm.strip.invariant.group`, which becomes no
    instruction: `LoopStrengthReduce` would reconsider every address, which the chains have already settled, and double
    the time of instruction selection.
    """

    __slots__ = ("made",)

    def __init__(self, text: str, made: str) -> None:
        super().__init__(POINTER, text)
        self.made = made

    def spelt(self, left: bool) -> tuple[str, ...]:
        if left:
            return (f"{self.text} = {self.made}",)
        return f"{self.text}.at = {self.made}", f"{self.text} = call ptr @{HIDE}(ptr {self.text}.at)"


class Block:
    """A basic block: lines, each with its loop. A line appended after it `ended` goes before the terminator."""

    __slots__ = ("ended", "lines", "loop", "loops", "name")

    def __init__(self, label: str, loop: str | None) -> None:
        self.name, self.loop, self.ended = label, loop, False
        self.lines: list[str | Phi | Link] = []
        self.loops: list[str | None] = []

    def put(self, line: str | Phi | Link, loop: str | None) -> None:
        if self.ended:
            self.lines.insert(-1, line)
            self.loops.insert(-1, loop)
        else:
            self.lines.append(line)
            self.loops.append(loop)


# ---------------------------------------------------------------- modules


@dataclass(slots=True, eq=False)
class Callee:
    """A callee: its return type, and its name or address."""

    result: Type
    text: str

    @property
    def pointer(self) -> Operand:
        return Operand(POINTER, self.text)


class Function(Callee):
    """A function, with its arguments as (type, name, attribute); local names are made unique by numbers."""

    __slots__ = ("args", "blocks", "label", "parts", "taken")

    def __init__(
        self, label: str, result: Type, args: Sequence[tuple[Type, str, str]], *, how: str = "", linkage: str = ""
    ) -> None:
        super().__init__(result, f"@{label}")
        self.label, self.taken, self.blocks = label, dict[str, int](), list[Block]()
        self.args = tuple(Operand(kind, f"%{self.named(x)}") for kind, x, _ in args)
        told = (f"{v.type.text}{attribute} {v.text}" for v, (*_, attribute) in zip(self.args, args, strict=True))
        self.parts = (linkage, ", ".join(told), how)

    @property
    def head(self) -> str:
        """Its first line, without the brace."""
        linkage, args, how = self.parts
        return f"define {linkage and linkage + ' '}{self.result.text} {self.text}({args}){how}"

    def hidden(self, label: str) -> None:
        """Call it `label`, by which only the module knows it."""
        self.label, self.text, self.parts = label, f"@{label}", ("internal", *self.parts[1:])

    def named(self, base: str) -> str:
        """A name that nothing in the function has."""
        count = self.taken.get(base, 0)
        self.taken[base] = count + 1
        return f"{base}.{count}" if count else base


@dataclass(slots=True)
class Module:
    """A module: functions, declarations, and metadata."""

    functions: list[Function] = field(default_factory=list[Function])
    vector_functions: frozenset[str] = frozenset()
    """The symbols of functions of vectors that it may call."""
    callees: dict[str, tuple[Callee, str]] = field(default_factory=dict[str, tuple[Callee, str]])
    notes: list[str] = field(default_factory=list[str])

    def declared(self, label: str, result: Type, args: Sequence[Type]) -> Callee:
        """A function that is elsewhere."""
        if label not in self.callees:
            given = ", ".join(x.text for x in args)
            self.callees[label] = Callee(result, f"@{label}"), f"declare {result.text} @{label}({given})"
        return self.callees[label][0]

    def defined(self, label: str, result: Type, text: str) -> Callee:
        """A function that is given as its text."""
        return self.callees.setdefault(label, (Callee(result, f"@{label}"), text))[0]

    def data(self, label: str, content: bytes, align: int) -> Operand:
        """Where these bytes lie, which all of the module share."""
        text = "".join(f"\\{n:02X}" for n in content)
        kind = f"[{len(content)} x i8]"
        head = f'@{label} = private constant {kind} c"{text}", align {align}'
        self.callees[label] = Callee(VOID, f"@{label}"), head
        return self.callees[label][0].pointer

    def note(self, text: str) -> str:
        """The number of a note, of which there is one each."""
        if text not in self.notes:
            self.notes.append(text)
        return f"!{self.notes.index(text)}"

    def own_note(self, *told: str) -> str:
        """A note that is itself its first part: what is called a loop."""
        self.notes.append(f"distinct !{{!{len(self.notes)}, {', '.join(told)}}}")
        return f"!{len(self.notes) - 1}"

    def written(self, left: bool) -> tuple[str, tuple[str | None, ...]]:
        """The text, and the loop that each line came from; is LLVM `left` to make loops faster?"""
        pairs: list[tuple[str, str | None]] = [
            (line, None) for _, text in self.callees.values() for line in text.splitlines()
        ]
        if not left:
            pairs.append((f"declare ptr @{HIDE}(ptr)", None))
        for fn in self.functions:
            pairs += (("", None), (f"{fn.head} {{", None))
            for block in fn.blocks:
                pairs.append((f"{block.name}:", block.loop))
                pairs += _lines(block, left)
            pairs.append(("}", None))
        pairs += ((f"!{n} = {text}", None) for n, text in enumerate(self.notes))
        return "\n".join(line for line, _ in pairs) + "\n", tuple(loop for _, loop in pairs)


def _lines(block: Block, left: bool) -> Iterator[tuple[str, str | None]]:
    for line, loop in zip(block.lines, block.loops, strict=True):
        for text in (line,) if isinstance(line, str) else line.spelt(left):
            yield f"  {text}", loop

"""Append LLVM instructions, as lines, to basic blocks; build branches and loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

from loopir.codegen.llvm.ir_text import (
    I1,
    I32,
    POINTER,
    VOID,
    Block,
    Callee,
    Constant,
    Function,
    Link,
    Module,
    Operand,
    Phi,
    Type,
    constant,
    like,
    listed,
    poison,
    vector,
    zero,
)

_WEIGHTS = ("i32 1, i32 99", "i32 99, i32 1")

BranchBody: TypeAlias = "AbstractContextManager[None]"


class Builder:
    """Appends instructions to `block`, recording `loop` as their origin."""

    def __init__(self, module: Module, fn: Function, label: str = "entry") -> None:
        self.module, self.fn = module, fn
        self.loop: str | None = None
        self.count = 0
        self.divided = 0
        """Divisions by what is no constant."""
        self.block = self.new_block(label)

    # ------------------------------------------------------------ blocks

    def new_block(self, label: str) -> Block:
        """A block after those that are there; nothing goes to it by itself."""
        block = Block(self.fn.named(label), self.loop)
        self.fn.blocks.append(block)
        return block

    @contextmanager
    def at(self, block: Block) -> Iterator[None]:
        """What is written in this context is put before the end of `block`."""
        here, loop = self.block, self.loop
        self.block, self.loop = block, block.loop
        yield
        self.block, self.loop = here, loop

    @contextmanager
    def marked(self, loop: str) -> Iterator[None]:
        """What is written in this context came from `loop`."""
        around, self.loop = self.loop, loop
        yield
        self.loop = around

    def end(self, line: str) -> None:
        self.block.put(line, self.loop)
        self.block.ended = True

    def jump(self, to: Block) -> None:
        self.end(f"br label %{to.name}")

    def jump_if(self, test: Operand, to: Block, other: Block, *, loop: str = "", likely: bool | None = None) -> None:
        """Go `to` one block or the `other`; `loop` is the note of a loop that this closes."""
        note = f", !llvm.loop {loop}" if loop else ""
        if likely is not None:
            weights = self.module.note(f'!{{!"branch_weights", {_WEIGHTS[likely]}}}')
            note = f", !prof {weights}"
        self.end(f"br {test.typed}, label %{to.name}, label %{other.name}{note}")

    def ret(self, v: Operand) -> None:
        self.end(f"ret {v.typed}")

    @contextmanager
    def if_then(self, test: Operand, *, likely: bool | None = None) -> Iterator[None]:
        """What is written in this context is done if `test` holds."""
        then, after = self.new_block("then"), self.new_block("after")
        self.jump_if(test, then, after, likely=likely)
        with self.within(then, after):
            yield
        self.block = after

    @contextmanager
    def if_else(self, test: Operand, *, likely: bool | None = None) -> Iterator[tuple[BranchBody, BranchBody]]:
        """Two contexts, of what is done if `test` holds and of what is done else."""
        then, other, after = (self.new_block(x) for x in ("then", "else", "after"))
        self.jump_if(test, then, other, likely=likely)
        yield self.within(then, after), self.within(other, after)
        self.block = after

    @contextmanager
    def within(self, block: Block, after: Block) -> Iterator[None]:
        """What is written in this context is a block that `after` comes after."""
        self.block = block
        yield
        if not self.block.ended:
            self.jump(after)

    # ------------------------------------------------------------ lines

    def made(self, kind: Type, text: str) -> Operand:
        """What an instruction gives."""
        self.count += 1
        out = Operand(kind, f"%.{self.count}")
        self.block.put(f"{out.text} = {text}", self.loop)
        return out

    def do(self, text: str) -> None:
        self.block.put(text, self.loop)

    def phi(self, kind: Type, *incoming: tuple[Operand, Block], label: str = "") -> Phi:
        """A value by the block before this one, whose first lines are these."""
        self.count += not label
        out = Phi(kind, f"%{self.fn.named(label)}" if label else f"%.{self.count}")
        out.incoming.extend(incoming)
        self.block.put(out, self.loop)
        return out

    def call(self, fn: Callee, args: Sequence[Operand], *, flags: str = "") -> Operand:
        text = f"call{flags} {fn.result.text} {fn.text}({', '.join(v.typed for v in args)})"
        if fn.result is not VOID:
            return self.made(fn.result, text)
        self.do(text)
        return poison(I1)

    # ------------------------------------------------------------ memory

    def alloca(self, kind: Type | str, align: int) -> Operand:
        return self.made(POINTER, f"alloca {kind if isinstance(kind, str) else kind.text}, align {align}")

    def load(self, kind: Type, address: Operand, align: int) -> Operand:
        return self.made(kind, f"load {kind.text}, {address.typed}, align {align}")

    def store(self, v: Operand, address: Operand, align: int, *, note: str = "") -> None:
        self.do(f"store {v.typed}, {address.typed}, align {align}{note}")

    def gep(self, element: Type | str, address: Operand, *by: Operand) -> Operand:
        kind = element if isinstance(element, str) else element.text
        return self.made(POINTER, f"getelementptr {kind}, {', '.join(v.typed for v in (address, *by))}")

    def link(self, element: Type, address: Operand, by: Operand) -> Operand:
        """The address after one, by so many elements; a link of a chain."""
        self.count += 1
        out = Link(f"%.{self.count}", f"getelementptr {element.text}, {address.typed}, {by.typed}")
        self.block.put(out, self.loop)
        return out

    # ------------------------------------------------------------ vectors

    def extract_element(self, v: Operand, lane: int) -> Operand:
        return self.made(v.type.scalar, f"extractelement {v.typed}, i32 {lane}")

    def insert_element(self, v: Operand, one: Operand, lane: int) -> Operand:
        return self.made(v.type, f"insertelement {v.typed}, {one.typed}, i32 {lane}")

    def shuffled(self, v: Operand, lanes: Sequence[int]) -> Operand:
        """A vector of these lanes of `v`."""
        which = listed(vector(I32, len(lanes)), lanes)
        kind = vector(v.type.scalar, len(lanes))
        return self.made(kind, f"shufflevector {v.typed}, {v.type.text} poison, {which.typed}")

    def shuffled_with_zeros(self, v: Operand, lanes: Sequence[int | None]) -> Operand:
        """A vector of these lanes of `v`, and of zeros where there is none."""
        return self._both(v, zero(v.type), [v.type.count if n is None else n for n in lanes])

    def woven(self, x: Operand, y: Operand) -> Operand:
        """The lanes of two vectors in turn."""
        return self._both(x, y, [n // 2 + n % 2 * x.type.count for n in range(2 * x.type.count)])

    def joined(self, x: Operand, y: Operand) -> Operand:
        """The lanes of one vector, and then those of another."""
        count, other = x.type.count, y.type.count
        wide = max(count, other)
        x, y = (
            v if n == wide else self.shuffled(v, [min(k, n - 1) for k in range(wide)])
            for v, n in ((x, count), (y, other))
        )
        return self._both(x, y, [*range(count), *range(wide, wide + other)])

    def _both(self, x: Operand, y: Operand, lanes: Sequence[int]) -> Operand:
        which = listed(vector(I32, len(lanes)), lanes)
        return self.made(vector(x.type.scalar, len(lanes)), f"shufflevector {x.typed}, {y.typed}, {which.typed}")

    def spread(self, one: Operand, width: int) -> Operand:
        """A scalar in so many lanes."""
        kind = vector(one.type, width)
        first = self.made(kind, f"insertelement {kind.text} poison, {one.typed}, i32 0")
        return self.made(kind, f"shufflevector {first.typed}, {kind.text} poison, <{width} x i32> zeroinitializer")

    # ------------------------------------------------------------ arithmetic

    def division(self, how: str, x: Operand, y: Operand) -> Operand:
        self.divided += not isinstance(y, Constant)
        return self.op(how, x, y)

    def op(self, how: str, x: Operand, y: Operand | float) -> Operand:
        """An operation of two values of one type, by LLVM's word for it. A number is one of the other's type."""
        other = y if isinstance(y, Operand) else constant(x.type, y)
        return self.made(x.type, f"{how} {x.typed}, {other.text}")

    def not_(self, x: Operand) -> Operand:
        return self.op("xor", x, constant(x.type, -1))

    def neg(self, x: Operand) -> Operand:
        return self.op("sub", constant(x.type, 0), x)

    def icmp(self, how: str, x: Operand, y: Operand | float) -> Operand:
        """A test of integers by LLVM's word for it, such as "slt"."""
        other = y if isinstance(y, Operand) else constant(x.type, y)
        return self.made(like(x, I1), f"icmp {how} {x.typed}, {other.text}")

    def fcmp(self, how: str, x: Operand, y: Operand | float) -> Operand:
        other = y if isinstance(y, Operand) else constant(x.type, y)
        return self.made(like(x, I1), f"fcmp {how} {x.typed}, {other.text}")

    def select(self, test: Operand, x: Operand | float, y: Operand | float) -> Operand:
        """One of two values, of which one may be a number."""
        kind = next(v.type for v in (x, y) if isinstance(v, Operand))
        a, b = (v if isinstance(v, Operand) else constant(kind, v) for v in (x, y))
        return self.made(kind, f"select {test.typed}, {a.typed}, {b.typed}")

    def freeze(self, x: Operand) -> Operand:
        """A value of which every lane is kept, whatever is done with it."""
        return self.made(x.type, f"freeze {x.typed}")

    # ------------------------------------------------------------ conversions

    def cast(self, how: str, v: Operand, to: Type) -> Operand:
        """`v` as another type, by LLVM's word for how."""
        return self.made(to, f"{how} {v.typed} to {to.text}")

    def bitcast(self, v: Operand, to: Type) -> Operand:
        return v if v.type is to else self.cast("bitcast", v, to)

"""Emit expressions in LLVM IR: as scalars, or as one vector for all lanes of a vector loop.

A uniform value stays a scalar until it is combined with one that varies by lane. Floats of 16 bits and fewer are held
as float32 and rounded after every operation. Integer division never traps, and the arm of a Select that is not chosen
is not loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from math import prod
from typing import TypeVar

from loopir.codegen.llvm import ops
from loopir.codegen.llvm.builder import Builder
from loopir.codegen.llvm.index import Indices, is_vector, taken_apart, value_at
from loopir.codegen.llvm.ir_text import (
    DOUBLE,
    I1,
    I64,
    Block,
    Callee,
    Constant,
    Operand,
    Type,
    constant,
    like,
    listed,
    vector,
    word,
    zero,
)
from loopir.codegen.llvm.loop_metadata import RemainingWork
from loopir.codegen.llvm.narrow_index import IndexWidth, NarrowIndices
from loopir.ir.dtypes import DType, bool_, float32, int32, int64
from loopir.ir.grammar import (
    And,
    Buffer,
    Cast,
    Cmp,
    Cond,
    Const,
    Index,
    IndexToValue,
    Int,
    Load,
    Node,
    Not,
    Op,
    Or,
    Param,
    Select,
    Value,
    ValueToCond,
    Var,
)
from loopir.ir.ops import Intrinsic
from loopir.ir.traverse.rebuild import distinct_nodes
from loopir.ir.traverse.walk import free_vars, nodes

T = TypeVar("T")
CACHE_LINE = 64
"""Bytes."""
MAX_SHUFFLE_DISTANCE = 4
"""How far from each other elements are, at most, that are picked from whole vectors."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The vector loop being emitted: its variable and the number of lanes."""

    var: str
    width: int


class Values:
    """Emits indices, conditions and values at the builder's position."""

    def __init__(self, builder: Builder, fma: bool, width: IndexWidth, read: frozenset[str] = frozenset()) -> None:
        self.b, self.read_buffers = builder, read
        self.flags = " contract" if fma else ""
        self.indices = Indices(builder, self.spread, self.number)
        self.env, self.index, self.alike = self.indices.env, self.indices.index, self.indices.alike
        self.narrow = NarrowIndices(self.indices, width, self.has_lanes, self.value)
        self.indices.narrow = self.narrow
        self.pointers: dict[str, Operand] = {}
        self.params: dict[str, Operand] = {}
        self.memo: dict[int, Operand] | None = None
        self.common: dict[Value, Operand] | None = None
        self.lanes: Lanes | None = None
        self.mask: Operand | None = None
        self.by_data = False
        """Whether what the arrays hold decides which lanes act: seldom a line of memory that none of them takes."""
        self.private: set[str] = set()
        self.stack: dict[str, Operand] = {}
        self.tiles: dict[str, tuple[int, int]] = {}
        """Of what is in registers that instructions know by number the first, and how many there are."""
        self.left = RemainingWork()
        self.block: Block | None = None
        self.known: dict[str, dict[tuple[Operand, Type], Operand]] = {}
        """What was loaded in the block: of a buffer, from where, as what."""
        self.whole_stores = set[tuple[Operand, Type]]()
        """What was stored in the block with no mask: where, as what."""

    # ------------------------------------------------------------ lanes

    def enter_lanes(self, var: str, width: int) -> None:
        self.lanes = Lanes(var, width)
        self.env[var] = listed(vector(I64, width), range(width))

    def leave_lanes(self) -> None:
        self.lanes = None

    def in_first_lane(self, spell: Callable[[], T]) -> T:
        """What `spell` makes of indices that are those of lane 0."""
        if self.lanes is None:
            return spell()
        var, saved = self.lanes.var, self.env[self.lanes.var]
        self.env[var] = word(0)
        out = spell()
        self.env[var] = saved
        return out

    @contextmanager
    def masked(self, test: Operand, cond: Cond) -> Iterator[None]:
        """Only the lanes where `test`, which is of `cond`, holds act."""
        saved, common, by_data = self.mask, self.common, self.by_data
        self.mask = test if saved is None else self.b.op("and", saved, test)
        self.by_data = (saved is None or by_data) and _loads(cond)
        self.common = None if common is None else dict(common)  # what more lanes made is there for fewer
        yield
        self.mask, self.common, self.by_data = saved, common, by_data

    @contextmanager
    def bound(self, env: Mapping[str, Operand]) -> Iterator[None]:
        """Monoid components, or an expansion's arguments, by name."""
        saved = self.params
        self.params = {**saved, **env}
        yield
        self.params = saved

    def varies(self, n: Node) -> bool:
        """Whether `n` may differ from lane to lane."""
        lane = self.lanes
        if lane is None:
            return False
        if lane.var in free_vars(n):
            return True
        return (bool(self.private) or any(map(is_vector, self.params.values()))) and any(
            (isinstance(x, Param) and x.name in self.params and is_vector(self.params[x.name]))
            or (isinstance(x, Buffer) and x.name in self.private)
            for x in nodes(n)
        )

    def has_lanes(self, ix: Index) -> bool:
        """Whether `ix` may differ from lane to lane where it is emitted, which `in_first_lane` nothing does."""
        return self.lanes is not None and is_vector(self.env[self.lanes.var]) and self.varies(ix)

    def spread(self, v: Operand) -> Operand:
        """`v` in every lane."""
        if self.lanes is None or is_vector(v):
            return v
        if isinstance(v, Constant) and v.number is not None:
            return constant(vector(v.type, self.lanes.width), v.number)
        return self.b.spread(v, self.lanes.width)

    # ------------------------------------------------------------ indices and conditions

    def number(self, v: Value) -> Operand:
        """An integer in 64 bits."""
        return ops.resized(self.b, self.value(v), I64, v.dtype)

    def elements(self, shape: Sequence[Index]) -> tuple[Operand, Operand]:
        """The number of elements in a buffer, and the same as a float64, which does not wrap."""
        count: Operand = word(1)
        size: Operand = constant(DOUBLE, 1.0)
        for d in shape:
            extent = ops.spell(self.b, "llvm.smax", (self.index(d), word(0)), int64)
            count = self.b.op("mul", count, extent)
            size = self.b.op("fmul", size, self.b.cast("sitofp", extent, DOUBLE))
        return count, size

    def cond(self, c: Cond) -> Operand:
        match c:
            case And(terms) | Or(terms):
                return self.joined(terms, isinstance(c, And))
            case Not(term):
                return self.b.not_(self.cond(term))
            case Cmp():
                return self.indices.test(c)
            case ValueToCond(value):
                return self.value(value)
            case _:
                raise TypeError(f"{type(c).__name__} is no condition")

    def joined(self, terms: Sequence[Cond], every: bool) -> Operand:
        """Whether all terms hold, or any. One that reads memory is evaluated where those before leave it open."""
        join = "and" if every else "or"
        total: Operand = constant(I1, int(every))
        for n, t in enumerate(terms):
            if n == 0 or not _may_fault(t):
                total = self.b.op(join, *self.alike(total, self.cond(t)))
                continue
            undecided = total if every else self.b.not_(total)
            if is_vector(undecided):
                with self.masked(undecided, And(tuple(terms[:n]))):
                    found = self.cond(t)
            else:
                found = self.branch(undecided, partial(self.cond, t), lambda: zero(I1))
            total = self.b.op(join, *self.alike(total, found))
        return total

    # ------------------------------------------------------------ memory

    def place(self, b: Buffer, ix: Index) -> Index:
        """Where element `ix` lies: memory of a lane's own holds each element for all lanes, side by side."""
        if self.lanes is None or b.name not in self.private:
            return ix
        return ix * self.lanes.width + Var(self.lanes.var)

    def stride(self, ix: Index) -> int | None:
        """How far `ix` moves from lane to lane; None if that differs."""
        assert self.lanes is not None
        stride = 0
        for part, n in taken_apart(ix)[0]:
            if isinstance(part, Var):
                stride += n * (part.name == self.lanes.var)
            elif self.varies(part):
                return None
        return stride

    def address(self, b: Buffer, ix: Index, *, wide: bool = False) -> Operand:
        """Where element `ix` of `b` lies, that of lane 0 if it differs from lane to lane; several if `wide`."""
        out = self.in_first_lane(partial(self.indices.address, self.pointers[b.name], ops.memory_type(b.dtype), ix))
        wide = wide or self.lanes is not None
        self.left.accessed(b.name, self.indices.depth(out), stack=b.name in self.stack, wide=wide)
        return out

    def whole_vector(self, b: Buffer, ix: Index) -> bool:
        """Whether all lanes are in `b` and it may be registers: then what a mask leaves out may be read, too."""
        assert self.lanes is not None
        if b.name not in self.stack or not all(isinstance(d, Int) for d in b.shape):
            return False
        terms, first = self.in_first_lane(partial(self.indices.sum, ix))
        room = prod(d.value for d in b.shape if isinstance(d, Int))
        return not terms and 0 <= first <= room - self.lanes.width

    def element(self, b: Buffer, offsets: Operand, lane: int) -> Operand:
        """Where the element of `b` lies that a lane of `offsets` tells."""
        at = self.b.extract_element(offsets, lane)
        at = at if at.type is I64 else self.b.cast("zext", at, I64)
        return self.b.gep(ops.memory_type(b.dtype), self.pointers[b.name], at)

    def load(self, b: Buffer, at: Index) -> Operand:
        return ops.from_memory(self.b, self.raw(b, at), b.dtype)

    def raw(self, b: Buffer, at: Index) -> Operand:
        """An element as it lies in memory; of all lanes where data choose some, and all are there."""
        saved = self.mask
        if saved is not None and self.by_data and self.narrow.width.is_inside(at, b):
            self.mask = None
        found = self._raw(b, at)
        self.mask = saved
        return found

    def _raw(self, b: Buffer, at: Index) -> Operand:
        kind = ops.memory_type(b.dtype)
        lanes, ix = self.lanes, self.place(b, at)
        stride = self.stride(ix) if lanes is not None else 0

        def one() -> Operand:
            return self.read(b, self.address(b, ix), kind)

        if lanes is None or (stride == 0 and self.mask is None):
            raw = one()
        elif stride == 0 and self.mask is not None:
            any_lane = ops.any_true(self.b, self.mask)
            raw = self.branch(any_lane, one, lambda: zero(kind))
        elif stride == 1:
            wide = vector(kind, lanes.width)
            address = self.address(b, ix)
            if self.mask is None or self.whole_vector(b, ix) or self.is_loaded(b, address, wide):
                raw = self.read(b, address, wide)
            else:
                raw = ops.masked_load(self.b, address, wide, b.dtype.bytes, self.mask)
        elif stride is not None and abs(stride) <= MAX_SHUFFLE_DISTANCE and self.mask is None:
            raw = self.near(b, self.address(b, ix, wide=True), stride)
        elif stride is None and self.mask is None and (offsets := self.lane_offsets(ix, groups=MAX_SHUFFLE_DISTANCE)):
            raw = self.picked(b, self.address(b, ix, wide=True), offsets)
        elif self.mask is not None and (offsets := self.lane_offsets(ix, spread=MAX_SHUFFLE_DISTANCE)):
            raw = self.picked_masked(b, self.address(b, ix, wide=True), offsets, self.mask)
        else:
            raw = self.gather(b, ix, anywhere=stride is None)
        return raw

    def lane_offsets(self, ix: Index, *, groups: int = 0, spread: int = 0) -> list[int]:
        """How far from that of lane 0 the element of each lane is; none if it is not known, or if they are in more
        than so many `groups` and spread over more than `spread` vectors."""
        assert self.lanes is not None
        varying = [(part, n) for part, n in taken_apart(ix)[0] if self.varies(part)]
        out: list[int] = []
        for lane in range(self.lanes.width):
            found = [value_at(part, self.lanes.var, lane) for part, _ in varying]
            if None in found:
                return []
            out.append(sum(n * x for (_, n), x in zip(varying, found, strict=True) if x is not None))
        few = max(out) - min(out) < self.lanes.width * spread or len(_offset_ranges(out, self.lanes.width)) <= groups
        return [x - out[0] for x in out] if few else []

    def picked(self, b: Buffer, first: Operand, offsets: Sequence[int]) -> Operand:
        """Elements at `offsets` from `first`, from a load for each group of them: all from its first to its last."""
        assert self.lanes is not None
        kind, groups = ops.memory_type(b.dtype), _offset_ranges(offsets, self.lanes.width)
        if len(groups) == 1 and len(groups[0]) == 1:
            return self.read(b, first, kind)
        at, loaded = dict[int, int](), list[Operand]()
        for group in groups:
            at |= {x: sum(v.type.count for v in loaded) + x - group[0] for x in group}
            begin = self.b.gep(kind, first, word(group[0])) if group[0] else first
            loaded.append(self.read(b, begin, vector(kind, len(group))))
        return self.b.shuffled(reduce(self.b.joined, loaded), [at[x] for x in offsets])

    def picked_masked(self, b: Buffer, first: Operand, offsets: Sequence[int], mask: Operand) -> Operand:
        """Elements at `offsets` from `first` in the lanes of `mask`, from one load of those that such a lane takes."""
        kind, least = ops.memory_type(b.dtype), min(offsets)
        whole = vector(kind, max(offsets) - least + 1)
        if least == 0 and self.is_loaded(b, first, whole):
            return self.b.shuffled(self.read(b, first, whole), offsets)
        takers = [[n for n, x in enumerate(offsets) if x == place + least] for place in range(whole.count)]
        taken = [
            self.b.shuffled_with_zeros(mask, [lanes[n] if n < len(lanes) else None for lanes in takers])
            for n in range(max(map(len, takers)))
        ]
        some = taken[0]
        for more in taken[1:]:
            some = self.b.op("or", some, more)
        loaded = ops.masked_load(self.b, self.b.gep(kind, first, word(least)), whole, b.dtype.bytes, some)
        return self.b.shuffled(loaded, [x - least for x in offsets])

    def near(self, b: Buffer, first: Operand, stride: int) -> Operand:
        """Elements so far from each other, from all that lies between the first and the last: `stride` loads of as many
        as there are lanes, each of which begins with the last one of the load before, so that nothing else is read."""
        assert self.lanes is not None
        kind, width, far = ops.memory_type(b.dtype), self.lanes.width, abs(stride)
        wide = vector(kind, width)
        begin = first if stride > 0 else self.b.gep(kind, first, word(stride * (width - 1)))
        parts = [self.read(b, self.b.gep(kind, begin, word(n * (width - 1))), wide) for n in range(far)]
        parts += parts[-1:] * (far == 3)
        while len(parts) > 1:
            parts = [self.b.joined(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        at = [min(n // max(1, width - 1), far - 1) + n for n in range(0, far * width, far)]
        return self.b.shuffled(parts[0], at if stride > 0 else at[::-1])

    def read(self, b: Buffer, address: Operand, kind: Type) -> Operand:
        """What lies there: loaded once in a block, as copies that the schedule unrolled have much in common."""
        self.in_block()
        known, how = self.known.setdefault(b.name, {}), (address, kind)
        if how not in known:
            known[how] = self.b.load(kind, address, b.dtype.bytes)
        return known[how]

    def in_block(self) -> None:
        """Forget what was known in another block."""
        if self.block is not self.b.block:
            self.block, self.known, self.whole_stores = self.b.block, {}, set()

    def is_loaded(self, b: Buffer, address: Operand, kind: Type) -> bool:
        """Whether `read` has what lies there, which all lanes may read then."""
        return self.block is self.b.block and (address, kind) in self.known.get(b.name, {})

    def written(self, *names: str) -> None:
        """What was read of these buffers, or of all, is not known any more."""
        for name in names or tuple(self.known):
            self.known.pop(name, None)

    def copy(self, b: Buffer, at: Index, value: Value) -> None:
        """Store a value."""
        self.store_raw(b, at, self.raw_of(b, value))

    def raw_of(self, b: Buffer, value: Value) -> Operand:
        """A value as `b` has it in memory; what is one of the same type in memory stays as it is."""
        if isinstance(value, Load) and value.buffer.dtype == b.dtype:
            return self.raw(value.buffer, value.at[0])
        return ops.to_memory(self.b, self.whole(value), b.dtype)

    def store(self, b: Buffer, at: Index, value: Operand) -> None:
        self.store_raw(b, at, ops.to_memory(self.b, value, b.dtype))

    def store_raw(self, b: Buffer, at: Index, raw: Operand) -> None:
        self._store(b, at, raw)
        self.written(b.name)

    def _store(self, b: Buffer, at: Index, raw: Operand) -> None:
        lanes, ix = self.lanes, self.place(b, at)
        if lanes is None:
            self.b.store(raw, self.address(b, ix), b.dtype.bytes)
            return
        stride = self.stride(ix)
        if stride == 0 and not is_vector(raw):  # by all lanes alike
            address = self.address(b, ix)
            with self.any_lane_acts():
                self.b.store(raw, address, b.dtype.bytes)
            return
        raw = self.spread(raw)
        if stride == 1:
            address = self.address(b, ix)
            self.in_block()
            stored = (address, raw.type) in self.whole_stores  # by these lanes, whose it is then
            if self.mask is not None and (stored or self.whole_vector(b, ix)):
                raw = self.b.select(self.mask, raw, self.read(b, address, raw.type))
                self.b.store(raw, address, b.dtype.bytes)
            elif self.mask is None:
                self._store_lines(b, raw, address)
                self.whole_stores.add((address, raw.type))
            else:
                ops.masked_store(self.b, raw, address, b.dtype.bytes, self.mask)
            return
        offsets = self.places(b, ix)
        with self.any_lane_acts():
            for n in range(lanes.width):
                with self.lane_acts(n):
                    element = self.b.extract_element(raw, n)
                    self.b.store(element, self.element(b, offsets, n), b.dtype.bytes)

    def _store_lines(self, b: Buffer, raw: Operand, address: Operand) -> None:
        """Store a vector, a wide one of a buffer that is written alone by cache lines from first to last.

        LLVM cuts a wide store into registers and orders these as it likes; lines that a CPU writes in another order
        than they lie in take a quarter longer on the way to the caches behind the first. What is read, too, stays one
        store, of the type of its loads: LLVM has it in registers meanwhile.
        """
        count = CACHE_LINE // b.dtype.bytes
        lanes = raw.type.count
        if b.name in self.read_buffers or lanes <= count or lanes % count:
            self.b.store(raw, address, b.dtype.bytes)
            return
        for n in range(0, lanes, count):
            part = self.b.shuffled(raw, range(n, n + count))
            to = self.b.gep(raw.type.scalar, address, constant(I64, n)) if n else address
            self.b.store(part, to, b.dtype.bytes)

    @contextmanager
    def any_lane_acts(self) -> Iterator[None]:
        """Code for when the mask lets a lane act."""
        if self.mask is None:
            yield
        else:
            with self.b.if_then(ops.any_true(self.b, self.mask)):
                yield

    @contextmanager
    def lane_acts(self, n: int) -> Iterator[None]:
        """Code for lane `n`, if the mask lets it act."""
        if self.mask is None:
            yield
        else:
            with self.b.if_then(self.b.extract_element(self.mask, n)):
                yield

    def places(self, b: Buffer, ix: Index, *, together: bool = False) -> Operand:
        """Where the element `ix` of `b` lies for each lane: in 32 bits if one instruction takes them `together`."""
        assert self.lanes is not None
        copies = self.lanes.width if b.name in self.private else 1
        return self.spread(self.narrow.place(b, ix, copies, together=together))

    def gather(self, b: Buffer, ix: Index, *, anywhere: bool) -> Operand:
        """The elements at `ix`: words of memory that lie anywhere by one instruction, double words where
        lanes are masked. What is in registers is to stay there."""
        assert self.lanes is not None
        if anywhere and b.scope == "global" and (b.dtype.bytes == 4 or (b.dtype.bytes == 8 and self.mask is not None)):
            wide, at = vector(ops.memory_type(b.dtype), self.lanes.width), self.places(b, ix, together=True)
            return ops.masked_gather(self.b, self.pointers[b.name], at, wide, b.dtype.bytes, self.mask)
        return self.lane_by_lane(b, self.places(b, ix))

    def lane_by_lane(self, b: Buffer, at: Operand) -> Operand:
        """The elements at the offsets `at`, one after the other."""
        assert self.lanes is not None
        kind = ops.memory_type(b.dtype)
        out: Operand = zero(vector(kind, self.lanes.width))
        for n in range(self.lanes.width):
            before = self.b.block
            with self.lane_acts(n):
                element = self.b.load(kind, self.element(b, at, n), b.dtype.bytes)
                filled = self.b.insert_element(out, element, n)
                inside = self.b.block
            out = filled if self.mask is None else self.b.phi(out.type, (filled, inside), (out, before))
        return out

    def library(self, label: str, result: Type, args: Sequence[Type]) -> Callee:
        """A function of the C library, or of LLVM."""
        return self.b.module.declared(label, result, args)

    # ------------------------------------------------------------ values

    def whole(self, v: Value) -> Operand:
        """A statement's value: what it says twice, an operation or a load, is spelt once."""
        self.common = {}
        out = self.op(v) if isinstance(v, Op) else self.value(v)
        self.common = None
        return out

    def value(self, v: Value) -> Operand:
        if self.memo is None and self.common is not None and isinstance(v, Op | Load):
            found = self.common.get(v)
            if found is None:
                found = self.common[v] = self.op(v) if isinstance(v, Op) else self._value(v)
            return found
        if self.memo is not None:
            found = self.memo.get(id(v))
            if found is None:
                found = self.memo[id(v)] = self._value(v)
            return found
        return self._value(v)

    def _value(self, v: Value) -> Operand:
        match v:
            case Const(value, t):
                return ops.literal(value, t)
            case Load(buffer, at):
                return self.load(buffer, at[0])
            case IndexToValue(Index() as ix, t):
                return self.counted(ix, t)
            case IndexToValue(Cond() as c, t):
                return ops.convert(self.b, self.cond(c), bool_, t)
            case Cast(value, t):
                return ops.convert(self.b, self.value(value), value.dtype, t)
            case Select():
                return self.select(v)
            case Op():
                return self.op(v)
            case Param(name, _):
                return self.params[name]
            case _:
                raise TypeError(f"{type(v).__name__} is no value")

    def counted(self, ix: Index, t: DType) -> Operand:
        """An index as a number of type `t`."""
        found = self.narrow.number(ix, t)
        return ops.convert(self.b, self.index(ix), int64, t) if found is None else ops.convert(self.b, found, int32, t)

    def select(self, v: Select) -> Operand:
        test = self.cond(v.cond)
        if is_vector(test):
            self.load_for_both(v)
            other = self.b.not_(test)
            with self.masked(test, v.cond):
                a = self.arm(v.a, test)
            with self.masked(other, v.cond):
                b = self.arm(v.b, other)
            test, a, b = self.alike(test, a, b)
            if self.lanes is not None and free_vars(v.cond) == {self.lanes.var} and not _loads(v.cond):
                a, b = (self.b.freeze(x) if _computes(side) else x for x, side in ((a, v.a), (b, v.b)))
            return self.b.select(test, a, b)
        if not any(self.is_for_one(x, v.cond) for x in (v.a, v.b)):
            a, b = self.alike(self.value(v.a), self.value(v.b))
            return self.b.select(test, a, b)
        return self.branch(test, lambda: self.value(v.a), lambda: self.value(v.b))

    def is_for_one(self, side: Value, cond: Cond) -> bool:
        """Whether a side of a select is evaluated where it is taken alone: it may fault, or costs much, or it reads
        memory and `cond` does not, so that one can tell which it is."""
        found = list(distinct_nodes(side))
        if any(isinstance(n, Op) and n.fn.rare for n in found):
            return True
        loads = [n for n in found if isinstance(n, Load)]
        return bool(loads) and not (_loads(cond) and all(self.narrow.width.is_inside(n.at[0], n.buffer) for n in loads))

    def load_for_both(self, v: Select) -> None:
        """Load what both sides of `v` do, one of which each lane takes: neither needs a mask for it then."""
        if self.mask is None:
            both = _certain_loads(v.b)
            for x in [x for x in _certain_loads(v.a) if x in both]:
                self.value(x)

    def arm(self, v: Value, test: Operand) -> Operand:
        """A side of a Select in lanes: skipped where no lane takes it, if it is rare and dear."""
        if not _rare(v):
            return self.value(v)
        nothing = zero(like(test, ops.register_type(v.dtype)))
        any_lane = ops.any_true(self.b, test)
        return self.branch(any_lane, lambda: self.spread(self.value(v)), lambda: nothing, likely=False)

    def branch(
        self, test: Operand, first: Callable[[], Operand], second: Callable[[], Operand], likely: bool | None = None
    ) -> Operand:
        """One of two values; only that one is evaluated."""
        saved, common = self.memo, self.common
        with self.b.if_else(test, likely=likely) as (then, orelse):
            with then:
                self.memo = None if saved is None else dict(saved)
                self.common = None if common is None else dict(common)
                a = first()
                from_a = self.b.block
            with orelse:
                self.memo = None if saved is None else dict(saved)
                self.common = None if common is None else dict(common)
                b = second()
                from_b = self.b.block
        self.memo, self.common = saved, common
        if is_vector(a) != is_vector(b):
            a, b = self.late_spread(a, from_a), self.late_spread(b, from_b)
        return self.b.phi(a.type, (a, from_a), (b, from_b))

    def late_spread(self, v: Operand, block: Block) -> Operand:
        if is_vector(v):
            return v
        with self.b.at(block):
            return self.spread(v)

    def op(self, v: Op) -> Operand:
        t = v.args[0].dtype
        args = self.alike(*(self.value(a) for a in v.args))
        work = float32 if t.is_narrow else t
        if v.fn.expand is not None:
            names, expansion = _expansion(v.fn, work)
            if expansion is not None:
                return self.rounded(self.expanded(expansion, names, args), t, v.fn.result)
        spelling = v.fn.llvm.get(work.name) or v.fn.llvm.get(work.kind)
        if spelling is None:
            raise ops.unspelt(v.fn.name, t)
        out = ops.spell(self.b, spelling, args, work, self.flags)
        return self.rounded(out, t, v.fn.result)

    def expanded(self, expansion: Value, names: Sequence[Param], args: Sequence[Operand]) -> Operand:
        """An operation said in terms of others; what it uses twice is spelt once."""
        saved, self.memo = self.memo, {}
        with self.bound({p.name: a for p, a in zip(names, args, strict=True)}):
            out = self.value(expansion)
        self.memo = saved
        return out

    def rounded(self, v: Operand, t: DType, result: str) -> Operand:
        if result == "bool" or not t.is_narrow:
            return v
        return ops.from_memory(self.b, ops.to_memory(self.b, v, t), t)


def _offset_ranges(offsets: Sequence[int], width: int) -> list[range]:
    """Ranges of at most `width` numbers that hold all `offsets`, the first and the last of each among them."""
    out: list[range] = []
    for x in sorted(set(offsets)):
        if out and x - out[-1].start < width:
            out[-1] = range(out[-1].start, x + 1)
        else:
            out.append(range(x, x + 1))
    return out


def _may_fault(v: Node) -> bool:
    """Whether evaluating `v` for nothing may fault or cost much."""
    return any(isinstance(n, Load) or (isinstance(n, Op) and n.fn.rare) for n in distinct_nodes(v))


def _certain_loads(v: Value) -> dict[Load, None]:
    """The loads in `v` that stand in no side of a Select."""
    found, pending = dict[Load, None](), [v]
    while pending:
        match pending.pop():
            case Load() as x:
                found[x] = None
            case Op(_, args):
                pending += args
            case Cast(x):
                pending.append(x)
            case _:
                pass
    return found


def _loads(n: Node) -> bool:
    return any(isinstance(x, Load) for x in nodes(n))


def _computes(v: Value) -> bool:
    """Whether `v` computes with floats that it loads.

    Where LLVM knows which lanes a select takes, it computes the others from what registers happen to hold, and on
    subnormal numbers some CPUs take a hundred times as long. It does not know them of a frozen value.
    """
    return _loads(v) and any(isinstance(n, Op) and n.dtype.is_float for n in nodes(v))


def _rare(v: Node) -> bool:
    return any(isinstance(n, Op) and n.fn.rare for n in distinct_nodes(v))


@lru_cache(maxsize=256)
def _expansion(fn: Intrinsic, t: DType) -> tuple[list[Param], Value | None]:
    """The expansion of an operation on `t`, if it has one, and the parameters in it."""
    assert fn.expand is not None
    names = [Param(f"{fn.name}.{n}", t) for n in range(fn.arity)]
    return names, fn.expand(*names)

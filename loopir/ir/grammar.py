"""The language: every node of the loop-nest IR, as immutable data.

Three sorts never mix by accident: an `Index` is integer arithmetic on loop variables and sizes, a `Cond` is
a test on indices, a `Value` is what buffers hold. The only bridges are named: `Of` takes an index or a
condition into values, `ValueToIndex` and `ValueToCond` take a value into an index or a condition, where no analysis can
see through it.

    func   = Func(name n, param* params, cond* assumes, stmt* body)
    param  = Size(var v) | Arg(buffer b, access in|out|inout)
    buffer = Buffer(name n, index* shape, dtype t, scope s, layout? l)
    scope  = global | shared | local | fragment
    layout = Strided(index* strides) | Mapped(name* dims, index at)
           | Fragment(int lanes, int registers, name* dims, index* at)   -- machine to matrix: a register's element
    stmt   = Loop(name v, index extent, kind k, stmt* body)              -- v runs over 0 .. extent-1
           | Store(label n, buffer b, index* at, value v)
           | Reduce(label n, buffer* b, index* at, monoid m, value* v, name* over, value*? init, bool atomic)
           | Alloc(buffer b, stmt* body)                                 -- lifetime = body
           | If(cond c, stmt* then, stmt* orelse)
           | Prefetch(load element)                                      -- a hint: it is about to be used
           | Do(instruction f, stmt* body)                       -- body is a nest that f does as a whole
           | Role(int* registers, stmt* body)                            -- body is done by warps of its own
           | Kernel(name n, stmt* body) | Barrier(int threads)           -- made by lowering
           | Issue(instruction f, load* operands, word* words, box* boxes, load? ring)   -- made by lowering
           | Commit(name group) | Wait(int pending, name group)          -- made by lowering, as all that follows
           | Fence(async|registers kind) | Hold(buffer b)
           | Init(buffer ring, int arrivals) | Expect(load slot, int bytes) | Await(load slot, int turn) | Budget(int n)
    kind   = serial | parallel | vectorize | unroll | blockIdx.x ... | cluster | threadIdx.x ...
           | lane | warp.x | warp.y | warpgroup | multicast
    index  = Int | Var | Add | Mul | Min | Max | FloorDiv | Mod | Xor | Opaque(value)
    cond   = And(cond*) | Or(cond*) | Not(cond) | Cmp(op, index, index) | Truth(value)
    value  = Const | Load(buffer, index*) | Of(index|cond, dtype) | Cast(value, dtype) | Select(cond, a, b)
           | Op(intrinsic f, value*) | Param(name, dtype)                -- Param: only inside a monoid

Meaning, in one paragraph. Loops run in order, whatever their kind: `parallel`, `vectorize` and the bound
kinds are promises, proved when they are made, that the order does not matter in that way. A `Reduce` with
`init` sets its elements to `init` when the outermost loop in `over` is entered, even for no iterations at
all, and then folds `v` in by the monoid; without `init` it folds into what is there. Only inside a `Kernel`
do bound loops run as hardware threads, with the `Barrier`s that lowering placed. Arithmetic on indices is
exact; `//` and `%` round towards minus infinity and their right side is positive, `^` is of two's complement. To use
what nothing has written is an error; to copy it (a `Store` of a `Load` alone) is none, and leaves the copy unwritten.

A `Do` means its body, and promises that one instruction does it: the body matches the instruction's own meaning
(`loopir.ir.instr.match_nest`), which the verifier asks after every step. What the instruction's operands are is read
off the body, never stated beside it; so analysis, primitives, the interpreter and a target without the instruction see
nothing but loops, and none of them can come to disagree with what the hardware is told.
"""

# pyright: reportUnusedImport=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from loopir.errors import VerifyError
from loopir.ir.dtypes import DType
from loopir.ir.index import (  # noqa: F401  (the whole language is imported from here)
    FALSE,
    TRUE,
    Add,
    And,
    Cmp,
    CmpOp,
    Cond,
    FloorDiv,
    Index,
    IndexLike,
    Int,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    Or,
    ValueToCond,
    ValueToIndex,
    Var,
    Xor,
    ceildiv,
    conj,
    conjuncts,
    index,
    maximum,
    minimum,
    record,
)
from loopir.ir.ops import Instruction
from loopir.ir.recursion import deep
from loopir.ir.values import Cast, Const, IndexToValue, Load, Monoid, Op, Param, Select, Value  # noqa: F401

Scope = str
"""Where a buffer lives: one of SCOPES, or a memory that is declared beside them (`loopir.ir.ops.Memory`).

A fragment's elements are spread over the registers of the lanes of a warp. "any" stands only in the meaning of an
instruction, whose operand may live anywhere.
"""
Access = Literal["in", "out", "inout"]
BLOCK_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "cluster")
"""The blocks of a grid. Those that a loop bound to "cluster" counts run at once, side by side along x."""
WARP_AXES = {"lane": "threadIdx.x", "warp.x": "threadIdx.y", "warp.y": "threadIdx.z", "warpgroup": "threadIdx.z"}
"""A block as warps of 32 lanes, and the axis of the launch that each is: 32 threads along x are one warp.

Where there are warpgroups, each is four warps, along warp.x, and there is no warp.y."""
THREAD_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z", *WARP_AXES)
LANES = 32
GROUP_WARPS = 4
AXES = BLOCK_AXES + THREAD_AXES
KINDS = ("serial", "parallel", "vectorize", "unroll", "multicast", *AXES)
SCOPES: tuple[Scope, ...] = ("global", "shared", "local", "fragment")


# ---------------------------------------------------------------- buffers and statements


@dataclass(frozen=True, slots=True)
class Strided(Node):
    """Element `at` lies at `sum(at[d] * strides[d])`, in elements."""

    strides: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Mapped(Node):
    """Element `dims` lies at `at`, an injective index over `dims`: packing, padding, swizzles."""

    dims: tuple[str, ...]
    at: Index


@dataclass(frozen=True, slots=True)
class Fragment(Node):
    """A tile held by `lanes` threads in `registers` each: the register of lane `dims[0]` numbered `dims[1]` is element
    `at` of it. A buffer is made of such tiles, in row-major order; a lane's registers are numbered tile after tile.
    """

    lanes: int
    registers: int
    dims: tuple[str, str]
    at: tuple[Index, ...]


Layout: TypeAlias = "Strided | Mapped | Fragment"


@record
class Buffer(Node):
    """A multi-dimensional array of `dtype`; row-major and dense unless it has a `layout`."""

    name: str
    shape: tuple[Index, ...]
    dtype: DType
    scope: Scope = "global"
    layout: Layout | None = None


class Stmt(Node):
    __slots__ = ()


Body: TypeAlias = "tuple[Stmt, ...]"


@record
class Loop(Stmt):
    """`var` runs over 0 .. extent-1."""

    var: str
    extent: Index
    kind: str
    body: Body


@record
class Store(Stmt):
    label: str
    buffer: Buffer
    at: tuple[Index, ...]
    value: Value


@record
class Reduce(Stmt):
    """Fold `values` into element `at` of `buffers` by `monoid`, over the loops named in `over`.

    With `atomic`, which only one buffer can have, a fold is one step that no other thread comes between."""

    label: str
    buffers: tuple[Buffer, ...]
    at: tuple[Index, ...]
    monoid: Monoid
    values: tuple[Value, ...]
    over: tuple[str, ...] = ()
    init: tuple[Value, ...] | None = None
    atomic: bool = False


@record
class Alloc(Stmt):
    """A buffer that lives for `body` and starts uninitialised; inside a loop, a new one every iteration."""

    buffer: Buffer
    body: Body


@record
class If(Stmt):
    cond: Cond
    then: Body
    orelse: Body = ()


@record
class Prefetch(Stmt):
    """The element is about to be used, so its line of the caches may be brought: a hint, of no effect on any value.

    One that is not in the array is asked for all the same, as nothing is read."""

    element: Load


@dataclass(frozen=True, slots=True)
class InstrRegion(Stmt):
    """`body`, a perfect nest around one statement, done as a whole by the instruction `fn`.

    One whose bytes arrive by themselves is told by lowering of the barrier in shared memory to count at."""

    fn: Instruction
    body: Body
    ring: Load | None = None
    blocks: int = 1
    """Of a cluster, in the memory of each of which it is done, at the same place."""


@dataclass(frozen=True, slots=True)
class WarpSpecialized(Stmt):
    """`body`, which warps of their own do ahead; `registers` are for each of their threads, and for each other."""

    registers: tuple[int, int]
    body: Body


@dataclass(frozen=True, slots=True)
class Kernel(Stmt):
    """One launch. Inside, loops bound to an axis are that axis' threads and barriers are explicit."""

    name: str
    body: Body


@dataclass(frozen=True, slots=True)
class InstrCall(Stmt):
    """The instruction `fn` as a thread, or a lane of a warp, issues it: by operand of its meaning the element whose
    address it takes, or the first of the registers that hold the lane's part of a fragment."""

    fn: Instruction
    operands: tuple[Load, ...]
    words: tuple[tuple[str, int], ...] = ()
    """By operand that is told by a descriptor, all of that but the address."""
    boxes: tuple[TmaBox, ...] = ()
    ring: Load | None = None
    """The barrier in shared memory that counts the bytes which arrive."""
    blocks: int = 1


@dataclass(frozen=True, slots=True)
class TmaBox(Node):
    """A box of a global array, as a tensor map tells of it: operand `name`, from element `at`, so many elements along
    each dimension, swizzled in shared memory in pieces of `span` bytes if that is not 0. Outside of the array is 0."""

    name: str
    buffer: Buffer
    at: tuple[Index, ...]
    sizes: tuple[int, ...]
    span: int


@dataclass(frozen=True, slots=True)
class MBarrierInit(Stmt):
    """The elements of `ring`, in shared memory, become barriers: a turn of one is over after so many arrivals, and
    when the bytes that it was told to expect are there."""

    ring: Buffer
    arrivals: int


@dataclass(frozen=True, slots=True)
class ExpectTx(Stmt):
    """This thread arrives at the barrier `slot`, whose turn is over only after so many more bytes; at that of `block`
    of its cluster, if one is given."""

    slot: Load
    bytes: int
    block: Index | None = None


@dataclass(frozen=True, slots=True)
class MBarrierWait(Stmt):
    """This thread waits for the end of a turn of the barrier `slot`, each time for that of the next one: of the first
    one at first, or if `turn` is 1 for none. With `skip` it does not wait, and comes by that turn all the same."""

    slot: Load
    turn: int = 0
    skip: bool = False


@dataclass(frozen=True, slots=True)
class AsyncCommit(Stmt):
    """What this thread has issued of `group`, "copies", "products" or "stores", since the last commit is waited for
    together."""

    group: str = "copies"


@dataclass(frozen=True, slots=True)
class AsyncWait(Stmt):
    """This thread waits for its groups, but the newest `pending`: only then are they done with what they touch; stores,
    with what they read."""

    pending: int
    group: str = "copies"


@dataclass(frozen=True, slots=True)
class Fence(Stmt):
    """What this thread has written so far is seen by what goes on by itself: "async", what it and others whom it has
    met at a barrier wrote to shared memory; "registers", what it wrote to its registers."""

    kind: str


@dataclass(frozen=True, slots=True)
class RegisterFence(Stmt):
    """The registers of `buffer` hold here what has been written: no use of them is moved past this by a compiler.

    With `apart`, it is also no one's part of a group of products that was under way through iterations of a loop.
    """

    buffer: Buffer
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Barrier(Stmt):
    """All threads of a block meet here, and see each other's writes; or of each so many `threads`, in order; or of all
    blocks of a `cluster`."""

    threads: int = 0
    cluster: bool = False


@dataclass(frozen=True, slots=True)
class SetMaxRegs(Stmt):
    """The warps of a warpgroup have so many registers for each thread from here on, `more` than before or fewer."""

    registers: int
    more: bool


# ---------------------------------------------------------------- functions


@dataclass(frozen=True, slots=True)
class Size(Node):
    """A symbolic size: a parameter that shapes and extents may use."""

    name: str

    @property
    def var(self) -> Var:
        return Var(self.name)


@dataclass(frozen=True, slots=True)
class Arg(Node):
    buffer: Buffer
    access: Access


@record
class Func(Node):
    """A program: sizes and arrays in, a nest of loops, arrays out. `assumes` are facts about the sizes."""

    name: str
    params: tuple[Size | Arg, ...]
    assumes: tuple[Cond, ...]
    body: Body

    @property
    def sizes(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.params if isinstance(p, Size))

    @property
    def args(self) -> tuple[Arg, ...]:
        return tuple(p for p in self.params if isinstance(p, Arg))

    def outputs(self) -> Iterator[Buffer]:
        """The buffers that the caller sees change."""
        return (a.buffer for a in self.args if a.access != "in")

    @deep(VerifyError)
    def __eq__(self, other: object) -> bool:
        mine = (self.name, self.params, self.assumes, self.body)
        return isinstance(other, Func) and mine == (other.name, other.params, other.assumes, other.body)

    @deep(VerifyError)
    def __hash__(self) -> int:
        return hash((self.name, self.params, self.assumes, self.body))

"""The language: every node of the loop-nest IR, as immutable data.

There are three sorts of expressions: an `Index` is integer arithmetic on loop variables and sizes, a `Cond` is a test
on indices, a `Value` is what buffers hold. Conversions between them are explicit: `IndexToValue` makes a value of an
index or a condition; `ValueToIndex` and `ValueToCond` make an index or a condition of a value, and are opaque to
analysis.

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
           | Prefetch(load element)                                      -- a cache hint
           | InstrRegion(instruction f, stmt* body)                      -- a nest that f executes as a whole
           | WarpSpecialized(int* registers, stmt* body)                 -- run by warps of its own
           | InTurn(stmt* body)                                          -- warpgroups run it one after another
           | Kernel(name n, stmt* body) | Barrier(int threads)           -- made by lowering, as all that follows
           | InstrCall(instruction f, load* operands, word* words, box* boxes, load? ring)
           | AsyncCommit(name group) | AsyncWait(int pending, name group)
           | Fence(async|registers kind) | RegisterFence(buffer b) | SetMaxRegs(int n)
           | Turn(index group, int groups, bool wait)
           | MBarrierInit(buffer ring, int arrivals) | ExpectTx(load slot, int bytes)
           | MBarrierWait(load slot, int turn)
    kind   = serial | parallel | vectorize | unroll | blockIdx.x ... | cluster | threadIdx.x ...
           | lane | warp.x | warp.y | warpgroup | multicast
    index  = Int | Var | Add | Mul | Min | Max | FloorDiv | Mod | Xor | ValueToIndex(value)
    cond   = And(cond*) | Or(cond*) | Not(cond) | Cmp(op, index, index) | ValueToCond(value)
    value  = Const | Load(buffer, index*) | IndexToValue(index|cond, dtype) | Cast(value, dtype) | Select(cond, a, b)
           | Op(intrinsic f, value*) | Param(name, dtype)                -- Param: only inside a monoid

Semantics. Loops run in order: `parallel` and the bound kinds promise that another order gives the same, which is proved
when a loop gets that kind. The iterations of a `vectorize` loop are lanes, which run together, statement by statement:
each reads in all lanes before it writes in any; that this gives what the order gives is proved, too. (If lanes hold
loops or memory of different lengths, atomic updates, or a fold over the lanes, they run in order. A fold over the lanes
that is all of the loop is a vector reduction.) A `Reduce` with `init` sets its elements to
`init` when the outermost loop in `over` is entered, even if that loop has no iterations, and then folds `v` in by the
monoid; without `init` it folds into what the elements hold. Bound loops run as hardware threads only inside a `Kernel`,
with the `Barrier`s that lowering inserted. Index arithmetic is exact; `//` and `%` round towards minus infinity and
need a positive right side; `^` is on two's complement. Using an uninitialized element is an error; copying one (a
`Store` of nothing but a `Load`, or of one that is converted) is allowed, and leaves the copy uninitialized.

An `InstrRegion` means its body, and promises that one instruction executes it: the verifier checks after every step
that the body matches the instruction's meaning (`loopir.ir.instr.match_nest`). The operands are read off the body, not
stored with the node, so analysis, primitives, the interpreter, and targets without the instruction see only loops, and
cannot disagree with what the hardware is given.
"""

# pyright: reportUnusedImport=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

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

The elements of a fragment are distributed over the registers of the lanes of a warp. "any" occurs only in the meaning
of an instruction, for an operand that may live anywhere.
"""
Access = Literal["in", "out", "inout"]
BLOCK_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "cluster")
"""The blocks of a grid. The iterations of a loop bound to "cluster" are one cluster of blocks, contiguous along x."""
WARP_AXES = {"lane": "threadIdx.x", "warp.x": "threadIdx.y", "warp.y": "threadIdx.z", "warpgroup": "threadIdx.z"}
"""A block as warps of 32 lanes, and the launch axis of each: 32 threads along x are one warp.

A warpgroup is four warps along warp.x; with warpgroups, there is no warp.y."""
LAUNCH_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
THREAD_AXES = (*LAUNCH_AXES, *WARP_AXES)
LANES = 32
GROUP_WARPS = 4
GROUP_THREADS = LANES * GROUP_WARPS
"""Of a warpgroup."""
NAMED_BARRIERS = 16
"""Barriers that a block has in hardware (PTX ISA, "barrier"); number 0 is that of all its threads."""
AXES = BLOCK_AXES + THREAD_AXES
KINDS = ("serial", "parallel", "vectorize", "unroll", "multicast", *AXES)
SCOPES: tuple[Scope, ...] = ("global", "shared", "local", "fragment")


# ---------------------------------------------------------------- buffers and statements


@dataclass(frozen=True, slots=True)
class Strided(Node):
    """The layout with element `at` at offset `sum(at[d] * strides[d])`, in elements."""

    strides: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Mapped(Node):
    """The layout with element `dims` at offset `at`, an injective index over `dims`: packing, padding, swizzles."""

    dims: tuple[str, ...]
    at: Index


@dataclass(frozen=True, slots=True)
class Fragment(Node):
    """The layout of a tile in registers: register `dims[1]` of lane `dims[0]` holds element `at` of the tile.

    Each of `lanes` threads has `registers` of them. A buffer consists of such tiles in row-major order; the registers
    of a lane are numbered tile after tile.
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
    """Run `body` for `var` from 0 to extent-1."""

    var: str
    extent: Index
    kind: str
    body: Body


@record
class Store(Stmt):
    """Store `value` into element `at` of `buffer`."""

    label: str
    buffer: Buffer
    at: tuple[Index, ...]
    value: Value

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return (self.buffer,)

    @property
    def values(self) -> tuple[Value, ...]:
        return (self.value,)


@record
class Reduce(Stmt):
    """Fold `values` into element `at` of `buffers` by `monoid`, over the loops named in `over`.

    With `atomic`, which needs a single buffer, each update is atomic."""

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
    """Allocate `buffer`, uninitialized, for the time of `body`; inside a loop, anew in every iteration."""

    buffer: Buffer
    body: Body


@record
class If(Stmt):
    """Run `then` where `cond` holds, else `orelse`."""

    cond: Cond
    then: Body
    orelse: Body = ()


@record
class Prefetch(Stmt):
    """Hint that `element` is about to be used, so that its cache line may be loaded.

    It has no effect on any value, so the element may be outside its array."""

    element: Load


@dataclass(frozen=True, slots=True)
class InstrRegion(Stmt):
    """Execute `body`, a perfect nest around one statement, by the instruction `fn`.

    For an asynchronous bulk copy, lowering sets `ring`, the mbarrier that counts its bytes."""

    fn: Instruction
    body: Body
    ring: Load | None = None
    blocks: int = 1
    """How many blocks of a cluster get the result, each at the same place of its shared memory (multicast)."""


@dataclass(frozen=True, slots=True)
class WarpSpecialized(Stmt):
    """Run `body` ahead in producer warps; `registers` are per thread of these, and per thread of the others."""

    registers: tuple[int, int]
    body: Body


@dataclass(frozen=True, slots=True)
class InTurn(Stmt):
    """Run `body`, loops bound to warpgroups and what warps of their own do, by one warpgroup after another.

    A warpgroup that comes here waits until the one before it has been here as often as it will have been; the first
    one, until the last one has been here as often as itself."""

    body: Body


@dataclass(frozen=True, slots=True)
class Kernel(Stmt):
    """One launch. Inside, loops bound to an axis are the threads of that axis, and barriers are explicit."""

    name: str
    body: Body


@dataclass(frozen=True, slots=True)
class InstrCall(Stmt):
    """Issue the instruction `fn` from a thread, or from a lane of a warp.

    `operands` has, for each operand of its meaning, the element whose address is taken, or the first of the registers
    that hold this lane's part of a fragment."""

    fn: Instruction
    operands: tuple[Load, ...]
    words: tuple[tuple[str, int], ...] = ()
    """For each operand given by a matrix descriptor, the descriptor without its address bits."""
    boxes: tuple[TmaBox, ...] = ()
    ring: Load | None = None
    """The mbarrier that counts the arriving bytes."""
    blocks: int = 1


@dataclass(frozen=True, slots=True)
class TmaBox(Node):
    """A box of a global array, described by a tensor map: operand `name`, from element `at`, with `sizes` elements
    along each dimension. In shared memory it is swizzled in pieces of `span` bytes, unless `span` is 0. Elements
    outside the array read as 0."""

    name: str
    buffer: Buffer
    at: tuple[Index, ...]
    sizes: tuple[int, ...]
    span: int


@dataclass(frozen=True, slots=True)
class Sync(Stmt):
    """A synchronization of threads or of what they issue, which lowering places in kernels, and no person."""


@dataclass(frozen=True, slots=True)
class MBarrierInit(Sync):
    """Initialize the elements of `ring`, in shared memory, as mbarriers: a phase of one completes after `arrivals`
    arrivals and when the expected bytes have arrived."""

    ring: Buffer
    arrivals: int


@dataclass(frozen=True, slots=True)
class ExpectTx(Sync):
    """Arrive at the mbarrier `slot`, and have its phase wait for `bytes` more; with `block`, at the one in that block
    of the cluster."""

    slot: Load
    bytes: int
    block: Index | None = None


@dataclass(frozen=True, slots=True)
class MBarrierWait(Sync):
    """Wait for the end of a phase of the mbarrier `slot`, at each execution for that of the next phase.

    The first execution waits for the first phase; if `turn` is 1, for nothing. With `skip`, it counts the phase without
    waiting."""

    slot: Load
    turn: int = 0
    skip: bool = False


@dataclass(frozen=True, slots=True)
class AsyncCommit(Sync):
    """Commit what this thread has issued since the last commit as one asynchronous group.

    `group` is its kind: "copies", "products" or "stores"."""

    group: str = "copies"


@dataclass(frozen=True, slots=True)
class AsyncWait(Sync):
    """Wait until all but the newest `pending` groups of this thread are complete; for stores, until they have read
    their source."""

    pending: int
    group: str = "copies"


@dataclass(frozen=True, slots=True)
class Fence(Sync):
    """Make this thread's writes visible to asynchronous instructions.

    Kind "async" is for writes to shared memory, its own and those it has synchronized with (fence.proxy.async);
    "registers" is for writes to its registers (wgmma.fence)."""

    kind: str


@dataclass(frozen=True, slots=True)
class RegisterFence(Sync):
    """Keep the compiler from moving uses of the registers of `buffer` past this point.

    With `apart`, its registers also belong to no group of products that is pending across iterations of a loop.
    """

    buffer: Buffer
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Barrier(Sync):
    """Synchronize the threads of a block, and make their writes visible to one another.

    With `threads`, each such group of consecutive threads separately; with `cluster`, the threads of all its blocks."""

    threads: int = 0
    cluster: bool = False


@dataclass(frozen=True, slots=True)
class SetMaxRegs(Sync):
    """Set the registers per thread of this warpgroup (setmaxnreg): `more` than before, or fewer."""

    registers: int
    more: bool


@dataclass(frozen=True, slots=True)
class Turn(Sync):
    """Wait for the turn of warpgroup `group` of `groups` (bar.sync), or give it its turn and go on (bar.arrive).

    It is a barrier in hardware, of the threads of the one that waits and of the one that gives."""

    group: Index
    groups: int
    wait: bool

    @property
    def threads(self) -> int:
        return 2 * GROUP_WARPS * LANES

    def number(self, group: int) -> int:
        """The barrier of `group`, from the last one down; other barriers are numbered from the first one up."""
        return NAMED_BARRIERS - self.groups + group


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
    """An array parameter, and whether the program reads it, writes it, or both."""

    buffer: Buffer
    access: Access


@record
class Func(Node):
    """A program: sizes and arrays in, a nest of loops, arrays out. `assumes` are facts about the sizes."""

    name: str
    params: tuple[Size | Arg, ...]
    assumes: tuple[Cond, ...]
    body: Body

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(
                f"the nest {self.name} has no {name!r}; steps and build are those of lp.Schedule({self.name})",
                name=name, obj=self,
            )  # fmt: skip

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            f"{self.name} is a nest, which is not called: lp.Schedule({self.name}).build() compiles it to a kernel, "
            "which is; lp.call puts it into an expression"
        )

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

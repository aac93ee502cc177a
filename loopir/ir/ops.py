"""Records of scalar operations and instructions: meaning, and spelling on each target.

The records themselves are in `loopir.intrinsics`, one file for each family, and enter `REGISTRY` when they are made.
The types are here, below them, so that the interpreter and the parser use records without knowing any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from loopir.ir.dtypes import DType
    from loopir.ir.grammar import Func, Index, Monoid, Value

REGISTRY: dict[str, Intrinsic] = {}
MONOIDS: dict[str, Callable[[tuple[DType, ...]], Monoid]] = {}
"""The monoids known by name: each makes the Monoid for the dtypes of its components."""
ASCENDING: dict[str, Callable[[tuple[DType, ...]], Monoid]] = {}
"""By name what some of them are where each last component that is folded is greater than all before it."""
INSTRUCTIONS: dict[str, Instruction] = {}
FAMILIES: list[tuple[re.Pattern[str], Callable[..., None]]] = []
"""What the names of many instructions of a kind look like, and what declares the one with these parts in its name."""
IssueScope = Literal["thread", "warp", "warpgroup"]
ISSUE_SCOPES: dict[IssueScope, int] = {"thread": 1, "warp": 32, "warpgroup": 128}
"""How many threads, one after another, do something together."""
Async = Literal["", "copies", "products", "stores", "bytes"]
"""How an instruction that goes on by itself is waited for: with the group of copies, of products, or of stores, that
its thread commits, or by a barrier in shared memory that counts the bytes that have arrived. Stores have read then;
that they have written, the end of the launch tells."""
LANE = "lane"
"""The variable that an address speaks of where each lane of a warp, or thread of a warpgroup, gives another."""
NUMBER = "number"
"""The variable that says, of elements that lie one after the other, which of them is meant."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The operation `name`, which is what another one is in float32, or its product with itself if it is `squared`,
    for an argument of magnitude less than `below` and of at most so many significant `digits`."""

    name: str
    below: float
    digits: int
    squared: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Intrinsic:
    """A pure scalar operation: everything that any part of the compiler needs to know of it.

    `kinds` are the dtype kinds it takes, its arguments all of one dtype; `result` is that dtype or bool.
    `meaning` is its value on NumPy arrays, with which every backend is compared.
    `cuda` and `llvm` map a dtype name or, failing that, a dtype kind to a spelling. For CUDA that is an expression
    with `{0}`, `{1}` for the arguments, `{T}` for their C type and `{U}` for an unsigned type that wraps as it does;
    `cuda_prelude` declares what the expression calls. `cuda_atomic` is the hardware's atomic update of the element at
    address `{0}` by `{1}`, where there is one. For LLVM it is an instruction ("fadd"), a comparison ("icmp slt") or an
    intrinsic ("llvm.fma"). Narrow floats are computed in float32 and then rounded, on both.
    `commutes`: f(a, b) is f(b, a). `idempotent`: f(a, a) is a.
    `expand` gives the operation in terms of simpler ones, for a target without a spelling for the dtype.
    `lane`, if given, makes it a warp shuffle: the result in lane n is the argument in lane `lane(n)`. All threads of
    the warp have to execute it; it is the whole value of a store, in a kernel.
    `ulp` bounds the error of a backend against the exact result, in units in the last place; 0 is exact.
    `work` is about how many instructions a GPU takes for it in float32, for estimates.
    `variants` are cheaper operations that give the same for some arguments, or of which some are its square.
    `rare`: in lanes, what takes it is skipped where no lane does.
    `pairs` names, by dtype, the instruction that computes it for two lanes at less than twice the cost; its operands
    are those of both lanes in the order of the arguments, then the results.
    """

    name: str
    arity: int
    kinds: frozenset[str]
    meaning: Callable[..., Any]
    result: Literal["same", "bool"] = "same"
    cuda: Mapping[str, str] = field(default_factory=dict[str, str])
    cuda_prelude: str = ""
    cuda_atomic: Mapping[str, str] = field(default_factory=dict[str, str])
    llvm: Mapping[str, str] = field(default_factory=dict[str, str])
    expand: Callable[..., Value | None] | None = None
    infix: str | None = None
    commutes: bool = False
    idempotent: bool = False
    lane: Callable[[int], int] | None = None
    rare: bool = False
    ulp: float = 0.0
    work: int = 1
    variants: tuple[Variant, ...] = ()
    pairs: Mapping[str, str] = field(default_factory=dict[str, str])
    doc: str = ""

    def __post_init__(self) -> None:
        if self.name in REGISTRY:
            raise ValueError(f"the intrinsic {self.name!r} is declared twice")
        REGISTRY[self.name] = self

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Intrinsic], tuple[str]]:
        return _registered, (self.name,)


def _registered(name: str) -> Intrinsic:
    return REGISTRY[name]


@dataclass(frozen=True, slots=True)
class OperandAddress:
    """The address that an instruction takes for an operand: that of element `at`, which may depend on the `lane`.

    From there `run` elements are contiguous, aligned to their size together: in row-major order or, by their `number`,
    in `order`. With `rows` they are one row of a matrix, whose row stride is the buffer's and is passed along. Where
    not `aligned`, the run may start at any element."""

    at: tuple[Index, ...]
    run: int = 1
    order: tuple[Index, ...] = ()
    rows: bool = False
    aligned: bool = True


Major = Literal["k", "mn"]
"""Which dimension of a matrix in shared memory has its elements side by side: the reduced one, or the other."""


@dataclass(frozen=True, eq=False, slots=True)
class Instruction:
    """An instruction of a target, as data: its meaning, which threads issue it, and its spelling.

    `meaning` is a Func: a nest of constant loops around one statement, whose parameters are the operands, with the
    memory and the layout that each needs. `level` is the scope that issues it: a thread, the lanes of a warp, or the
    128 threads of a warpgroup. `cuda` is a statement in which `{A}` is the address of operand A, or of the first
    register that holds a lane's part of a fragment; `cuda_prelude` declares what it calls.
    `pointers` describe the addresses of operands in memory (default: that of the first element). Operands in `matrices`
    are passed as matrix descriptors (`loopir.ir.layout.smem_descriptors`), `{A_word}` being all but the address. Of the
    two in `boxed`, the first is a box of a global array, passed as a tensor map `{A}` with its corner `{A_at}`, the
    second is the box in shared memory; `{ring}` is the mbarrier that counts the bytes. An `asynchronous` instruction is
    complete when its thread has waited for it; lowering inserts the wait.
    `arch` is the least architecture that has it or, with a letter, the only one.
    `llvm` is its spelling on a CPU: an intrinsic with its arguments, `"llvm.fma.v8f32(A, B, C)"`, which are operands or
    typed constants (`i32 4`); or the body of an LLVM function, in which `%A` is the value of operand A and which
    returns the new value of the operand that is written; or a word of `loopir.codegen.llvm.issue`. The value of an
    operand is the vector of its elements, row after row, or a number for an operand without dimensions; bool is i8.
    `needs` are the features of `lp.cpu_features()` that a CPU has to have for it.
    `cuda_blocks` is its spelling for multicast to the blocks of a cluster in `{mask}`. On a target without a spelling
    the loops of the meaning run. `loopir.interp.instruction` makes one from a function.
    """

    name: str
    meaning: Func
    level: IssueScope = "thread"
    cuda: str = ""
    cuda_prelude: str = ""
    pointers: Mapping[str, OperandAddress] = field(default_factory=dict[str, OperandAddress])
    asynchronous: Async = ""
    doc: str = ""
    matrices: Mapping[str, Major] = field(default_factory=dict[str, "Major"])
    boxed: tuple[str, str] | None = None
    arch: str = ""
    llvm: str = ""
    cuda_blocks: str = ""
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.name in INSTRUCTIONS or self.name in REGISTRY:
            raise ValueError(f"the instruction {self.name!r} is declared twice; give the other one another name")
        INSTRUCTIONS[self.name] = self

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Instruction], tuple[str]]:
        return _instructed, (self.name,)


MEMORIES: dict[str, Memory] = {}


@dataclass(frozen=True, slots=True)
class Memory:
    """A custom memory: a scope for operands of instructions, with `capacity` bytes.

    Its buffers are kept in the backing scope `like`, private to each thread. A memory made of registers of `unit` bytes
    has no addresses: only instructions access it, whole registers at a time, by number.

        tiles = lp.Memory("tiles", capacity=1024)
        s.cache_read("C", "A", "tiles", at="k")
    """

    name: str
    capacity: int
    like: Literal["local"] = "local"
    unit: int = 0

    def __post_init__(self) -> None:
        if self.name in MEMORIES or self.name in ("global", "shared", "local", "fragment", "any"):
            raise ValueError(f"the memory {self.name!r} is declared twice")
        if not self.name.isidentifier():
            raise ValueError(f"{self.name!r} is no usable name for a memory")
        MEMORIES[self.name] = self


def find_instruction(name: str) -> Instruction | None:
    """The instruction of that name; one of a family is declared when it is first asked for."""
    if name not in INSTRUCTIONS:
        for pattern, declare in FAMILIES:
            if found := pattern.fullmatch(name):
                declare(*found.groups())
    return INSTRUCTIONS.get(name)


def _instructed(name: str) -> Instruction:
    found = find_instruction(name)
    assert found is not None
    return found

"""Records of scalar operations and instructions: meaning, and spelling on each target.

The records themselves live in `loopir.intrinsics`, one file per family; they enter `REGISTRY` when made.
This file is below them so that the interpreter and the parser can use a record without knowing any.
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


@dataclass(frozen=True, eq=False, slots=True)
class Intrinsic:
    """A pure scalar operation, once for every room that needs to know it.

    `kinds` are the dtype kinds it takes, its arguments all of one dtype; `result` is that dtype or bool.
    `meaning` is its value on NumPy arrays: what every backend is measured against.
    `cuda` and `llvm` map a dtype name or, failing that, a dtype kind to a spelling. For CUDA that is an expression
    with `{0}`, `{1}` for the arguments, `{T}` for their C type and `{U}` for an unsigned type that wraps as it does;
    `cuda_prelude` declares what the expression calls. `cuda_atomic` is the hardware's own update of the element at
    address `{0}` by `{1}`, as one step, where it has one. For LLVM it is an instruction ("fadd"), a comparison
    ("icmp slt") or an intrinsic ("llvm.fma"). Narrow floats compute in float32 on both and are rounded after.
    `commutes`: its two arguments may change places. `idempotent`: of two equal ones it is that one.
    `expand` says the operation in terms of simpler ones, for a target with no spelling for that dtype.
    `lane`, if given, makes it an exchange between the threads of a warp: the result in lane n is the argument in lane
    `lane(n)`. All threads of the warp come by together; it stands alone in a store, in a kernel.
    `ulp` bounds the error of a backend against the exact result, in units in the last place; 0 is exact.
    `work` is about how many instructions a GPU takes for it in float32, for estimates.
    `near` is below what magnitude of its argument, in float32, another function means the same and has no slow path.
    `square` is the function that is its product with itself, and takes less.
    `few` is of how many significant bits an argument is, at most, of which another function means the same, and takes
    less.
    `pairs` names, by dtype, the instruction that does it on two lanes at once and takes less than twice one; its
    operands are those of both in the order of the arguments, then the results.
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
    ulp: float = 0.0
    work: int = 1
    near: tuple[float, str] | None = None
    square: str = ""
    few: tuple[int, str] | None = None
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
    """Where an instruction wants an operand's address to point: at element `at` of it, which may speak of the `lane`
    that gives the address. From there `run` elements lie one after the other, aligned to their bytes together: row
    after row or, by their `number`, in `order`. With `rows` they are a row of a matrix, anywhere, and its other rows
    are as far from each other as in the buffer, which the instruction is told."""

    at: tuple[Index, ...]
    run: int = 1
    order: tuple[Index, ...] = ()
    rows: bool = False


Major = Literal["k", "mn"]
"""Which dimension of a matrix in shared memory has its elements side by side: the reduced one, or the other."""


@dataclass(frozen=True, eq=False, slots=True)
class Instruction:
    """Something a target does in one instruction, as data: what it means, who issues it, and how it is spelt.

    `meaning` is a Func of the language: a nest of constant loops around one statement, whose parameters are the
    operands, with the memory and the layout that each has to have. `level` is who issues it together: each thread for
    itself, the lanes of a warp, or the 128 threads of a warpgroup. `cuda` is a statement in which `{A}` is the address
    of operand A, or of the first of the registers that hold its part of a fragment; `cuda_prelude` declares what it
    calls.
    `pointers` say more about operands in memory than that their first element is meant; those in `matrices` are told
    where they lie by a descriptor (`loopir.ir.layout.smem_descriptors`), in `{A_word}` all of it but the address. Of
    the two that are `boxed`, a tensor map tells of the first, a box of a global array, in `{A}` and its corner in
    `{A_at}`, and the second is the box in shared memory, to which or from which it is copied; `{ring}` is the barrier
    that counts its bytes. What is `asynchronous` is done when its thread has waited for it, which lowering sees to.
    `arch` is the least architecture that has it, or with a letter the only one. `llvm` is what
    `loopir.codegen.llvm.issue` calls it on a CPU. `cuda_blocks` is its spelling where it is done in the memory of
    several blocks of a cluster, those in `{mask}`. Without a spelling for a target the instruction is its meaning
    there. `loopir.interp.instruction` makes one from a Python function.
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

    def __post_init__(self) -> None:
        if self.name in INSTRUCTIONS or self.name in REGISTRY:
            raise ValueError(f"the instruction {self.name!r} is declared twice")
        INSTRUCTIONS[self.name] = self

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Instruction], tuple[str]]:
        return _instructed, (self.name,)


MEMORIES: dict[str, Memory] = {}


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of one's own, as data: a scope for the operands of instructions, with room for `capacity` bytes.

    On the targets that there are its buffers lie in memory of scope `like`, which each thread has for itself. One that
    is made of registers of so many bytes, its `unit`, has no addresses: instructions alone touch what is in it, whole
    registers at a time, which they know by number.

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

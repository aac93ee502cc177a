"""Emit CUDA C, with no header, from a lowered Func: one source for all of its kernels.

Nothing is decided here. Statements are emitted in this file, expressions in `loopir.codegen.cuda.values`. `KernelInfo`
has what a launch needs; grid sizes are index expressions that the host evaluates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod

from loopir.codegen.cuda.atomic import ATOMIC_PRELUDE, update
from loopir.codegen.cuda.launch_comment import launch_comment
from loopir.codegen.cuda.layout_text import without_double_parentheses, wrapped
from loopir.codegen.cuda.loop_names import short_loop_names
from loopir.codegen.cuda.mbarriers import (
    MBARRIER_PRELUDE,
    MapInfo,
    hardware_barriers,
    map_of,
    maps_of,
    turn_barrier,
)
from loopir.codegen.cuda.narrow_floats import NARROW_PRELUDE
from loopir.codegen.cuda.offsets import MANY, hoist_offset_bases, unrolled_copies
from loopir.codegen.cuda.prelude import referenced
from loopir.codegen.cuda.speculate import hoisted_functions, speculated_register, speculated_sides
from loopir.codegen.cuda.values import VALUE_PRELUDE, CudaValues, memory_type, value_type
from loopir.codegen.fast_division import DIVISION_PRELUDE, divisors
from loopir.codegen.host import python_index
from loopir.codegen.index_bounds import index_bounds as bounds
from loopir.codegen.overflow import index_bounds
from loopir.codegen.params import kernels_of, params_of
from loopir.errors import LowerError
from loopir.ir.dtypes import DType, bfloat16
from loopir.ir.grammar import (
    AXES,
    LAUNCH_AXES,
    Alloc,
    AsyncCommit,
    AsyncWait,
    Barrier,
    Body,
    Buffer,
    Cast,
    ExpectTx,
    Fence,
    Func,
    If,
    Index,
    InstrCall,
    Int,
    Kernel,
    Load,
    Loop,
    MBarrierInit,
    MBarrierWait,
    Op,
    Reduce,
    RegisterFence,
    SetMaxRegs,
    Stmt,
    Store,
    Turn,
)
from loopir.ir.layout.shared_memory import ALIGNMENT, MATRIX_ALIGNMENT, bytes_of, elements_of, matrices, shared_layout
from loopir.ir.ops import Instruction, Intrinsic
from loopir.ir.recursion import deep
from loopir.ir.traverse.walk import loaded_buffers, nodes, statements, stored_buffers

GRID = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
STATIC_SHARED = 48 * 1024
GROUPS = {
    "copies": ("cp.async.commit_group", "cp.async.wait_group"),
    "stores": ("cp.async.bulk.commit_group", "cp.async.bulk.wait_group.read"),
    "products": ("wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned"),
}
FENCES = {"async": "fence.proxy.async.shared::cta", "registers": "wgmma.fence.sync.aligned"}
CLUSTER_MEETS = "barrier.cluster.arrive.release;\\nbarrier.cluster.wait.acquire;"
REGISTER_FENCE = {("float", 4): "f", ("int", 4): "r", ("uint", 4): "r"}
"""Of a register, by the kind and the bytes of its type, what inline assembly calls it."""
MAX_UNROLLED_STMTS = 16
VECTOR_TYPES = {2: "unsigned short", 4: "unsigned int", 8: "lp_u2", 16: "lp_u4"}


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """How to launch a kernel: its parameters as (kind, name), the grid, the block, dynamic shared memory in bytes.

    Parameters are integers, reciprocals of integers, and buffers, under their names in the host function. The grid
    counts blocks; `cluster` blocks, contiguous along x, are a cluster.
    """

    name: str
    params: tuple[tuple[str, str], ...]
    grid: tuple[Index, Index, Index]
    block: tuple[int, int, int]
    shared_bytes: int
    wide: frozenset[str]
    """Buffers that are moved in whole vectors, which their addresses have to be aligned to."""
    cluster: int = 1
    maps: tuple[MapInfo, ...] = ()
    """Tensor maps, which are the last parameters."""
    within: tuple[Index, ...] = ()
    """What has to be below 2^31 at a launch: the kernel counts in ints. Another text of it has no such bound."""


@dataclass(frozen=True, slots=True)
class CudaModule:
    """The source, how to launch each kernel, and the loop from which each line of the source comes."""

    source: str
    kernels: tuple[KernelInfo, ...]
    loops: tuple[str | None, ...]
    needs: tuple[tuple[str, str], ...] = ()
    """What not every GPU has, and the least architecture that has it."""


@deep(LowerError)
def emit(func: Func, *, long: bool = False, scalar: bool = False) -> CudaModule:
    """Emit the CUDA C of every kernel in `func`.

    With `long`, index arithmetic has 64 bits at all sizes. With `scalar`, copies between memory and registers move one
    element at a time, so that arrays need no alignment beyond an element's, except where instructions access them.
    """
    index_bounds(func)
    kernels = kernels_of(func)
    used = sorted({n.fn for k in kernels for n in nodes(k) if isinstance(n, Op | InstrCall)}, key=lambda f: f.name)
    body: list[tuple[str, str | None]] = []
    infos: list[KernelInfo] = []
    for k in kernels:
        emitter = _Emitter(k, long, scalar)
        infos.append(emitter.kernel())
        header = launch_comment(k, infos[-1].grid, infos[-1].block, infos[-1].shared_bytes)
        body += [("", None), *((x, None) for x in header), *emitter.lines]
    declared = referenced(_preludes(kernels, used), [line for line, _ in body])
    lines = [(line, None) for part in declared for line in part.split("\n")] + body
    needs = [(f"a cluster of {k.cluster} blocks, which {k.name} has,", "sm_90") for k in infos if k.cluster > 1]
    needs += [(fn.name, fn.arch) for fn in used if isinstance(fn, Instruction) and fn.arch]
    return CudaModule(
        "\n".join(line for line, _ in lines) + "\n", tuple(infos), tuple(loop for _, loop in lines), tuple(needs)
    )


def _preludes(kernels: Sequence[Kernel], used: Sequence[Intrinsic | Instruction]) -> list[str]:
    """The declarations that `kernels`, which use the operations `used`, need before them; each once."""
    leaves = [s for k in kernels for s in statements(k.body)]
    own = dict.fromkeys(part for fn in used for part in fn.cuda_prelude.split("\n\n") if part)
    needed = [
        (NARROW_PRELUDE, any(t.is_narrow and t.bits == 8 for k in kernels for t in _types(k))),
        (MBARRIER_PRELUDE, any(isinstance(s, MBarrierInit | InstrCall) for s in leaves)),
        *((part, True) for part in own),
        (ATOMIC_PRELUDE, any(isinstance(s, Reduce) and s.atomic for s in leaves)),
        (DIVISION_PRELUDE, any(divisors(k, params_of(k).integers) for k in kernels)),
    ]
    return [VALUE_PRELUDE, *dict.fromkeys(part for part, is_needed in needed if is_needed)]


def _types(kernel: Kernel) -> Iterator[DType]:
    """Of what a kernel has in memory, and converts to."""
    for n in nodes(kernel):
        if isinstance(n, Cast):
            yield n.type
        if isinstance(n, Load | Store):
            yield n.buffer.dtype
        elif isinstance(n, Reduce):
            yield from (b.dtype for b in n.buffers)


class _Emitter:
    """Emits one kernel."""

    def __init__(self, kernel: Kernel, long: bool, scalar: bool) -> None:
        self.source, self.scalar = kernel, scalar
        self.params = params_of(kernel)
        self.maps = maps_of(kernel)
        self.lines: list[tuple[str, str | None]] = []
        self.around: list[str] = []
        self.wide: set[str] = set()
        self.written_out = False
        self.names = (f"lp_at{n}" for n in count())
        allocated = (s.buffer for s in statements(kernel.body) if isinstance(s, Alloc))
        own = [b for b in allocated if b.scope != "shared"]
        self.own = {b.name for b in own}
        """What a thread has for itself, whatever its scope is called."""
        self.addressed = _addressed(kernel)
        found_loops = (s for s in statements(kernel.body) if isinstance(s, Loop))
        self.extents = {s.var: s.extent.value for s in found_loops if isinstance(s.extent, Int)}
        found = None if long else bounds(kernel)
        never = found is None or any(isinstance(b, Int) for b in found)
        self.within = () if found is None or never else found
        self.values = CudaValues("long long" if never else "int")
        self.values.scalars = frozenset(b.name for b in own if elements_of(b) == 1) - self.addressed
        self.values.short = short_loop_names(kernel)
        self.values.reciprocals = {d: f"lp_by{n}" for n, d in enumerate(divisors(kernel, self.params.integers))}

    def kernel(self) -> KernelInfo:
        extents: dict[str, Index] = {}
        body = self.source.body
        heads: list[tuple[str, str]] = []
        while len(body) == 1 and isinstance(body[0], Loop) and body[0].kind in AXES:
            loop = body[0]
            extents[loop.kind] = loop.extent
            heads.append((loop.var, loop.kind))
            self.around.append(loop.var)
            body = loop.body
        block = tuple(_constant(extents.get(a, Int(1)), a) for a in LAUNCH_AXES)
        cluster = _constant(extents.get("cluster", Int(1)), "cluster")
        self.head(block, cluster)
        dynamic_bytes = self.shared_memory()
        for var, kind in heads:
            name = self.values.name(var)
            self.line(1, f"const {self.values.index_type} {name} = {_head(kind, cluster)};")
            if kind in LAUNCH_AXES:  # NVRTC knows only the total of the launch bounds; this decides guards
                self.line(1, f"__builtin_assume(0 <= {name} && {name} < {_constant(extents[kind], kind)});")
        for b in {s.slot.buffer.name: None for s in statements(body) if isinstance(s, MBarrierWait)}:
            self.line(1, f"unsigned int lp_turns_{self.values.name(b)} = 0;")
        self.body(body, 1)
        self.line(0, "}")
        params = (
            *(("int", n) for n in self.params.integers),
            *(("reciprocal", f"lp_reciprocal({python_index(d)})") for d in self.values.reciprocals),
            *(("buffer", b.name) for b in self.params.buffers),
        )
        x, y, z = (extents.get(a, Int(1)) for a in GRID)
        return KernelInfo(
            self.source.name, params, (x * cluster, y, z), (block[0], block[1], block[2]),
            dynamic_bytes, frozenset(self.wide), cluster, tuple(self.maps), self.within,
        )  # fmt: skip

    def head(self, block: tuple[int, ...], cluster: int) -> None:
        """The signature of the kernel, and the wait for the previous launch."""
        signature = ", ".join([
            *(f"{self.values.index_type} {self.values.name(n)}" for n in self.params.integers),
            *(f"unsigned long long {name}" for name in self.values.reciprocals.values()),
            *(self.parameter(b) for b in self.params.buffers),
            *(f"const __grid_constant__ lp_map {name}" for name in self.maps.values()),
        ])  # fmt: skip
        bound = f"{prod(block)}"
        if any(isinstance(s, SetMaxRegs) for s in statements(self.source.body)):
            bound += ", 1"  # setmaxnreg shares out the registers of one block
        dims = f"__cluster_dims__({cluster}, 1, 1) " if cluster > 1 else ""
        self.line(0, f'extern "C" __global__ void __launch_bounds__({bound}) {dims}{self.source.name}({signature}) {{')
        self.line(1, "if (lp_after_previous()) return;")

    def shared_memory(self) -> int:
        """Declare the shared buffers; give the bytes of dynamic shared memory, 0 if they are static."""
        shared = [s.buffer for s in statements(self.source.body) if isinstance(s, Alloc) and s.buffer.scope == "shared"]
        offsets, total = shared_layout(self.source)
        at = MATRIX_ALIGNMENT if matrices(self.source) else ALIGNMENT
        if max(total, sum(map(bytes_of, shared))) <= STATIC_SHARED:
            for b in shared:
                name = f"{self.values.name(b.name)}[{elements_of(b)}]"
                self.line(1, f"__shared__ __align__({at}) {memory_type(b.dtype)} {name};")
            return 0
        self.line(1, f"extern __shared__ __align__({at}) unsigned char lp_shared[];")
        for b in shared:
            where = f"reinterpret_cast<{memory_type(b.dtype)}*>(lp_shared + {offsets[b.name]})"
            self.line(1, f"{memory_type(b.dtype)}* const {self.values.name(b.name)} = {where};")
        return total

    def parameter(self, b: Buffer) -> str:
        const = "" if b.name in self.params.written else "const "
        alone = "" if b.name in self.params.handed else "__restrict__ "
        return f"{const}{memory_type(b.dtype)}* {alone}{self.values.name(b.name)}"

    def line(self, depth: int, text: str) -> None:
        loop = self.around[-1] if self.around else None
        line = without_double_parentheses("  " * depth + text)
        self.lines += [(x, loop) for x in wrapped(line)]

    # ------------------------------------------------------------ statements

    def body(self, body: Body, depth: int) -> None:
        for n, s in enumerate(body):
            if isinstance(s, Alloc) and n == len(body) - 1:  # it lives as long as the block that it stands in
                self.alloc(s, depth)
            else:
                self.stmt(s, depth)

    def stmt(self, s: Stmt, depth: int) -> None:
        match s:
            case Loop():
                self.loop(s, depth)
            case If(cond, then) if (kept := speculated_register(s, self.own, self.extents)) is not None:
                now, had = self.values.element(kept, Int(0)), f"lp_had_{kept.name}"
                self.line(depth, "{")
                self.line(depth + 1, f"const {memory_type(kept.dtype)} {had} = {now};")
                self.body(then, depth + 1)
                self.line(depth + 1, f"{now} = {self.values.cond(cond)} ? {now} : {had};")
                self.line(depth, "}")
            case If(cond, then, orelse):
                self.line(depth, f"if ({self.values.cond(cond)}) {{")
                self.body(then, depth + 1)
                if orelse:
                    self.line(depth, "} else {")
                    self.body(orelse, depth + 1)
                self.line(depth, "}")
            case Store() if (v := speculated_sides(s, self.own, self.extents)) is not None:
                a, b = (
                    f"const {memory_type(v.dtype)} lp_{k} = {self.values.value(x)};"
                    for k, x in zip("ab", (v.a, v.b), strict=True)
                )
                chosen = f"{self.values.cond(v.cond)} ? lp_a : lp_b"
                self.line(depth, f"{{ {a} {b} {self.values.element(s.buffer, s.at[0])} = {chosen}; }}")
            case Store():
                self.line(depth, f"{self.values.element(s.buffer, s.at[0])} = {self.values.held(s.value)};")
            case Reduce(atomic=True, buffers=(b,)) if b.scope in ("global", "shared") and b.name not in self.own:
                for line in update(s, self.values):
                    self.line(depth, line)
            case Reduce():
                self.reduce(s, depth)
            case Alloc(buffer) if buffer.scope == "shared":
                self.alloc(s, depth)
            case Alloc():
                self.line(depth, "{")
                self.alloc(s, depth + 1)
                self.line(depth, "}")
            case InstrCall():
                self.issue(s, depth)
            case _:
                for line in self.synchronization(s):
                    self.line(depth, line)

    def synchronization(self, s: Stmt) -> Iterator[str]:
        """What orders threads, and work that goes on beside them: groups, mbarriers, fences, turns and barriers."""
        match s:
            case AsyncCommit(group):
                yield f'asm volatile("{GROUPS[group][0]};" ::: "memory");'
            case AsyncWait(pending, group):
                yield f'asm volatile("{GROUPS[group][1]} {pending};" ::: "memory");'
            case MBarrierInit(ring, arrivals):
                yield f"lp_ring_init({self.values.name(ring.name)}, {elements_of(ring)}, {arrivals});"
            case ExpectTx(slot, 0, block):
                there = "" if block is None else f", {self.values.index(block)}"
                yield f"lp_ring_arrive({self.slot(slot)}{there});"
            case ExpectTx(slot, count):
                yield f"lp_ring_expect({self.slot(slot)}, {count});"
            case MBarrierWait(slot, _, True):
                bits, n = self.turns(slot).split(", ", 1)
                yield f"{bits} ^= 1u << {n};"
            case MBarrierWait(slot, turn):
                yield f"lp_ring_wait({self.slot(slot)}, {self.turns(slot)}, {turn});"
            case RegisterFence():
                yield from self.register_fence(s)
            case Fence(kind):
                yield f'asm volatile("{FENCES[kind]};" ::: "memory");'
            case SetMaxRegs(registers, more):
                yield f'asm volatile("setmaxnreg.{"inc" if more else "dec"}.sync.aligned.u32 {registers};");'
            case Turn(group):
                yield turn_barrier(s, self.values.index(group))
            case Barrier(cluster=True):
                yield f'asm volatile("{CLUSTER_MEETS}" ::: "memory");'
            case Barrier(threads):
                yield from hardware_barriers(threads, self.source)
            case _:
                raise LowerError(f"{type(s).__name__} cannot stand in a kernel")

    def register_fence(self, s: RegisterFence) -> Iterator[str]:
        """Keep what is in the registers of a buffer where it is in the order of the source."""
        b = s.buffer
        name, one = self.values.name(b.name), REGISTER_FENCE.get((b.dtype.kind, b.dtype.bytes))
        count = elements_of(b) if one else elements_of(b) * b.dtype.bytes // 4  # several are in a register
        name = name if one else f"((unsigned int*){name})"
        registers = ", ".join(f'"+{one or "r"}"({name}[{n}])' for n in range(count))
        yield f'asm volatile("" : {registers} :: "memory");'
        if s.apart:  # ptxas moves uses in the same block of code up, past the wait; so the block ends here
            yield '{ int lp_no; asm volatile("mov.u32 %0, 0;" : "=r"(lp_no)); if (lp_no) return; }'

    def loop(self, s: Loop, depth: int) -> None:
        if s.kind in AXES:
            raise LowerError(
                f"loop {s.var} is bound to {s.kind} inside a kernel's other loops; `threads` puts it outside"
            )
        copy = _vector_copy(s)
        if copy is not None and not self.scalar:
            self.copy(s, copy, depth)
            return
        var, kind = self.values.name(s.var), self.values.index_type
        outermost = s.kind == "unroll" and not self.written_out
        if outermost and unrolled_copies((s,)) >= MANY:
            s, found = hoist_offset_bases(s, self.names)
            for name, (b, at) in found.items():
                first = f"{memory_type(b.dtype)}* const {self.values.name(name)}"
                self.line(depth, f"{first} = {self.values.address(b, self.values.index(at))};")
        if s.kind in ("unroll", "vectorize"):
            self.line(depth, "#pragma unroll")
        elif s.kind == "serial" and _left_a_loop(s):
            self.line(depth, "#pragma unroll 1")
        extent = self.values.index(s.extent)
        if loaded_buffers(s.extent) & frozenset[str]().union(
            *map(stored_buffers, s.body)
        ):  # how often it runs is asked once
            self.line(depth, f"const {kind} lp_end_{var} = {extent};")
            extent = f"lp_end_{var}"
        self.line(depth, f"for ({kind} {var} = 0; {var} < {extent}; ++{var}) {{")
        self.around.append(s.var)
        self.written_out = self.written_out or outermost
        self.body(s.body, depth + 1)
        self.written_out = self.written_out and not outermost
        self.around.pop()
        self.line(depth, "}")

    def copy(self, loop: Loop, s: Store, depth: int) -> None:
        """A whole vector moved at once."""
        assert isinstance(s.value, Load)
        assert isinstance(loop.extent, Int)
        kind = VECTOR_TYPES[loop.extent.value * s.buffer.dtype.bytes]
        to = self.values.address(s.buffer, self.values.at_zero(s.at[0], loop.var))
        source = self.values.address(s.value.buffer, self.values.at_zero(s.value.at[0], loop.var))
        self.wide |= {b.name for b in (s.buffer, s.value.buffer) if b.scope == "global"}
        if s.buffer.dtype == bfloat16 and s.buffer.scope == "local":
            self.values.words.add(s.buffer.name)  # its lanes are unrolled
        self.line(depth, f"*reinterpret_cast<{kind}*>({to}) = *reinterpret_cast<const {kind}*>({source});")

    def issue(self, s: InstrCall, depth: int) -> None:
        """An instruction, on the addresses of its operands."""
        named = {a.buffer.name: x for a, x in zip(s.fn.meaning.args, s.operands, strict=True)}
        runs = {name for name, aim in s.fn.pointers.items() if aim.run > 1}
        self.wide |= {x.buffer.name for name, x in named.items() if x.buffer.scope == "global" and name in runs}
        self.values.words |= {
            x.buffer.name
            for name, x in named.items()
            if name in runs and x.buffer.scope == "local" and x.buffer.dtype == bfloat16
        }
        at = {n: f"({self.values.address(x.buffer, self.values.index(x.at[0]))})" for n, x in named.items()}
        for b in s.boxes:
            corner = ", ".join(f"(int)({self.values.index(x)})" for x in reversed(b.at))
            at |= {b.name: f"&{self.maps[map_of(b)]}", f"{b.name}_at": corner}
            self.wide |= {b.buffer.name}
        at |= {} if s.ring is None else {"ring": self.slot(s.ring)}
        spelt = s.fn.cuda if s.blocks == 1 else s.fn.cuda_blocks
        at |= {f"{name}_word": f"{word:#x}ull" for name, word in s.words}
        self.line(depth, spelt.format(**at, mask=(1 << s.blocks) - 1))

    def slot(self, slot: Load) -> str:
        return f"{self.values.name(slot.buffer.name)} + {self.values.index(slot.at[0])}"

    def turns(self, slot: Load) -> str:
        """The bits that say, by barrier, whether this thread waits for an odd or for an even turn."""
        return f"lp_turns_{self.values.name(slot.buffer.name)}, {self.values.index(slot.at[0])}"

    def store(self, b: Buffer, at: Index, value: str, depth: int) -> None:
        self.line(depth, f"{self.values.element(b, at)} = {self.values.to_memory(value, b.dtype)};")

    def reduce(self, s: Reduce, depth: int) -> None:
        """All components are combined before any is written."""
        at = s.at[0]
        if len(s.buffers) == 1:
            left = {
                s.monoid.left[0].name: self.values.from_memory(
                    self.values.element(s.buffers[0], at), s.buffers[0].dtype
                )
            }
            right = {s.monoid.right[0].name: self.values.value(s.values[0])}
            if sum(1 for n in nodes(s.monoid.combine[0]) if n in (*s.monoid.left, *s.monoid.right)) <= 2:
                self.store(s.buffers[0], at, self.values.combined(s.monoid.combine[0], left | right), depth)
                return
        self.line(depth, "{")
        env: dict[str, str] = {}
        for n, (p, v) in enumerate(zip(s.monoid.right, s.values, strict=True)):
            self.line(depth + 1, f"const {value_type(p.type)} lp_r{n} = {self.values.value(v)};")
            env[p.name] = f"lp_r{n}"
        for n, (p, b) in enumerate(zip(s.monoid.left, s.buffers, strict=True)):
            read = self.values.from_memory(self.values.element(b, at), b.dtype)
            self.line(depth + 1, f"const {value_type(p.type)} lp_l{n} = {read};")
            env[p.name] = f"lp_l{n}"
        functions, combine = hoisted_functions(s.monoid.combine)
        for param, v in functions:
            self.line(depth + 1, f"const {value_type(param.type)} {param.name} = {self.values.combined(v, env)};")
            env[param.name] = param.name
        for n, (p, v) in enumerate(zip(s.monoid.left, combine, strict=True)):
            self.line(depth + 1, f"const {value_type(p.type)} lp_c{n} = {self.values.combined(v, env)};")
        for n, b in enumerate(s.buffers):
            self.store(b, at, f"lp_c{n}", depth + 1)
        self.line(depth, "}")

    def alloc(self, s: Alloc, depth: int) -> None:
        """Declare a buffer of one thread, and emit what uses it."""
        b, body = s.buffer, s.body
        if b.scope != "shared":
            name, first = self.values.name(b.name), body[0] if body else None
            size = "" if b.name in self.values.scalars else f"[{elements_of(b)}]"
            if not size and isinstance(first, Store) and first.buffer.name == b.name:
                name, body = f"{name} = {self.values.held(first.value)}", body[1:]
            aligned = "__align__(16) " if b.name in self.addressed else ""
            self.line(depth, f"{aligned}{memory_type(b.dtype)} {name}{size};")
        self.body(body, depth)


def _addressed(kernel: Kernel) -> frozenset[str]:
    """The buffers whose addresses a kernel takes: for instructions, for vectors, and for fences of registers."""
    found: set[str] = set()
    for s in statements(kernel.body):
        if isinstance(s, InstrCall):
            found |= {x.buffer.name for x in s.operands}
        elif isinstance(s, RegisterFence):
            found |= {s.buffer.name}
        elif isinstance(s, Reduce) and s.atomic:
            found |= {b.name for b in s.buffers}
        elif isinstance(s, Loop) and (copy := _vector_copy(s)) is not None and isinstance(copy.value, Load):
            found |= {copy.buffer.name, copy.value.buffer.name}
    return frozenset(found)


def _vector_copy(s: Loop) -> Store | None:
    """The store of a loop that moves one whole vector between memory and registers, as `vectors` makes them."""
    if s.kind != "vectorize" or len(s.body) != 1 or not isinstance(s.extent, Int):
        return None
    store = s.body[0]
    if not (isinstance(store, Store) and isinstance(store.value, Load)):
        return None
    local = store.buffer.scope == "local" or store.value.buffer.scope == "local"
    return store if local and s.extent.value * store.buffer.dtype.bytes in VECTOR_TYPES else None


def _left_a_loop(loop: Loop) -> bool:
    """Whether more code for `loop` would take time to compile and save none: it waits for what goes on by itself.

    One thread begins the copies of boxes. Compilers write out the few turns of a short loop around products, too, and
    the first of a long one's; ptxas wants the former so, but where each turn fences the registers.
    """
    inside = [*statements(loop.body)]
    begun = {s.fn.asynchronous for s in inside if isinstance(s, InstrCall)}
    short = isinstance(loop.extent, Int) and loop.extent.value < MAX_UNROLLED_STMTS
    fenced = any(isinstance(s, Fence) and s.kind == "registers" for s in inside)
    return "bytes" in begun or ("products" in begun and (fenced or not short))


def _head(kind: str, cluster: int) -> str:
    """An axis' index. The blocks of a cluster lie along x."""
    if cluster > 1 and kind in ("blockIdx.x", "cluster"):
        return f"blockIdx.x {'/' if kind == 'blockIdx.x' else '%'} {cluster}"
    return "0" if kind == "cluster" else kind


def _constant(extent: Index, axis: str) -> int:
    if not isinstance(extent, Int):
        raise LowerError(f"the number of threads along {axis} has to be a constant")
    return extent.value

"""Lowering, as one table: a scheduled Func goes through the passes in order, and the emitters spell what comes out.

A pass is a function from Func to Func in a file of its own; it decides nothing that the schedule has decided. The
Func is verified after every pass, and `show` sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loopir.analysis.presburger.solver import effort
from loopir.arith.simplify_func import simplify_func
from loopir.errors import EASIER, LowerError, Undecided
from loopir.ir.grammar import Func
from loopir.ir.recursion import deep
from loopir.ir.traverse.memo import cache_of
from loopir.ir.traverse.reduction_init import explicit_init
from loopir.ir.verify.verify import Stage, verify
from loopir.lower.common.expand_instructions import expand_instructions
from loopir.lower.common.flatten_buffers import flatten_buffers
from loopir.lower.common.hoist_vector_guards import hoist_vector_guards
from loopir.lower.common.insert_bounds_checks import insert_bounds_checks
from loopir.lower.common.map_memories import map_memories
from loopir.lower.common.outline_kernels import outline_kernels
from loopir.lower.common.unswitch import unswitch
from loopir.lower.gpu.asynchronous.insert_copy_waits import insert_copy_waits
from loopir.lower.gpu.asynchronous.insert_mbarrier_waits import insert_mbarrier_waits
from loopir.lower.gpu.asynchronous.insert_proxy_fences import insert_proxy_fences
from loopir.lower.gpu.asynchronous.insert_store_waits import insert_store_waits
from loopir.lower.gpu.asynchronous.insert_wgmma_waits import insert_wgmma_waits
from loopir.lower.gpu.asynchronous.warp_specialize import warp_specialize
from loopir.lower.gpu.bind_threads import bind_threads
from loopir.lower.gpu.bound_unrolled_guards import bound_unrolled_guards
from loopir.lower.gpu.check_static_allocs import check_static_allocs
from loopir.lower.gpu.cse import cse
from loopir.lower.gpu.distribute_fragments import distribute_fragments
from loopir.lower.gpu.guard_fast_paths import guard_fast_paths
from loopir.lower.gpu.insert_barriers import insert_barriers
from loopir.lower.gpu.lower_fragments import lower_fragments
from loopir.lower.gpu.lower_thread_reductions import lower_thread_reductions
from loopir.lower.gpu.pack_x2 import pack_x2
from loopir.lower.gpu.vectorize_memory import vectorize_memory
from loopir.lower.target import Target, target as target_called
from loopir.machines import Machine

BOTH = frozenset({"cuda", "llvm"})
GPU = frozenset({"cuda"})
LLVM = frozenset({"llvm"})


@dataclass(frozen=True, slots=True)
class Pass:
    """One row: the rewrite, the stage its result is verified at, its targets, and why it stands where it does."""

    name: str
    rewrite: Callable[[Func, Target], Func]
    stage: Stage
    targets: frozenset[str]
    why: str
    after: tuple[str, ...] = ()


PASSES: tuple[Pass, ...] = (
    Pass("expand_instructions", expand_instructions, "schedule", BOTH,
         "what the target has no instruction for is loops from here on"),
    Pass("explicit_init", lambda f, t: explicit_init(f), "schedule", BOTH,
         "every later pass sees a reduction's first value as plain stores"),
    Pass("simplify", lambda f, t: simplify_func(f, drop_unit_loops=True), "schedule", BOTH,
         "guards that are proved go while the loops' bounds are still in sight", after=("explicit_init",)),
    Pass("outline_kernels", outline_kernels, "lowered", BOTH,
         "the host keeps what stands around the outermost concurrent loops", after=("explicit_init",)),
    Pass("map_memories", map_memories, "lowered", BOTH,
         "memories that are declared beside the scopes have room for what is in them, and are what they are like",
         after=("outline_kernels",)),
    Pass("distribute_fragments", distribute_fragments, "lowered", GPU,
         "the lanes of a warp share the nests over fragments, which are loops over lanes from here on",
         after=("outline_kernels",)),
    Pass("hoist_vector_guards", hoist_vector_guards, "lowered", BOTH,
         "guards that a vector's lanes pass together leave them while indices are those of elements",
         after=("simplify", "distribute_fragments")),
    Pass("bind_threads", bind_threads, "lowered", GPU,
         "bound loops become the launch's axes; what is under none of an axis runs on its index 0",
         after=("outline_kernels", "distribute_fragments")),
    Pass("lower_thread_reductions", lower_thread_reductions, "lowered", GPU,
         "threads fold together where all of a block come by; what they share is ordered by barriers, next",
         after=("explicit_init", "bind_threads")),
    Pass("insert_barriers", insert_barriers, "lowered", GPU,
         "threads of a block meet between a write and another thread's access, while accesses are by element",
         after=("bind_threads", "lower_thread_reductions")),
    Pass("insert_copy_waits", insert_copy_waits, "lowered", GPU,
         "a thread waits for its asynchronous copies, in time for the barrier that tells the others",
         after=("insert_barriers",)),
    Pass("insert_store_waits", insert_store_waits, "lowered", GPU,
         "a thread waits until its stores have read, in time for the barrier that lets others write there again",
         after=("insert_barriers",)),
    Pass("warp_specialize", warp_specialize, "lowered", BOTH,
         "what warps of their own do leaves the nest once the barriers of the rest are placed in it",
         after=("insert_barriers", "insert_copy_waits")),
    Pass("insert_mbarrier_waits", insert_mbarrier_waits, "lowered", GPU,
         "copies that count bytes are waited for where they are needed; that readers are done, barriers tell",
         after=("insert_barriers", "insert_copy_waits")),
    Pass("insert_wgmma_waits", insert_wgmma_waits, "lowered", GPU,
         "products are waited for where they are done",
         after=("insert_barriers", "insert_copy_waits")),
    Pass("insert_proxy_fences", insert_proxy_fences, "lowered", GPU,
         "ordinary writes are made known to what reads by itself, before all barriers that there are",
         after=("insert_wgmma_waits", "warp_specialize", "insert_mbarrier_waits")),
    Pass("insert_bounds_checks", insert_bounds_checks, "lowered", BOTH,
         "an access that is not proved is tested, while accesses are by element", after=("insert_barriers",)),
    Pass("lower_fragments", lower_fragments, "lowered", BOTH,
         "instructions get registers and addresses, once no analysis needs what they touch",
         after=("insert_bounds_checks",)),
    Pass("flatten_buffers", flatten_buffers, "flat", BOTH,
         "elements become offsets, layouts are applied; no analysis of accesses after this",
         after=("insert_bounds_checks",)),
    Pass("vectorize_memory", vectorize_memory, "flat", GPU,
         "whole vectors are moved at once where offsets are contiguous and aligned", after=("flatten_buffers",)),
    Pass("pack_x2", pack_x2, "flat", GPU,
         "two lanes of what is made of sums are one instruction, while lanes are loops over one store",
         after=("vectorize_memory",)),
    Pass("bound_unrolled_guards", bound_unrolled_guards, "flat", GPU,
         "guards say where they are known to hold, once no analysis of accesses reads them",
         after=("vectorize_memory",)),
    Pass("guard_fast_paths", guard_fast_paths, "flat", GPU,
         "all lanes of a vector are asked at once whether a function needs its slow path", after=("vectorize_memory",)),
    Pass("cse", cse, "flat", GPU,
         "what a statement repeats is computed once; lanes are loops of their own by then",
         after=("vectorize_memory",)),
    Pass("tidy", lambda f, t: simplify_func(f, drop_unit_loops=True), "flat", BOTH,
         "offsets are simplified as a whole", after=("flatten_buffers",)),
    Pass("unswitch", unswitch, "flat", LLVM,
         "tests leave the loops that they are the same in, once they are as simple as they get", after=("tidy",)),
    Pass("check_static_allocs", check_static_allocs, "flat", GPU,
         "what a kernel allocates has a constant size and fits, or is refused, once sizes are as simple as they get",
         after=("tidy",)),
)  # fmt: skip


def lower(
    func: Func, target: str, *, gpu: Machine | None = None, show: Callable[[str, Func], None] | None = None
) -> Func:
    """`func` in the form that the emitter of `target` takes: host statements around kernels, flat accesses.

    `gpu` is the one that limits are of, unless told the one that schedules are made for. `show` is called with each
    pass's name and result. Raises LowerError where the schedule cannot be run on the
    target, TargetError where it needs more than the target has. Without `show`, a Func is lowered once for a target:
    who asked whether it can be builds what came out then.
    """
    chosen = target_called(target, gpu)
    if show is not None:
        return _lowered(func, chosen, show)
    known = cache_of(func)
    if chosen not in known:
        known[chosen] = _lowered(func, chosen, None)
    return known[chosen]


@deep(LowerError)
def _lowered(func: Func, chosen: Target, show: Callable[[str, Func], None] | None) -> Func:
    for p in PASSES:
        if chosen.name not in p.targets:
            continue
        try:
            with effort():
                func = p.rewrite(func, chosen)
        except Undecided as hard:
            raise LowerError(f"{p.name}: {hard}; {EASIER}") from hard
        verify(func, p.stage)
        if show is not None:
            show(p.name, func)
    return func

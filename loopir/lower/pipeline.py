"""The table of lowering passes: a scheduled Func goes through them in order, and code generation takes the result.

A pass is a function from Func to Func in a file of its own; it never reverses a decision of the schedule. The Func is
verified after every pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from loopir.analysis.presburger.solver import effort
from loopir.arith.simplify_func import simplify_func
from loopir.errors import EASIER, LowerError, Undecided
from loopir.ir.grammar import Func
from loopir.ir.recursion import deep
from loopir.ir.traverse.memo import cache_of
from loopir.ir.traverse.reduction_init import explicit_init
from loopir.ir.traverse.walk import top_level_nests
from loopir.ir.verify.verify import Stage, verify
from loopir.lower.common.expand_instructions import expand_instructions
from loopir.lower.common.expand_vector_reductions import expand_vector_reductions
from loopir.lower.common.flatten_buffers import flatten_buffers
from loopir.lower.common.hoist_vector_guards import hoist_vector_guards
from loopir.lower.common.insert_bounds_checks import insert_bounds_checks
from loopir.lower.common.map_memories import map_memories
from loopir.lower.common.order_folds import order_folds
from loopir.lower.common.outline_kernels import outline_kernels
from loopir.lower.common.record_faults import record_faults
from loopir.lower.common.unswitch import unswitch
from loopir.lower.gpu.asynchronous.insert_copy_waits import insert_copy_waits
from loopir.lower.gpu.asynchronous.insert_mbarrier_waits import insert_mbarrier_waits
from loopir.lower.gpu.asynchronous.insert_proxy_fences import insert_proxy_fences
from loopir.lower.gpu.asynchronous.insert_store_waits import insert_store_waits
from loopir.lower.gpu.asynchronous.insert_turns import insert_turns
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
from loopir.lower.gpu.unswitch_unrolled import unswitch_unrolled
from loopir.lower.gpu.vectorize_memory import vectorize_memory
from loopir.lower.target import Target, target as target_called
from loopir.machines import Machine

BOTH = frozenset({"cuda", "llvm"})
GPU = frozenset({"cuda"})
LLVM = frozenset({"llvm"})


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: its function, the stage at which its result is verified, its targets, why it is there."""

    name: str
    rewrite: Callable[[Func, Target], Func]
    stage: Stage
    targets: frozenset[str]
    why: str
    after: tuple[str, ...] = ()


PASSES: tuple[Pass, ...] = (
    Pass("record_faults", record_faults, "schedule", LLVM,
         "with checks=True, the loops are those of the schedule, which a report names"),
    Pass("expand_instructions", expand_instructions, "schedule", BOTH,
         "later passes see loops instead of the instructions that the target lacks"),
    Pass("order_folds", order_folds, "schedule", LLVM,
         "what a fold starts from is part of it", after=("expand_instructions",)),
    Pass("explicit_init", lambda f, t: explicit_init(f), "schedule", BOTH,
         "later passes see the initialization of a reduction as plain stores"),
    Pass("expand_vector_reductions", expand_vector_reductions, "schedule", BOTH,
         "later passes see vectors whose lanes are independent", after=("explicit_init",)),
    Pass("simplify", lambda f, t: simplify_func(f, drop_unit_loops=True), "schedule", BOTH,
         "proved guards are removed while loop bounds are still visible", after=("explicit_init",)),
    Pass("outline_kernels", outline_kernels, "lowered", BOTH,
         "the host keeps the statements around the outermost concurrent loops", after=("explicit_init",)),
    Pass("map_memories", map_memories, "lowered", BOTH,
         "custom memories are checked for capacity and become their backing scopes",
         after=("outline_kernels",)),
    Pass("distribute_fragments", distribute_fragments, "lowered", GPU,
         "nests over fragments become loops over lanes, which are bound next",
         after=("outline_kernels",)),
    Pass("hoist_vector_guards", hoist_vector_guards, "lowered", BOTH,
         "uniform guards are found while indices are still multi-dimensional",
         after=("simplify", "distribute_fragments")),
    Pass("bind_threads", bind_threads, "lowered", GPU,
         "bound loops become launch axes; a statement under no loop of an axis runs on its index 0",
         after=("outline_kernels", "distribute_fragments")),
    Pass("lower_thread_reductions", lower_thread_reductions, "lowered", GPU,
         "reduction trees use shared memory, which the barriers inserted next order",
         after=("explicit_init", "bind_threads")),
    Pass("insert_barriers", insert_barriers, "lowered", GPU,
         "dependences between threads are analyzed while accesses are by element",
         after=("bind_threads", "lower_thread_reductions")),
    Pass("insert_copy_waits", insert_copy_waits, "lowered", GPU,
         "a thread waits for its copies before the barrier that publishes them",
         after=("insert_barriers",)),
    Pass("insert_store_waits", insert_store_waits, "lowered", GPU,
         "a thread waits until its stores have read, before the barrier after which others write there",
         after=("insert_barriers",)),
    Pass("warp_specialize", warp_specialize, "lowered", BOTH,
         "producers are moved out of the nest once the barriers of the rest are in place",
         after=("insert_barriers", "insert_copy_waits")),
    Pass("insert_mbarrier_waits", insert_mbarrier_waits, "lowered", GPU,
         "bulk copies are waited for before their use; barriers already order the readers before the next fill",
         after=("insert_barriers", "insert_copy_waits")),
    Pass("insert_wgmma_waits", insert_wgmma_waits, "lowered", GPU,
         "products are waited for before their results are used",
         after=("insert_barriers", "insert_copy_waits")),
    Pass("insert_turns", insert_turns, "lowered", GPU,
         "what warpgroups wait for in their turns is in place, and may make a turn wait for the one after it",
         after=("warp_specialize", "insert_mbarrier_waits", "insert_wgmma_waits")),
    Pass("insert_proxy_fences", insert_proxy_fences, "lowered", GPU,
         "fences go before barriers, so all barriers have to be in place",
         after=("insert_wgmma_waits", "warp_specialize", "insert_mbarrier_waits")),
    Pass("insert_bounds_checks", insert_bounds_checks, "lowered", BOTH,
         "unproved accesses are tested while accesses are by element", after=("insert_barriers",)),
    Pass("lower_fragments", lower_fragments, "lowered", BOTH,
         "instructions get registers and addresses once no analysis needs their loops",
         after=("insert_bounds_checks",)),
    Pass("flatten_buffers", flatten_buffers, "flat", BOTH,
         "subscripts become offsets and layouts are applied; accesses are not analyzed after this",
         after=("insert_bounds_checks",)),
    Pass("vectorize_memory", vectorize_memory, "flat", GPU,
         "vectors need contiguous and aligned offsets", after=("flatten_buffers",)),
    Pass("pack_x2", pack_x2, "flat", GPU,
         "lanes are packed while they are still loops over one store",
         after=("vectorize_memory",)),
    Pass("bound_unrolled_guards", bound_unrolled_guards, "flat", GPU,
         "guards are rewritten once no analysis of accesses reads them",
         after=("vectorize_memory",)),
    Pass("guard_fast_paths", guard_fast_paths, "flat", GPU,
         "one range test replaces those of all lanes, which are unrolled by then", after=("vectorize_memory",)),
    Pass("cse", cse, "flat", GPU,
         "repeated operations are found once lanes are loops of their own",
         after=("vectorize_memory",)),
    Pass("tidy", lambda f, t: simplify_func(f, drop_unit_loops=True), "flat", BOTH,
         "flattened offsets are simplified", after=("flatten_buffers",)),
    Pass("unswitch", unswitch, "flat", LLVM,
         "tests are compared for equality, so they have to be simplified first", after=("tidy",)),
    Pass("unswitch_unrolled", unswitch_unrolled, "flat", GPU,
         "tests are in their simplest form, without loops that they do not depend on", after=("tidy",)),
    Pass("check_static_allocs", check_static_allocs, "flat", GPU,
         "sizes have to be simplified to be recognized as constants",
         after=("tidy",)),
)  # fmt: skip


def lower(
    func: Func, target: str, *, gpu: Machine | None = None, show: Callable[[str, Func], None] | None = None,
    checks: bool = False,
) -> Func:  # fmt: skip
    """Lower `func` for `target`: host statements around kernels, with flat accesses.

    `gpu` has the limits to check (default: those of `lp.machine()`). `show` is called with the name and the result of
    each pass. With `checks` the first fault of a run is recorded (`record_faults`). Raises LowerError where the
    schedule cannot run on the target, TargetError where it needs more than the target has. Without `show`, the result
    is memoized with `func`.
    """
    chosen = replace(target_called(target, gpu), checks=checks)
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
            with effort(len(top_level_nests(func))):
                func = p.rewrite(func, chosen)
        except Undecided as hard:
            raise LowerError(f"{p.name}: {hard}; {EASIER}") from hard
        verify(func, p.stage)
        if show is not None:
            show(p.name, func)
    return func

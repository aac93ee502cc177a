"""Lowering, as one table: a scheduled Func goes through the passes in order, and the emitters spell what comes out.

A pass is a function from Func to Func in a file of its own; it decides nothing that the schedule has decided. The
Func is verified after every pass, and `show` sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loopir.analysis.simplify_func import simplify_func
from loopir.analysis.solver import effort
from loopir.errors import EASIER, LowerError, Undecided
from loopir.ir.grammar import Func
from loopir.ir.inits import explicit_init
from loopir.ir.kept import memory
from loopir.ir.recursion import deep
from loopir.ir.verify import Stage, verify
from loopir.lower.barriers import barriers
from loopir.lower.checks import checks
from loopir.lower.cross_thread import cross_thread
from loopir.lower.flatten import flatten
from loopir.lower.fragments import fragments
from loopir.lower.guards import guards
from loopir.lower.instructions import instructions
from loopir.lower.kernels import kernels
from loopir.lower.memories import memories
from loopir.lower.near import near
from loopir.lower.pairs import pairs
from loopir.lower.products import products
from loopir.lower.proxies import proxies
from loopir.lower.rings import rings
from loopir.lower.roles import roles
from loopir.lower.rooms import rooms
from loopir.lower.settled import settled
from loopir.lower.share import share
from loopir.lower.spread import spread
from loopir.lower.stores import stores
from loopir.lower.target import Target, target as target_called
from loopir.lower.threads import threads
from loopir.lower.uniform import uniform
from loopir.lower.vectors import vectors
from loopir.lower.waits import waits
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
    Pass("instructions", instructions, "schedule", BOTH,
         "what the target has no instruction for is loops from here on"),
    Pass("inits", lambda f, t: explicit_init(f), "schedule", BOTH,
         "every later pass sees a reduction's first value as plain stores"),
    Pass("simplify", lambda f, t: simplify_func(f, drop_unit_loops=True), "schedule", BOTH,
         "guards that are proved go while the loops' bounds are still in sight", after=("inits",)),
    Pass("kernels", kernels, "lowered", BOTH,
         "the host keeps what stands around the outermost concurrent loops", after=("inits",)),
    Pass("memories", memories, "lowered", BOTH,
         "memories that are declared beside the scopes have room for what is in them, and are what they are like",
         after=("kernels",)),
    Pass("spread", spread, "lowered", GPU,
         "the lanes of a warp share the nests over fragments, which are loops over lanes from here on",
         after=("kernels",)),
    Pass("uniform", uniform, "lowered", BOTH,
         "guards that a vector's lanes pass together leave them while indices are those of elements",
         after=("simplify", "spread")),
    Pass("threads", threads, "lowered", GPU,
         "bound loops become the launch's axes; what is under none of an axis runs on its index 0",
         after=("kernels", "spread")),
    Pass("cross_thread", cross_thread, "lowered", GPU,
         "threads fold together where all of a block come by; what they share is ordered by barriers, next",
         after=("inits", "threads")),
    Pass("barriers", barriers, "lowered", GPU,
         "threads of a block meet between a write and another thread's access, while accesses are by element",
         after=("threads", "cross_thread")),
    Pass("waits", waits, "lowered", GPU,
         "a thread waits for its asynchronous copies, in time for the barrier that tells the others",
         after=("barriers",)),
    Pass("stores", stores, "lowered", GPU,
         "a thread waits until its stores have read, in time for the barrier that lets others write there again",
         after=("barriers",)),
    Pass("roles", roles, "lowered", BOTH,
         "what warps of their own do leaves the nest once the barriers of the rest are placed in it",
         after=("barriers", "waits")),
    Pass("rings", rings, "lowered", GPU,
         "copies that count bytes are waited for where they are needed; that readers are done, barriers tell",
         after=("barriers", "waits")),
    Pass("products", products, "lowered", GPU,
         "products are waited for where they are done",
         after=("barriers", "waits")),
    Pass("proxies", proxies, "lowered", GPU,
         "ordinary writes are made known to what reads by itself, before all barriers that there are",
         after=("products", "roles", "rings")),
    Pass("checks", checks, "lowered", BOTH,
         "an access that is not proved is tested, while accesses are by element", after=("barriers",)),
    Pass("fragments", fragments, "lowered", BOTH,
         "instructions get registers and addresses, once no analysis needs what they touch", after=("checks",)),
    Pass("flatten", flatten, "flat", BOTH,
         "elements become offsets, layouts are applied; no analysis of accesses after this", after=("checks",)),
    Pass("vectors", vectors, "flat", GPU,
         "whole vectors are moved at once where offsets are contiguous and aligned", after=("flatten",)),
    Pass("pairs", pairs, "flat", GPU,
         "two lanes of what is made of sums are one instruction, while lanes are loops over one store",
         after=("vectors",)),
    Pass("settled", settled, "flat", GPU,
         "guards say where they are known to hold, once no analysis of accesses reads them", after=("vectors",)),
    Pass("near", near, "flat", GPU,
         "all lanes of a vector are asked at once whether a function needs its slow path", after=("vectors",)),
    Pass("share", share, "flat", GPU,
         "what a statement repeats is computed once; lanes are loops of their own by then", after=("vectors",)),
    Pass("tidy", lambda f, t: simplify_func(f, drop_unit_loops=True), "flat", BOTH,
         "offsets are simplified as a whole", after=("flatten",)),
    Pass("guards", guards, "flat", LLVM,
         "tests leave the loops that they are the same in, once they are as simple as they get", after=("tidy",)),
    Pass("rooms", rooms, "flat", GPU,
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
    known = memory(func)
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

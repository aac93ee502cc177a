"""multicast: the blocks of a cluster share a copy, each makes a part of it for all of them."""

from __future__ import annotations

from dataclasses import replace

from loopir.analysis.dependence.multicast import multicast_obstacle
from loopir.errors import ScheduleError
from loopir.ir.grammar import Func, Loop
from loopir.ir.printer import text
from loopir.ir.traverse.walk import path_to, replace_loop
from loopir.schedule.core.find import find_serial
from loopir.schedule.legality.loop_kinds import require_independent
from loopir.schedule.schedule import primitive


@primitive
def multicast(func: Func, loop: str) -> Func:
    """Let each block of a cluster do one iteration of `loop`, a copy to shared memory, for all of its blocks.

    The loop has as many iterations as the cluster has blocks, which do the same in all of them: nothing in it depends
    on the loop that is bound to cluster. Where warps of their own make the copies (`specialize_warps`), a block then
    reads from memory only its part, and it arrives in all of them; elsewhere each block makes all of it.

    before:
        def f(A: "float32[16, 32]", B: "out float32[2, 16]"):
            for r in bind("cluster", 2):
                with alloc("float32[16, 32]", scope="shared") as T:
                    for p in range(2):
                        for i in range(8):
                            for j in range(32):
                                T[p * 8 + i, j] = A[p * 8 + i, j]
                    for l in bind("lane", 16):
                        B[r, l] = T[l, r]
    call:    multicast("p")
    after:
        def f(A: "float32[16, 32]", B: "out float32[2, 16]"):
            for r in bind("cluster", 2):
                with alloc("float32[16, 32]", scope="shared") as T:
                    for p in multicast(2):
                        for i in range(8):
                            for j in range(32):
                                T[p * 8 + i, j] = A[p * 8 + i, j]
                    for l in bind("lane", 16):
                        B[r, l] = T[l, r]
    refuses: multicast("i")  # has 8 iterations, and the cluster around it 2 blocks

    before:
        def f(A: "float32[2, 16, 32]", B: "out float32[2, 16]"):
            for r in bind("cluster", 2):
                with alloc("float32[16, 32]", scope="shared") as T:
                    for p in range(2):
                        for i in range(8):
                            for j in range(32):
                                T[p * 8 + i, j] = A[r, p * 8 + i, j]
                    for l in bind("lane", 16):
                        B[r, l] = T[l, r]
    refuses: multicast("p")  # T speaks of r
    """
    target = find_serial(func, loop)
    around = [s for s in path_to(func, target) if isinstance(s, Loop) and s.kind == "cluster"]
    if not around:
        raise ScheduleError(
            f"{loop!r} stands in no loop that is bound to cluster",
            loop=loop,
            suggestion="bind a loop around it to cluster first",
        )
    if around[0].extent != target.extent:
        reason = (
            f"{loop!r} has {text(target.extent)} iterations, and the cluster around it {text(around[0].extent)} blocks"
        )
        raise ScheduleError(reason, loop=loop, suggestion=f"split({loop!r}) first")
    if (odd := multicast_obstacle(around[0].body, target, around[0].var)) is not None:
        raise ScheduleError(
            f"the blocks of a cluster would not do the same in {loop!r}: {odd}",
            loop=loop,
            suggestion="a copy of what all blocks of the cluster read",
        )
    require_independent(func, target.var, "multicast")
    return replace_loop(func, target.var, lambda s: replace(s, kind="multicast"))

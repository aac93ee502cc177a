"""bind: the iterations of a loop become blocks of a GPU's grid, or threads of a block."""

from __future__ import annotations

from math import prod

from loopir.analysis.dependence.access import is_affine_visible
from loopir.errors import ScheduleError
from loopir.ir.grammar import AXES, GROUP_WARPS, LANES, THREAD_AXES, Func, Int, Loop
from loopir.ir.printer import text
from loopir.ir.traverse.walk import loops, path_to, replace, replace_loop
from loopir.schedule.core.find import close_names, find_serial, join_names
from loopir.schedule.legality.loop_kinds import require_independent, require_outside_lanes
from loopir.schedule.legality.scopes import require_places
from loopir.schedule.schedule import primitive

MAX_THREADS = 1024
LIMITS = {
    "blockIdx.y": 65535, "blockIdx.z": 65535, "threadIdx.x": 1024, "threadIdx.y": 1024, "threadIdx.z": 64,
    "lane": LANES, "warp.x": 32, "warp.y": 32, "warpgroup": MAX_THREADS // (GROUP_WARPS * LANES), "cluster": 16,
}  # fmt: skip

VIRTUAL = "for virtual threads unroll_and_jam, which runs iterations together, each with memory of its own"
"""What to take for TVM's axis of that name."""


@primitive
def bind(func: Func, loop: str, axis: str) -> Func:
    """Give each iteration of `loop` to one index of `axis`: of blocks, of threads, or of what lies between.

    Blocks of a grid are blockIdx.x, .y and .z, threads of a block threadIdx.x, .y and .z.

    Legal where the iterations are independent; those of a reduced loop, on threads, may fold into one element, which
    lowering makes them do together. A block has at most 1,024 threads, and their number is a constant.
    For instructions that a warp issues, a block is warps of 32 lanes: axes warp.x, warp.y and lane. An instruction
    stands under loops bound to warps and under none bound to lanes. What four warps issue stands under a loop bound
    to warpgroup: a block is then warpgroups of four warps, along warp.x, with no warp.y.
    Axis cluster is up to 16 blocks (8 on every GPU that has clusters: sm_90 and later) that run at once. Each block
    has shared memory of its own all the same.

    before:
        def f(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
            for i in range(n):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    call:    bind("i", "blockIdx.x")
    after:
        def f(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
            for i in bind("blockIdx.x", n):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    call:    bind("k", "threadIdx.x")
    after:
        def f(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
            for i in range(n):
                for k in bind("threadIdx.x", 8):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    refuses: bind("k", "blockIdx.x")   # iterations of 'k' are not independent
    refuses: bind("i", "threadIdx.x")  # n threads
    call:    bind("k", "warpgroup")
    after:
        def f(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
            for i in range(n):
                for k in bind("warpgroup", 8):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    refuses: bind("i", "threadIdx.w")  # the axes are
    refuses: bind("i", "cluster")      # n blocks of a cluster, and their number has to be a constant

    before:
        def g(A: "float32[8]", S: "out float32[1]"):
            for k in range(0):
                S[0] = sum(A[k], over=k, init=0.0)
    refuses: bind("k", "threadIdx.x")  # 'k' never runs, and a block has at least one thread
    """
    target = find_serial(func, loop)
    if axis not in AXES:
        raise ScheduleError(
            f"there is no axis {axis!r}; the axes are {join_names(AXES)}",
            loop=target.var,
            suggestion=VIRTUAL if "vthread" in axis else close_names(axis, AXES),
        )
    around = [x for x in path_to(func, target)[:-1] if isinstance(x, Loop)]
    for other in (*around, *loops(target.body)):
        if other.kind == axis or {other.kind, axis} == {"warpgroup", "warp.y"}:
            raise ScheduleError(
                f"{axis} is taken by {other.var!r}, which is nested with {target.var!r}",
                loop=target.var, suggestion=f"a free axis: {join_names(_free([*around, *loops(target.body)]))}",
            )  # fmt: skip
    require_outside_lanes(func, target)
    _require_fit(target, axis, [x for x in (*around, *loops(target.body)) if x.kind in THREAD_AXES])
    require_independent(func, target.var, axis)
    bound = replace(target, kind=axis)
    new = replace_loop(func, target.var, lambda _: bound)
    require_places(new, bound)
    return new


def _free(taken: list[Loop]) -> list[str]:
    return [a for a in AXES if all(x.kind != a for x in taken)]


def _require_fit(target: Loop, axis: str, others: list[Loop]) -> None:
    """Refuse more blocks or threads than a GPU takes, or a number of them that is not known when it starts."""
    if not is_affine_visible(target.extent):
        raise ScheduleError(
            f"{target.var!r} runs {text(target.extent)} times, which is read from memory and not known at launch",
            loop=target.var, suggestion="bind a loop around it, or guard a loop over as many as there may be",
        )  # fmt: skip
    size = target.extent.value if isinstance(target.extent, Int) else None
    if axis in (*THREAD_AXES, "cluster") and size is None:
        what, fitting = ("blocks of a cluster", 2) if axis == "cluster" else ("threads", 256)
        raise ScheduleError(
            f"{target.var!r} would take {text(target.extent)} {what}, and their number has to be a constant",
            loop=target.var, suggestion=f'split("{target.var}", {fitting}) and bind the inner loop',
        )  # fmt: skip
    if axis in (*THREAD_AXES, "cluster") and size is not None and size < 1:
        raise ScheduleError(
            f"{target.var!r} never runs, and a block has at least one thread",
            loop=target.var, suggestion="simplify(), which leaves only what the loop starts",
        )  # fmt: skip
    limit = LIMITS.get(axis)
    if size is not None and limit is not None and size > limit:
        raise ScheduleError(
            f"{target.var!r} would take {size} indices of {axis}, and there are {limit}",
            loop=target.var, suggestion=f'split("{target.var}", {min(limit, 256)}) first',
        )  # fmt: skip
    longest: dict[str, tuple[int, str]] = {}
    for x in others:
        longest[x.kind] = max(longest.get(x.kind, (1, "")), (x.extent.value if isinstance(x.extent, Int) else 1, x.var))
    total = (size or 1) * prod(count for count, _ in longest.values())
    if axis in THREAD_AXES and total > MAX_THREADS:
        inside = join_names(var for _, var in longest.values())
        raise ScheduleError(
            f"a block would have {total} threads ({target.var!r} with {inside}), and it has at most {MAX_THREADS}",
            loop=target.var, suggestion=f'split("{target.var}", ...) so that the product is at most {MAX_THREADS}',
        )  # fmt: skip

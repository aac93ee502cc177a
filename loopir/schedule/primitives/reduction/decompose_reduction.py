"""decompose_reduction: what a reduction starts from is stored by a nest of its own."""

from __future__ import annotations

from loopir.analysis.dependence.access import is_affine_visible
from loopir.analysis.dependence.reordering import Origin, permutation_invariant, violated_dependence
from loopir.errors import ScheduleError, VerifyError
from loopir.ir.grammar import Alloc, Func, If, Load, Loop, Var
from loopir.ir.traverse.reduction_init import explicit_init_of
from loopir.ir.traverse.walk import leaf_paths, leaf_paths_of, replace
from loopir.schedule.core.find import find_loop, join_names
from loopir.schedule.legality.effects import reads
from loopir.schedule.legality.reductions import Fold, find_reduce, require_first_start
from loopir.schedule.legality.refusal import map_witness, refusal
from loopir.schedule.schedule import primitive


@primitive
def decompose_reduction(func: Func, stage: str, loop: str | None = None) -> Func:
    """Store the `init` of the reduction `stage` in a nest of its own, `stage_init`, before `loop`.

    `loop` is the outermost loop that it reduces over, which is what None means, or a loop around that. From then on
    the two nests are scheduled apart: other threads, other vectors, or kernels of their own.

    before:
        def rows(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
            for i in range(n):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    call:    decompose_reduction("S")
    after:
        def rows(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
            for i in range(n):
                S[i]: "S_init" = 0.0
                for k in range(8):
                    S[i] = sum(A[i, k], over=k)
    call:    decompose_reduction("S", "i")
    after:
        def rows(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
            for i_init in range(n):
                S[i_init]: "S_init" = 0.0
            for i in range(n):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k)

    before:
        def last(n: "size", A: "float32[n, 8]", S: "out float32[1]"):
            for i in range(n):
                for k in range(8):
                    S[0] = sum(A[i, k], over=k, init=0.0)
                S[0] = S[0] * 2.0
    refuses: decompose_reduction("S_1")     # stage 'S_1' is no reduction
    refuses: decompose_reduction("S", "i")  # S_1 at (i=0) writes S[0], which S (its init) at (i=1) writes later
    """
    fold = find_reduce(func, stage)
    label = fold.reduce.label
    if fold.reduce.init is None:
        raise ScheduleError(f"{label} has no init: it folds into what is there", suggestion=f"leave {label} as it is")
    require_first_start(func, fold)
    if loop is None:
        return explicit_init_of(func, label)
    target = find_loop(func, loop)
    _require_around(fold, target)
    _require_known(fold, target)
    try:
        new = explicit_init_of(func, label, target)
    except VerifyError as error:
        raise ScheduleError(
            str(error),
            loop=target.var,
            suggestion=f"a loop inside {target.var!r}, or none: then the stores stand as near as they can",
        ) from None
    if not (_keeps_what_is_there(fold) or _alone(func, fold, target)):
        _require_order(func, fold, explicit_init_of(func, label), new, target)
    return new


def _require_around(fold: Fold, target: Loop) -> None:
    """Refuse unless `target` is the loop that the reduction starts at, or stands around it."""
    start = fold.start
    allowed = (*fold.outer, start) if isinstance(start, Loop) else fold.outer
    if all(x is not target for x in allowed):
        raise ScheduleError(
            f"{fold.reduce.label} starts before {target.var!r} is entered", loop=target.var,
            suggestion=f"one of {join_names(repr(x.var) for x in allowed)}",
        )  # fmt: skip


def _require_known(fold: Fold, target: Loop) -> None:
    """Refuse if the stores would need memory that is allocated inside `target`."""
    reduce, around = fold.reduce, fold.place.around
    inside = around[next(n for n, s in enumerate(around) if s is target) :]
    new = {s.buffer.name for s in inside if isinstance(s, Alloc)}
    asked = [s.extent if isinstance(s, Loop) else s.cond for s in inside if isinstance(s, Loop | If)]
    needed = reads([*asked, *reduce.at, *(reduce.init or ())]) | {b.name for b in reduce.buffers}
    if lost := sorted(new & needed):
        reason = f"{reduce.label} starts from {join_names(lost)}, which is allocated inside {target.var!r}"
        raise ScheduleError(reason, loop=target.var, suggestion="a loop inside that allocation")


def _keeps_what_is_there(fold: Fold) -> bool:
    """Whether it starts from its own elements, however it is written: such stores may stand anywhere."""
    r = fold.reduce
    own = tuple(Load(b, r.at) for b in r.buffers)
    conds = (c for c, _ in fold.place.conds())
    return r.init == own and all(map(is_affine_visible, (*r.at, *conds, *(x.extent for x in fold.place.loops))))


def _alone(func: Func, fold: Fold, target: Loop) -> bool:
    """Whether nothing but the reduction stands in `target`, and none of its folds needs the start of another iteration.

    Then the stores, which keep their order among themselves, may pass folds on their way out.
    """
    if len([*leaf_paths(target.body)]) != 1:
        return False
    outer = [x.var for x in fold.outer]
    return permutation_invariant(func, target, outer[outer.index(target.var) :] if target.var in outer else [])


def _require_order(func: Func, fold: Fold, near: Func, far: Func, target: Loop) -> None:
    """Refuse if the stores in `far`, which run before all of `target`, pass one that they depend on in `near`."""
    kept = [x.var for x in fold.place.loops if x.var not in fold.over]
    old = {p.stmt.label for p in leaf_paths_of(func)}
    here, there = ([p for p in leaf_paths(f.body) if p.stmt.label not in old] for f in (near, far))
    origin: dict[str, Origin] = {}
    for a, b in zip(here, there, strict=True):
        loops = dict(zip((x.var for x in a.loops), (Var(x.var) for x in b.loops), strict=True))
        origin[b.stmt.label] = Origin(a.stmt.label, loops)
    clash = violated_dependence(near, far, origin)
    if clash is not None:
        reason = f"all of the stores would run before {target.var!r}"
        back = {old: (Var(x.var),) for old, x in zip(kept, here[0].loops, strict=True)}
        told_as = dict.fromkeys((p.stmt.label for p in here), f"{fold.reduce.label} (its init)")
        clash = replace(clash, witness=map_witness(func, clash.witness, back, told_as))
        raise refusal(clash, reason, target.var, f"a loop inside {target.var!r}")

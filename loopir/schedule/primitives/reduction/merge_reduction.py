"""merge_reduction: a reduction starts from what is stored just before it, instead of reading that back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from loopir.errors import ScheduleError, VerifyError
from loopir.ir.grammar import Body, Const, Func, Load, Stmt, Store
from loopir.ir.printer import text
from loopir.ir.traverse.reduction_init import explicit_init_of
from loopir.ir.traverse.walk import bodies, leaf_paths, replace, replace_stmt, rewrite
from loopir.schedule.legality.reductions import Fold, find_reduce, require_first_start
from loopir.schedule.schedule import primitive


@primitive
def merge_reduction(func: Func, stage: str) -> Func:
    """Make the number that is stored just before the reduction `stage` its `init`.

    The store is of the element that the reduction folds into, right before the outermost loop that it is over. The
    opposite of decompose_reduction.

    before:
        def rows(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
            for i in range(n):
                S[i]: "zero" = 0.0
                for k in range(8):
                    S[i] = sum(A[i, k], over=k)
    call:    merge_reduction("S")
    after:
        def rows(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
            for i in range(n):
                for k in range(8):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    refuses: merge_reduction("zero")  # stage 'zero' is no reduction

    before:
        def g(A: "float32[8]", B: "float32[1]", S: "out float32[1]", T: "out float32[1]"):
            S[0]: "zero" = 0.0
            for i in range(8):
                S[0] = sum(A[i], over=i, init=1.0)
            T[0]: "first" = B[0]
            for i_1 in range(8):
                T[0] = sum(A[i_1], over=i_1)
    refuses: merge_reduction("S")  # S has an init already
    refuses: merge_reduction("T")  # no number is stored to T[0] just before the loops of T
    """
    fold = find_reduce(func, stage)
    r = fold.reduce
    if r.init is not None:
        raise ScheduleError(f"{r.label} has an init already", suggestion=f"leave {r.label} as it is")
    store = _store_before(func, fold)
    if store is not None:
        merged = rewrite(replace_stmt(func, r, (replace(r, init=(store.value,)),)).body, _delete_store(store))
        new = replace(func, body=merged)
        if _is_apart(new, r.label, func, store):
            require_first_start(new, find_reduce(new, r.label))
            return new
    element = text(Load(r.buffers[0], r.at))
    raise ScheduleError(f"no number is stored to {element} just before the loops of {r.label}",
                        suggestion=f"keep {r.label} as it is, or distribute the loops between")  # fmt: skip


def _store_before(func: Func, fold: Fold) -> Store | None:
    """The store of a number right before the statement that the reduction starts at, if it is one of its buffer."""
    for body in (func.body, *(b for p in leaf_paths(func.body) for s in p.around for b in bodies(s))):
        for one, other in pairwise(body):
            if other is fold.start and isinstance(one, Store) and (one.buffer,) == fold.reduce.buffers:
                return one if isinstance(one.value, Const) else None
    return None


def _delete_store(store: Store) -> Callable[[Stmt], Body | None]:
    def visit(s: Stmt) -> Body | None:
        return () if s is store else None

    return visit


def _is_apart(merged: Func, label: str, func: Func, store: Store) -> bool:
    """Whether the init of the reduction `label` in `merged`, made explicit, gives `func` again."""
    try:
        apart = explicit_init_of(merged, label)
    except VerifyError:
        return False
    known = {p.stmt.label for p in leaf_paths(merged.body)}
    (made,) = (p.stmt for p in leaf_paths(apart.body) if p.stmt.label not in known)
    return replace_stmt(apart, made, replace(made, label=store.label)).body == func.body

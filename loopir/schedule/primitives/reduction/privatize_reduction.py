"""privatize_reduction: fold each iteration of a loop into a copy of the whole result, and that into the result."""

from __future__ import annotations

from itertools import product

from loopir.analysis.dataflow.coverage import is_written_whole_before
from loopir.analysis.dependence.access import Statement, statements_of
from loopir.analysis.dependence.depend import Clash, Order, Pair, before, conflicts, instance_times
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Arg, Body, Buffer, Func, If, Index, Load, Loop, Reduce, Stmt, Store, Var
from loopir.ir.traverse.walk import (
    fresh_name,
    loaded_buffers,
    path_to,
    replace,
    replace_stmt,
    rewrite,
    statements,
    taken_names,
)
from loopir.schedule.core.find import find_loop
from loopir.schedule.legality.effects import allocates
from loopir.schedule.legality.loop_kinds import require_concurrent
from loopir.schedule.legality.reductions import find_reduce
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.legality.scopes import require_place, scope_called
from loopir.schedule.schedule import primitive


@primitive
def privatize_reduction(func: Func, stage: str, at: str, scope: str = "local", *, name: str | None = None) -> Func:
    """Fold what `stage` folds in one iteration of loop `at` into a buffer of its own, and that into the result once.

    The buffer is as large as the result, and starts from the monoid's identity, so that memory may choose the element:
    a block of a histogram then has counts of its own. Legal for every monoid, as these are associative and commutative;
    floats are rounded in another order. In an iteration of `at` nothing may touch an element after `stage` has folded
    into it, but for folds by the same monoid. The result is an array that the caller gives, or one that an earlier
    nest has written whole. Folds that were atomic stay so in the result; in the buffer, `stage_scope`, they are plain
    until `atomic` makes them so, too. `name` is the buffer's.

    before:
        def histogram(n: "size", ix: "int32[n * 64]", H: "inout int32[16]"):
            for i in range(n):
                for j in range(64):
                    H[ix[i * 64 + j]] += 1
    call:    privatize_reduction("H", "i")
    after:
        def histogram(n: "size", ix: "int32[n * 64]", H: "inout int32[16]"):
            for i in range(n):
                with alloc("int32[16]", scope="local") as H_local:
                    for ax0 in range(16):
                        H_local[ax0]: "H_local_init" = 0
                    for j in range(64):
                        H_local[ix[i * 64 + j]] += 1
                    for ax0_1 in range(16):
                        H[ax0_1] += H_local[ax0_1]
    refuses: privatize_reduction("H", "k")  # there is no loop 'k'

    before:
        def f(A: "int32[8]", B: "inout int32[8]", C: "out int32[8]"):
            for i in range(8):
                B[A[i]] += 1
                C[i] = B[0]
    refuses: privatize_reduction("B", "i")  # C reads B in the same iteration of 'i'

    before:
        def g(A: "int32[8, 8]", C: "out int32[8]"):
            for i in range(8):
                for k in range(8):
                    C[i] = sum(A[i, k], over=k, init=0)
    refuses: privatize_reduction("C", "k")  # C starts from what it is given in the nest

    before:
        def rows(A: "int32[8, 4]", C: "inout int32[8]"):
            for i in range(8):
                for k in range(4):
                    C[i] = sum(A[i, k], over=k)
    call:    privatize_reduction("C", "i")
    after:
        def rows(A: "int32[8, 4]", C: "inout int32[8]"):
            for i in range(8):
                with alloc("int32[8]", scope="local") as C_local:
                    for ax0 in range(8):
                        C_local[ax0]: "C_local_init" = 0
                    for k in range(4):
                        C_local[i] = sum(A[i, k], over=k)
                    for ax0_1 in range(8):
                        C[ax0_1] += C_local[ax0_1]

    before:
        def h(A: "int32[8, 4]", C: "inout int32[8]"):
            for i in parallel(8):
                for k in range(4):
                    C[i] = sum(A[i, k], over=k)
    refuses: privatize_reduction("C", "k")  # with C_local, iterations of 'i' are not independent
    """
    reduce, loop = find_reduce(func, stage).reduce, find_loop(func, at)
    result = _result(func, reduce, loop)
    around = {s.var for s in (*path_to(func, loop), loop) if isinstance(s, Loop)}
    _require_alone(func, reduce, loop)
    taken = taken_names(func)
    b = Buffer(fresh_name(name or f"{result.name}_{scope}", taken), result.shape, result.dtype, scope_called(scope))
    taken.add(b.name)
    filled, folded = _element_loops(result, taken), _element_loops(result, taken)
    start = Store(fresh_name(f"{b.name}_init", taken), b, _element_of(filled), reduce.monoid.identity[0])
    inner = replace(reduce, label=b.name, buffers=(b,), atomic=False)
    over = tuple(x for x in reduce.over if x in around)
    last = replace(reduce, at=_element_of(folded), values=(Load(b, _element_of(folded)),), over=over)
    own = rewrite(loop.body, lambda s: inner if s is reduce else None)
    body = (*_wrapped(filled, start), *own, *_wrapped(folded, last))
    require_place(b.name, b.scope, path_to(func, loop), body)
    new = replace_stmt(func, loop, replace(loop, body=(Alloc(b, body),)))
    instead = "this step before the loop is bound, or a loop whose iterations fold into elements of their own"
    require_concurrent(new, [start.label, inner.label, last.label], f"with {b.name}", instead)
    return new


def _result(func: Func, reduce: Reduce, loop: Loop) -> Buffer:
    """What `reduce` folds into, an array that the caller gives or a nest before has written; refuse anything else."""
    if not any(s is reduce for s in statements(loop.body)):
        raise ScheduleError(
            f"{reduce.label} does not stand in {loop.var!r}", loop=loop.var, suggestion="a loop around the stage"
        )
    if len(reduce.buffers) > 1:
        raise ScheduleError(
            f"{reduce.label} folds several values together", suggestion="rfactor, which takes any of them"
        )
    if reduce.init is not None:
        raise ScheduleError(
            f"{reduce.label} starts from what it is given in the nest", suggestion=f"rfactor({reduce.label!r}, ...)"
        )
    b = next(iter(reduce.buffers))
    if b.name in allocates(loop.body):
        raise ScheduleError(
            f"{b.name} is allocated in {loop.var!r}, so that each of its iterations has its own",
            loop=loop.var, suggestion=f"a loop in the allocation of {b.name}",
        )  # fmt: skip
    given = any(isinstance(p, Arg) and p.buffer == b and p.access == "inout" for p in func.params)
    if not given and not is_written_whole_before(func, reduce.label, b):
        raise ScheduleError(
            f"{b.name} is no array that the caller gives, nor seen to be written whole before {reduce.label}, and "
            "elements that nothing has written would be read",
            suggestion="a fold into an inout argument, or one after a nest that writes each element",
        )
    return b


def _require_alone(func: Func, reduce: Reduce, loop: Loop) -> None:
    """Refuse if anything in `loop` touches an element of the result after `reduce` has folded into it in the same
    iteration, other than by folds that commute with that, or if a test or a length there reads the result."""
    b = reduce.buffers[0]
    suggestion = f"a loop in which only {reduce.label} touches {b.name}"
    if any(b.name in _control_reads(s) for s in statements(loop.body)):
        reason = f"a test or a length reads {b.name} in the same iteration of {loop.var!r}"
        raise ScheduleError(reason, loop=loop.var, suggestion=suggestion)
    inside = [s for s in statements_of(func) if loop.var in s.dims and s.uses({b.name})]
    folds = [s for s in inside if s.label == reduce.label]
    for fold, other in product(folds, inside):
        clash = _clash_in_iteration(func, fold, other, loop.var)
        if clash is not None:
            what = "writes" if any(a.write and a.buffer == b.name for a in other.accesses) else "reads"
            reason = f"{other.name} {what} {b.name} in the same iteration of {loop.var!r}"
            raise refusal(clash, reason, loop.var, suggestion)


def _control_reads(s: Stmt) -> frozenset[str]:
    """What `s` itself reads to know which statements run, and how often."""
    return (
        loaded_buffers(s.extent)
        if isinstance(s, Loop)
        else loaded_buffers(s.cond)
        if isinstance(s, If)
        else frozenset()
    )


def _clash_in_iteration(func: Func, s: Statement, t: Statement, loop: str) -> Clash | None:
    """Instances of `s`, and later of `t`, that touch one element in one iteration of `loop`, if there are any."""
    end = s.when.index(loop) + 1
    if s.when[:end] != t.when[:end]:
        return None
    same: Order = [({f"s.{v}": 1, f"t.{v}": -1}, True) for v in s.when[:end] if isinstance(v, str)]
    inner = before(instance_times(s.when[end:], "s"), instance_times(t.when[end:], "t"))
    orders = [[*same, *order] for order in inner]
    pairs = (Pair(func, s, a, t, b) for a, b in conflicts(s, t, folds_commute=True))
    return next((clash for pair in pairs for clash in pair.clashes(orders)), None)


def _element_loops(b: Buffer, taken: set[str]) -> list[Loop]:
    """Loops over all elements of `b`."""
    found: list[Loop] = []
    for d, size in enumerate(b.shape):
        found.append(Loop(fresh_name(f"ax{d}", taken), size, "serial", ()))
        taken.add(found[-1].var)
    return found


def _element_of(loops: list[Loop]) -> tuple[Index, ...]:
    return tuple(Var(x.var) for x in loops)


def _wrapped(loops: list[Loop], s: Stmt) -> Body:
    for loop in reversed(loops):
        s = replace(loop, body=(s,))
    return (s,)

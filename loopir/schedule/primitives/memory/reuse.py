"""reuse: an intermediate lies where another one lay that is no longer needed."""

from __future__ import annotations

from loopir.analysis.dataflow.liveness import Done, clobbered_read
from loopir.analysis.dependence.access import statements_in
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Body, Func, Stmt
from loopir.ir.printer import text
from loopir.ir.traverse.walk import (
    accessed_buffers,
    bodies,
    leaf_paths_of,
    loops,
    nests_touching,
    replace,
    replace_buffers,
    rewrite,
    statements,
    stored_buffers,
)
from loopir.schedule.core.facts import Facts
from loopir.schedule.legality.loop_kinds import require_loop_kinds
from loopir.schedule.legality.refusal import witness_in_memory
from loopir.schedule.legality.scopes import find_alloc
from loopir.schedule.schedule import primitive


@primitive
def reuse(func: Func, buffer: str, old: str) -> Func:
    """Keep `buffer` in the memory of `old`, an intermediate of its type that is as large, and needed at other times.

    `old` is allocated around `buffer`, or before it in the same list of statements. Legal where nothing of either is
    overwritten by the other before it is read.

    before:
        def f(A: "float32[8]", B: "out float32[8]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    T[i] = A[i] * 2.0
                with alloc("float32[8]") as U:
                    for j in range(8):
                        U[j] = T[j] + 1.0
                    for k in range(8):
                        B[k] = U[7 - k]
    call:    reuse("U", "T")
    after:
        def f(A: "float32[8]", B: "out float32[8]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    T[i] = A[i] * 2.0
                for j in range(8):
                    T[j]: "U" = T[j] + 1.0
                for k in range(8):
                    B[k] = T[7 - k]
    refuses: reuse("U", "A")  # A is an argument

    before:
        def g(A: "float32[8]", B: "out float32[8]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    T[i] = A[i] * 2.0
                with alloc("float32[8]") as U, alloc("float32[9]") as V:
                    for j in range(8):
                        U[j] = T[7 - j] + 1.0
                    for k in range(8):
                        B[k] = U[k]
    refuses: reuse("U", "T")  # U at (j=0) writes U[0] where T[0] would lie, which U at (j=7) reads later
    refuses: reuse("V", "T")  # V[9] does not fit into T[8]

    before:
        @monoid(identity=(0, 0))
        def sums(a: "int32", b: "int32", c: "int32", d: "int32"):
            return a + c, b + d

        def g(n: "size", A: "int32[n]", B: "out int32[1]"):
            with alloc("int32[1]") as T, alloc("int32[1]") as U:
                for i in range(n):
                    T[0], U[0] = sums(A[i], 1, over=i, init=(0, 0))
                B[0] = T[0]
    refuses: reuse("U", "T")  # T folds into T and U together
    """
    taker, giver = find_alloc(func, buffer), find_alloc(func, old)
    if taker is giver:
        raise ScheduleError(f"{buffer} is in the memory of {old} already", suggestion=f"another buffer than {old}")
    new, b = taker.buffer, giver.buffer
    _require_fit(func, taker, giver)
    together = next((p.stmt for p in leaf_paths_of(func) if {new.name, b.name} <= stored_buffers(p.stmt)), None)
    if together is not None:
        reason = f"{together.label} folds into {b.name} and {new.name} together"
        raise ScheduleError(reason, suggestion="memory for each of them")
    within = any(s is taker for s in statements(giver.body))
    beside = next((x for x in _lists(func) if _position(x, giver) < _position(x, taker) < len(x)), None)
    if not within and beside is None:
        reason = f"{b.name} is allocated neither around {new.name} nor before it in the same statements"
        raise ScheduleError(reason, suggestion=f"reuse({b.name!r}, {new.name!r}), if that is so the other way round")
    if within and not _one_after_the_other(giver, new.name):
        _require_disjoint(func, new.name, b.name)
    if within or beside is None:
        body = rewrite(func.body, lambda s: taker.body if s is taker else None)
    else:
        body = _joined(func.body, beside, giver, taker)
    made = replace_buffers(replace(func, body=body), {new.name: b})
    try:
        require_loop_kinds(
            made, [x.var for x in loops(made.body) if x.kind != "serial" and b.name in accessed_buffers(x)]
        )
    except ScheduleError as error:  # about the memory that there would be
        reason = f"with {new.name} in the memory of {b.name}, {error.reason}"
        names = {new.name, b.name}
        witness = None if error.witness is None else witness_in_memory(func, error.witness, names, lambda _, at: at)
        what = f"keep {new.name} where it is"
        raise ScheduleError(reason, loop=error.loop, witness=witness, suggestion=what) from None
    return made


def _joined(body: Body, beside: Body, giver: Alloc, taker: Alloc) -> Body:
    """`body` with `giver` alive from where it stands in the list `beside` to the end of `taker`."""
    first, last = _position(beside, giver), _position(beside, taker)
    whole = Alloc(giver.buffer, (*giver.body, *beside[first + 1 : last], *taker.body))
    gone = beside[first + 1 : last + 1]
    return rewrite(body, lambda s: whole if s is giver else () if any(s is x for x in gone) else None)


def _require_fit(func: Func, taker: Alloc, giver: Alloc) -> None:
    new, b = taker.buffer, giver.buffer
    if (new.dtype, new.scope, new.layout) != (b.dtype, b.scope, b.layout):
        raise ScheduleError(
            f"{text(new)} and {text(b)} differ in type, scope or layout",
            suggestion=f"set_scope and set_layout of {new.name} first, as of {b.name}",
        )
    facts = Facts.at(func, taker)
    fits = len(new.shape) == len(b.shape) and all(
        facts.at_least(large - small, 0) for large, small in zip(b.shape, new.shape, strict=True)
    )
    if not fits:
        shapes = [f"{x.name}[{', '.join(map(text, x.shape))}]" for x in (new, b)]
        raise ScheduleError(
            f"{shapes[0]} does not fit into {shapes[1]}, dimension by dimension",
            suggestion=f"memory that is as large, such as {new.name} for {b.name}",
        )


def _one_after_the_other(giver: Alloc, new: str) -> bool:
    """Whether nests that touch the one buffer stand before all that touch the other, as most often."""
    nests = [*giver.body]
    while any(isinstance(s, Alloc) for s in nests):
        nests = [x for s in nests for x in (s.body if isinstance(s, Alloc) else (s,))]
    mine, theirs = (
        [n for n, s in enumerate(nests) if name in accessed_buffers(s)] for name in (new, giver.buffer.name)
    )
    return not mine or not theirs or mine[-1] < theirs[0] or theirs[-1] < mine[0]


def _require_disjoint(func: Func, new: str, old: str) -> None:
    """Refuse if an element of either is overwritten by the other before it is read."""
    near = statements_in(func, nests_touching(new, old))
    done = [(s, a) for s in near if s.uses({new, old}) for a in s.accesses]
    mine, theirs = ([x for x in done if x[1].buffer == name] for name in (new, old))
    home = theirs[0][1].private if theirs else ()

    def there(found: list[Done]) -> list[Done]:
        return [(s, replace(a, private=home)) for s, a in found if a.write]

    for writer, writers, reader, readers in ((new, mine, old, theirs), (old, theirs, new, mine)):
        clash = clobbered_read(func, there(writers), readers)
        if clash is not None:
            at, lies = (f"[{', '.join(map(str, x))}]" for x in (clash.new, clash.old))
            reason = f"{writer}{at} would lie where {reader}{lies} lies, which is still to be read when it is written"
            witness = clash.witness(writer, reader)
            raise ScheduleError(clash.reason(reason), witness=witness, suggestion=f"keep {new} in memory of its own")


def _lists(func: Func) -> list[Body]:
    return [func.body, *(inner for s in statements(func.body) for inner in bodies(s))]


def _position(body: Body, s: Stmt) -> int:
    return next((n for n, x in enumerate(body) if x is s), len(body))

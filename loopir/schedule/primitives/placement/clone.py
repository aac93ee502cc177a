"""clone: a stage computed a second time, for some of those that read it."""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Func, Stmt
from loopir.ir.traverse.clone import Renaming, UsedNames, rename_symbols
from loopir.ir.traverse.walk import (
    StmtPath,
    alloc_of,
    leaf_paths,
    leaf_paths_of,
    loaded_buffers,
    replace,
    replace_stmt,
    rewrite,
    statements,
    stored_buffers,
)
from loopir.schedule.core.find import find_statement, join_names
from loopir.schedule.schedule import primitive


@primitive
def clone(func: Func, stage: str, *readers: str) -> Func:
    """Compute `stage` a second time, right after it, into memory of its own, which `readers` read instead.

    So each can be computed where its readers are, in an order of its own. The nest is copied whole: it has to be all
    that writes what `stage` makes, and make nothing else.

    before:
        def f(A: "float32[8]", B: "out float32[8]", C: "out float32[8]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    T[i] = A[i] + 1.0
                for j in range(8):
                    B[j] = T[j]
                for k in range(8):
                    C[k] = T[7 - k]
    call:    clone("T", "C")
    after:
        def f(A: "float32[8]", B: "out float32[8]", C: "out float32[8]"):
            with alloc("float32[8]") as T, alloc("float32[8]") as T_1:
                for i in range(8):
                    T[i] = A[i] + 1.0
                for i_1 in range(8):
                    T_1[i_1] = A[i_1] + 1.0
                for j in range(8):
                    B[j] = T[j]
                for k in range(8):
                    C[k] = T_1[7 - k]
    refuses: clone("T")  # no reader of T is named
    refuses: clone("B", "C")  # B is an argument
    refuses: clone("T", "T")  # T does not read T

    before:
        def g(A: "float32[8]", B: "out float32[8]", C: "out float32[8]"):
            with alloc("float32[8]") as T:
                for i in range(8):
                    T[i] = A[i] + 1.0
                    B[i] = T[i]
                for j in range(8):
                    T[j] = T[j] * 2.0
                for k in range(8):
                    C[k] = T[k]
    refuses: clone("T", "C")  # T is written by T and T_1, in several nests
    """
    made, takers = find_statement(func, stage), [find_statement(func, x) for x in readers]
    if not takers:
        raise ScheduleError(f"no reader of {stage} is named", suggestion="one that is to have values of its own")
    if len(names := sorted(stored_buffers(made.stmt))) > 1:
        raise ScheduleError(f"{stage} makes {join_names(names)} at once", suggestion="a stage of one result")
    (name,) = names
    alloc = alloc_of(func, name)
    if alloc is None:
        raise ScheduleError(f"{name} is an argument", suggestion="a stage that makes an intermediate")
    nest = _writing_nest(func, made, name, alloc)
    inside = {p.stmt.label for p in leaf_paths((nest,))}
    for x in takers:
        if x.stmt.label in inside or name not in loaded_buffers(x.stmt):
            raise ScheduleError(f"{x.stmt.label} does not read {name}", suggestion="a stage after it that does")
    taken = UsedNames.of(func)
    own = replace(alloc.buffer, name=taken.name(name))
    (copy,) = (rename_symbols(s, Renaming(buffers={name: own})) for s in taken.copy((nest,)))
    gone = {id(x.stmt) for x in takers}

    def visit(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if s is nest:
            return (nest, copy)
        return rename_symbols(s, Renaming(buffers={name: own})) if id(s) in gone else None

    return replace_stmt(func, alloc, replace(alloc, body=(Alloc(own, rewrite(alloc.body, visit)),)))


def _writing_nest(func: Func, made: StmtPath, buffer: str, alloc: Alloc) -> Stmt:
    """The outermost statement around `made`, inside `alloc`, that stores nothing but `buffer`; refuse if `buffer` is
    stored anywhere else."""
    around = [*made.around, made.stmt]
    around = around[next(n for n, s in enumerate(around) if s is alloc) + 1 :]
    nest = next(s for s in around if all(stored_buffers(p.stmt) <= {buffer} for p in leaf_paths((s,))))
    inside = {id(s) for s in statements((nest,))}
    writers = [p.stmt for p in leaf_paths_of(func) if buffer in stored_buffers(p.stmt)]
    if not all(id(s) in inside for s in writers):
        labels = join_names(s.label for s in writers)
        raise ScheduleError(f"{buffer} is written by {labels}, in several nests", suggestion="what a single nest makes")
    return nest

"""schedule_nests: steps that are taken on some nests of a program as if these were a program of their own."""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.ir.printer import text
from loopir.schedule.core.primitive import replay
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.subprogram import Part, extract, put_together


@primitive
def schedule_nests(
    func: Func,
    *groups: tuple[tuple[str, ...], tuple[tuple[str, tuple[object, ...], tuple[tuple[str, object], ...]], ...]],
) -> Func:
    """Take steps on some nests alone. Each group names stages, whose nests come to stand side by side, and steps.

    A step is a tuple: the primitive's name, its arguments, its keyword arguments as pairs. It is taken on the nests of
    its group as a program of their own, so it is proved at a price that the rest of the program has no part in. There,
    names are canonical: those of loops, stages and results without their numbers, inputs "arg", "arg_1", ...; alike
    nests take the same steps.

    before:
        def f(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            for i in range(n):
                B[i] = A[i]
            for i_1 in range(n):
                C[i_1] = A[i_1]
    call:    schedule_nests((("C",), (("split", ("i", 4), (("tail", "guard"),)), ("parallel", ("i_o",), ()))))
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            for i in range(n):
                B[i] = A[i]
            for i_o in parallel((n + 3) // 4):
                for i_i in range(4):
                    if i_o * 4 + i_i < n:
                        C[i_o * 4 + i_i] = A[i_o * 4 + i_i]
    refuses: schedule_nests((("D",), ()))  # there is no stage 'D'
    refuses: schedule_nests((("B",), (("split", ("j", 4), ()),)))  # there is no loop 'j'
    refuses: schedule_nests((("B",), ()), (("C", "B"), ()))  # B is in two groups

    before:
        def g(A: "float32[8]", B: "out float32[8]", C: "out float32[8]", D: "out float32[8]"):
            for i in range(8):
                B[i] = A[i]
            for j in range(8):
                C[j] = B[7 - j]
            for k in range(8):
                D[k] = C[k] + A[k]
    refuses: schedule_nests((("B", "D"), ()))  # B and D would wait for C, which waits for them
    """
    made: list[tuple[Part, Func]] = []
    seen: dict[int, str] = {}
    known: dict[tuple[str, str], Func] = {}  # what differs in names alone is scheduled once
    for stages, steps in groups:
        found = extract(func, stages)
        if twice := [seen[n] for n in found.nests if n in seen]:
            raise ScheduleError(f"{twice[0]} is in two groups", suggestion="name it in one of them")
        seen |= dict.fromkeys(found.nests, stages[0])
        key = text(found.func), repr(steps)
        if key not in known:
            new = found.func
            for name, args, kwargs in steps:
                new = replay(new, name, args, kwargs)
            known[key] = new
        made.append((found, known[key]))
    return put_together(func, made)

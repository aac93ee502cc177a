"""schedule_nests: steps that are taken on some nests of a program as if these were a program of their own."""

from __future__ import annotations

from loopir.ir.grammar import Func
from loopir.schedule.primitive import replay
from loopir.schedule.schedule import primitive
from loopir.schedule.subprogram import extract, put_back


@primitive
def schedule_nests(
    func: Func,
    stages: tuple[str, ...],
    steps: tuple[tuple[str, tuple[object, ...], tuple[tuple[str, object], ...]], ...],
) -> Func:
    """Take `steps` on the nests in which `stages` stand, which come to stand side by side for that.

    Each step is a tuple: the primitive's name, its arguments, its keyword arguments as pairs. They are taken on the
    nests alone, so each is proved at a price that the rest of the program has no part in. There, names are canonical:
    those of loops and stages without their numbers, arguments "arg", "arg_1", ...; alike nests of a program take the
    same steps.

    before:
        def f(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            for i in range(n):
                B[i] = A[i]
            for i_1 in range(n):
                C[i_1] = A[i_1]
    call:    schedule_nests(("C",), (("split", ("i", 4), (("tail", "guard"),)), ("parallel", ("i_o",), ())))
    after:
        def f(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
            for i in range(n):
                B[i] = A[i]
            for i_o in parallel((n + 3) // 4):
                for i_i in range(4):
                    if i_o * 4 + i_i < n:
                        C[i_o * 4 + i_i] = A[i_o * 4 + i_i]
    refuses: schedule_nests(("D",), ())  # there is no stage 'D'
    refuses: schedule_nests(("B",), (("split", ("j", 4), ()),))  # there is no loop 'j'
    """
    found = extract(func, stages)
    made = found.func
    for name, args, kwargs in steps:
        made = replay(made, name, args, kwargs)
    return put_back(func, stages, found, made)

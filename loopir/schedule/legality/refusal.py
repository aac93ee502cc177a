"""Turning a clash that the dependence analysis found into the refusal that a person reads.

A step that is made of several asks about nests on the way to its own, whose loops nobody has seen: its witness is told
in the loops that there were.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from loopir.analysis.dependence.access import statements_of
from loopir.analysis.dependence.depend import Clash
from loopir.analysis.dependence.reordering import Origin, Origins
from loopir.errors import ScheduleError, Witness
from loopir.interp.interpret import cond_holds
from loopir.ir.grammar import Func, Index, Var
from loopir.ir.layout.layouts import reads_only
from loopir.ir.traverse.walk import leaf_paths_of, loops, replace
from loopir.ir.verify.verify import evaluate


def refusal(clash: Clash, reason: str, loop: str | None, suggestion: str) -> ScheduleError:
    """A ScheduleError with the witness of `clash`; says so where analysis could not tell."""
    if clash.inexact is not None:
        reason += f"; {clash.inexact}"
    return ScheduleError(reason, loop=loop, witness=clash.witness, suggestion=suggestion)


def witness_in_memory(
    func: Func, witness: Witness, names: set[str], place: Callable[[str, tuple[int, ...]], object]
) -> Witness:
    """A witness of what memory would be, in terms of `func`, in which elements of the buffers `names` lie apart.

    `place` says where the element of one of them would be.
    """
    if witness.buffer not in names or witness.element is None:
        return witness

    def found(label: str, at: Mapping[str, int], write: bool) -> tuple[str, tuple[int, ...]] | None:
        env = {**witness.sizes, **at}
        for s in (s for s in statements_of(func) if s.name == label):
            for a in (a for a in s.accesses if a.write == write and a.buffer in names and None not in a.at):
                element = tuple([evaluate(ix, env) for ix in a.at if ix is not None])
                if place(a.buffer, element) == witness.element and all(cond_holds(c, env) for c in a.conds):
                    return a.buffer, element
        return None

    one = found(witness.first_statement, witness.first, witness.writes[0])
    other = found(witness.second_statement, witness.second, witness.writes[1])
    if one is None or other is None:
        return witness
    return replace(witness, buffer=one[0], element=one[1], other=None if one == other else other)


INIT = " (its init)"
"""What is said after the label of a reduction whose start is meant."""
Back = Mapping[str, Sequence[Index]]
"""What a loop that there was is in the loops on the way: the first index that speaks of a statement's loops alone."""


@contextmanager
def refusal_inside(func: Func, back: Back) -> Generator[None]:
    """A refusal inside, about a nest that `func` was rewritten to, with its witness told in the loops of `func`."""
    try:
        yield
    except ScheduleError as error:
        if error.witness is not None:
            error.witness = map_witness(func, error.witness, back)
        raise


@contextmanager
def refusal_in_loops_of(func: Func, origin: Origins) -> Generator[None]:
    """A refusal inside, about a nest that `func` was rewritten to, with its witness told in `func`, by `origin`."""

    try:
        yield
    except ScheduleError as error:
        if error.witness is not None:
            error.witness = witness_in_loops_of(func, origin, error.witness)
        raise


def witness_in_loops_of(func: Func, origin: Origins, w: Witness) -> Witness:
    """`w`, of a nest that `func` was rewritten to, in the loops of `func`, by `origin`."""
    ends = (w.first_statement, w.first), (w.second_statement, w.second)
    (one, first), (other, second) = (side_in_loops_of(func, origin, name, at, w.sizes) for name, at in ends)
    return replace(w, first_statement=one, first=first, second_statement=other, second=second)


def side_in_loops_of(
    func: Func, origin: Origins, statement: str, values: Mapping[str, int], sizes: Mapping[str, int]
) -> tuple[str, dict[str, int]]:
    """One side of it: the statement, and its loops at `values`."""
    label, init, rest = statement.partition(INIT)
    came = origin.get(label, Origin(label))
    env = {**sizes, **values}
    around = next((p.loops for p in leaf_paths_of(func) if p.stmt.label == came.label), ())
    was = {x.var: came.loops.get(x.var, Var(x.var)) for x in around}
    return came.label + init + rest, {v: evaluate(ix, env) for v, ix in was.items() if reads_only(ix, frozenset(env))}


def map_witness(func: Func, witness: Witness, back: Back, statements: Mapping[str, str] | None = None) -> Witness:
    """`witness` in the loops of `func`; `statements` are known by other names there."""
    named = statements or {}

    def side(values: dict[str, int]) -> dict[str, int]:
        env = {**witness.sizes, **values}
        out: dict[str, int] = {}
        for loop in loops(func.body):
            came = next((x for x in back.get(loop.var, ()) if reads_only(x, frozenset(env))), None)
            if came is not None:
                out[loop.var] = evaluate(came, env)
            elif loop.var in values:
                out[loop.var] = values[loop.var]
        return out

    return replace(
        witness,
        first=side(witness.first),
        second=side(witness.second),
        first_statement=named.get(witness.first_statement, witness.first_statement),
        second_statement=named.get(witness.second_statement, witness.second_statement),
    )

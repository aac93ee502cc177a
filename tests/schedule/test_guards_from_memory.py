"""Guards that read memory, around folds that start outside of them: every step keeps what starts, or is refused."""

from hypothesis import HealthCheck, assume, given, settings, strategies as st

import loopir as lp
from loopir.ir.grammar import Func
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.generate.candidate_steps import TABLE, candidate_steps
from loopir.testing.generate.draws import between, choose, lines
from loopir.testing.generate.steps import arguments_of
from loopir.testing.legality import JUDGED, take
from loopir.testing.oracles.brute_force import first_violation, small_sizes

EXCHANGING = (
    "compute_inline", "compute_at", "fold_storage", "distribute", "unroll_and_jam", "compute_once", "privatize",
    "reuse", "retime", "hoist", "cache_write", "rfactor", "peel", "pad", "trim", "reverse_compute_at", "compute_root",
)  # fmt: skip
"""Primitives by which guards come to read other elements, or stand elsewhere: these are asked most."""


@st.composite
def asking(draw: st.DrawFn) -> Func:
    """A fold over one or two loops where elements of T, which one of the loops, another nest or the caller fills, are
    less than a number: T[k] starts it whatever it holds, and T[i] may not."""
    over, at = choose(draw, (("k", "i"), ("k", "i"), ("i", "k"), ("(i, k)", "0")))
    index = choose(draw, ("k", "k", "2 - k", "i", "0", "(i + k) % 3", "k // 2"))
    term = f"T[{index}] < 2.0"
    term = choose(draw, (term, term, f"{term} and k < 2", f"i < 1 and {term}", f"({term} or k == 0)", f"not {term}"))
    start = choose(draw, ("", ", init=0.0", ", init=0.0", ", init=A[1]"))
    value = choose(draw, ("A[i + k]", "A[i + k]", "T[k]"))
    fold = [f"if {term}:", f'    X[{at}] = {choose(draw, ("sum", "max"))}({value}, over={over}{start}, label="top")']
    fold += ["else:", "    Y[i + k] = A[k]"] if draw(st.booleans()) else []
    filled = choose(draw, ("A[y]", "A[y + i]", "A[i]", "A[0]", "A[2 - y]"))
    filling = ["for y in range(3):", f"    T[y] = {filled}"]
    beside = ["T[k] = A[i + k]"] if not draw(between(0, 3)) else []
    inner = [f"for k in range({choose(draw, (1, 2, 3, 3))}):", *(f"    {x}" for x in (*beside, *fold))]
    outer = f"for i in range({choose(draw, (1, 2, 2, 3))}):"
    where = draw(between(0, 2))
    head = 'with alloc("float32[3]") as T:'
    if where == 0:  # an iteration's own
        body = [outer, f"    {head}", *(f"        {x}" for x in (*filling, *inner))]
    elif where == 1:
        body = [
            head,
            *(f"    {x}".replace("i]", "1]") for x in filling),
            f"    {outer}",
            *(f"        {x}" for x in inner),
        ]
    else:
        body = [outer, *(f"    {x}" for x in inner)]
    given = ', T: "float32[3]"' if where == 2 else ""
    source = [f'def f(A: "float32[8]"{given}, X: "inout float32[8]", Y: "inout float32[8]"):']
    try:
        return lp.parse(lines(*source, *(f"    {x}" for x in body)))
    except lp.VerifyError:
        assume(False)
        raise


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(asking(), st.data())
def test_steps_keep_what_starts_where_a_guard_reads_memory(func: Func, data: st.DataObject) -> None:
    every = st.one_of(st.sampled_from(EXCHANGING), st.sampled_from(JUDGED))
    for name in data.draw(st.lists(every, min_size=8, max_size=16)):
        if listed := candidate_steps(func, name) if name in TABLE else []:
            step = data.draw(st.sampled_from(listed))
        else:
            args, kwargs = data.draw(arguments_of(PRIMITIVES[name], func))
            step = Step(name, args, tuple(kwargs.items()))
        taken = take(func, step)
        assert not isinstance(taken, str), f"{func}\n{step}\n{taken}"
        if isinstance(taken, Func):
            why = first_violation(func, taken, small_sizes(func))
            assert why is None, f"{step}: {why}\n{lp.text(func)}\n{lp.text(taken)}"

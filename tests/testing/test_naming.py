"""Whatever names a program has, steps and lowering make new ones that are free."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
from loopir.errors import LowerError, TargetError, VerifyError
from loopir.ir.grammar import Alloc, Func
from loopir.ir.traverse.walk import leaf_paths, loops, statements
from loopir.ir.verify.verify import verify
from loopir.lower.pipeline import lower
from loopir.schedule.core.naming import Renaming, rename_symbols
from loopir.testing.generate.steps import Crash, schedules
from loopir.testing.generate.strategies import funcs

STEMS = ("i", "j", "T", "X", "ax0", "lane")
ENDS = ("", "_1", "_2", "_1_1", "_o", "_i", "_i_1", "_o_1", "_t", "_first", "_last", "_h", "_rf", "_rf_1", "_in",
        "_out", "_init", "_shared", "_local", "_global", "_ahead", "_at", "_part", "_start", "_j", "_v")  # fmt: skip
NAMES = tuple(stem + end for stem in STEMS for end in ENDS)
"""Names as steps and passes make them."""


@st.composite
def awkward(draw: st.DrawFn) -> Func:
    """A program whose loops, memory and statements are called what steps would call theirs."""
    func = draw(funcs())
    taken = {a.buffer.name for a in func.args} | {*func.sizes, func.name}
    allocs = [s.buffer for s in statements(func.body) if isinstance(s, Alloc)]
    old = [x.var for x in loops(func.body)]
    chosen = draw(st.lists(st.sampled_from([n for n in NAMES if n not in taken]), unique=True,
                           min_size=len(old) + len(allocs), max_size=len(old) + len(allocs)))  # fmt: skip
    labels = [p.stmt.label for p in leaf_paths(func.body)]
    said = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=len(labels), max_size=len(labels)))
    memory = {b.name: replace(b, name=n) for b, n in zip(allocs, chosen[len(old) :], strict=True)}
    new = Renaming(dict(zip(old, chosen, strict=False)), dict(zip(labels, said, strict=True)), memory)
    made = replace(func, body=tuple(rename_symbols(s, new) for s in func.body))
    verify(made, "schedule")
    return made


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_new_names_are_free(data: st.DataObject) -> None:
    func = data.draw(awkward())
    try:
        s = data.draw(schedules(func))
    except Crash as crash:
        if isinstance(crash.cause, VerifyError):
            raise AssertionError(f"{crash}\n{crash.before}") from crash
        return
    for target in ("cuda", "llvm"):
        try:
            lower(s.func, target)
        except (LowerError, TargetError):
            continue
        except VerifyError as error:
            raise AssertionError(f"{target}: {error}\n{lp.text(func)}\n{s.script()}\n{s}") from error


def test_partial_results_and_the_loop_over_them_are_called_differently() -> None:
    f = lp.parse("""
def f(n: "size", A: "float32[n]", S: "inout float32[1]"):
    for S_rf in range(n):
        S[0] = sum(A[S_rf], over=S_rf, init=0.0)
""")
    assert lp.Schedule(f).rfactor("S", "S_rf").loops() == ("S_rf", "S_rf_2")

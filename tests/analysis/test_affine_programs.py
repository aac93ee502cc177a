"""Random affine programs at constant sizes: `Schedule.why` is None exactly where running the indices finds no conflict.

The subscripts are executed here as plain Python, on accesses that the test lists itself, so nothing is shared with the
analysis nor with `loopir.testing`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from unittest.mock import patch

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.ir.traverse.walk import loops

Point = dict[str, int]
FORMS = (
    "{v}", "{v} + 1", "{v} + 3", "2 * {v}", "2 * {v} + 1", "5 - {v}", "{v} + {w}", "{v} - {w} + 4", "{w}",
    "2 * {v} + {w}", "4", "3 * {v} - {w} + 2", "({v} + {w}) // 2", "{v} % 2",
)  # fmt: skip
GUARDS = ("{v} < {w}", "{v} + {w} < 4", "{v} != 1", "{v} % 2 == 0", "{v} <= 1 or {w} == 2")


@dataclass(frozen=True)
class Line:
    """`target = ... source ...` under a guard; `over` of a fold, which reads its target, too."""

    label: str
    target: str
    sources: tuple[str, ...]
    guard: str = "True"
    over: str | None = None

    def text(self) -> list[str]:
        value = " + ".join(f"a[{x}]" for x in self.sources)
        line = f'a[{self.target}]: "{self.label}" = {value} * 2.0'
        if self.over is not None:
            line = f'a[{self.target}] = sum({value}, over={self.over}, label="{self.label}")'
        return [f"if {self.guard}:", f"    {line}"] if self.guard != "True" else [line]

    def touches(self, env: Point) -> Iterator[tuple[tuple[int, ...], bool, bool]]:
        """(element, written, folded) in order."""
        if eval(self.guard, dict(env)):
            element: Callable[[str], tuple[int, ...]] = lambda x: eval(f"({x},)", dict(env))  # noqa: E731
            yield from ((element(x), False, False) for x in self.sources)
            if self.over is not None:
                yield element(self.target), False, True
            yield element(self.target), True, self.over is not None


@dataclass(frozen=True)
class Nest:
    band: tuple[tuple[str, int], ...]
    lines: tuple[Line, ...]
    rank: int

    def func(self) -> lp.Func:
        shape = ", ".join(["40"] * self.rank)
        out = [f'def f(a: "inout float32[{shape}]"):']
        for d, (v, n) in enumerate(self.band):
            out.append(f"{'    ' * (d + 1)}for {v} in range({n}):")
        pad = "    " * (len(self.band) + 1)
        return lp.parse("\n".join([*out, *(pad + x for line in self.lines for x in line.text())]))

    def conflicts(self) -> Iterator[tuple[tuple[int, Point], tuple[int, Point], bool]]:
        """Dependent pairs of instances, the earlier one first, and whether both fold: sums into one element commute."""
        names = [v for v, _ in self.band]
        events = [
            ((n, dict(zip(names, at, strict=True))), *touch)
            for at in product(*(range(n) for _, n in self.band))
            for n, line in enumerate(self.lines)
            for touch in line.touches(dict(zip(names, at, strict=True)))
        ]
        for k, (one, cell, write, fold) in enumerate(events):
            for other, cell2, write2, fold2 in events[k + 1 :]:
                if cell == cell2 and (write or write2) and one != other:
                    yield one, other, fold and fold2


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    names = ("i", "j", "k")[: draw(st.integers(1, 3))]
    band = tuple((v, draw(st.integers(1, 4 if len(names) < 3 else 3))) for v in names)
    rank = draw(st.integers(1, 2))

    def subscript(free: tuple[str, ...]) -> str:
        forms = [draw(st.sampled_from(FORMS)) for _ in range(rank)]
        return ", ".join(f.format(v=draw(st.sampled_from(free)), w=draw(st.sampled_from(free))) for f in forms)

    def line(n: int) -> Line:
        sources = tuple(subscript(names) for _ in range(draw(st.integers(1, 2))))
        guard = draw(st.sampled_from(("True", "True", *GUARDS)))
        guard = guard.format(v=draw(st.sampled_from(names)), w=draw(st.sampled_from(names)))
        if len(names) > 1 and draw(st.integers(0, 2)) == 0:
            over = draw(st.sampled_from(names))
            return Line(f"s{n}", subscript(tuple(v for v in names if v != over)), sources, guard, over)
        return Line(f"s{n}", subscript(names), sources, guard)

    return Nest(band, tuple(line(n) for n in range(draw(st.integers(1, 2)))), rank)


def pair_of(error: lp.ScheduleError) -> tuple[tuple[int, Point], tuple[int, Point]]:
    w = error.witness
    assert w is not None, error
    return (int(w.first_statement[1:]), w.first), (int(w.second_statement[1:]), w.second)


@settings(max_examples=150, deadline=None)
@given(nests())
def test_parallel_is_legal_exactly_without_a_conflict(nest: Nest) -> None:
    s = lp.Schedule(nest.func())
    pairs = [(a, b) for a, b, _ in nest.conflicts()]
    names = [v for v, _ in nest.band]
    for d, v in enumerate(names):
        crossing = [
            (a, b) for a, b in pairs if a[1][v] != b[1][v] and all(a[1][x] == b[1][x] for x in names[:d])
        ]  # fmt: skip
        error = s.why("parallel", v)
        assert (error is None) == (not crossing), f"{s}\nparallel {v}: {error}\n{crossing[:1]}"
        assert error is None or pair_of(error) in crossing, f"{s}\n{error}"


@settings(max_examples=150, deadline=None)
@given(nests().filter(lambda n: len(n.band) > 1), st.randoms(use_true_random=False))
def test_reorder_is_legal_exactly_where_dependent_pairs_keep_their_order(nest: Nest, random: object) -> None:
    s = lp.Schedule(nest.func())
    order = [v for v, _ in nest.band]
    random.shuffle(order)  # type: ignore[attr-defined]

    def when(x: tuple[int, Point]) -> tuple[int, ...]:
        return *(x[1][v] for v in order), x[0]

    turned = [(a, b) for a, b, folds in nest.conflicts() if not folds and when(a) > when(b)]
    error = s.why("reorder", *order)
    assert (error is None) == (not turned), f"{s}\nreorder {order}: {error}\n{turned[:1]}"
    assert error is None or pair_of(error) in turned, f"{s}\n{error}"


@settings(max_examples=150, deadline=None)
@given(nests())
def test_vectorize_is_legal_exactly_where_lockstep_keeps_the_order(nest: Nest) -> None:
    """All lanes read before any writes, statement by statement; two writes of one element are kept apart.

    By dependences alone: what values decide besides is held in test_same_values.
    """
    s = lp.Schedule(nest.func())
    v = nest.band[-1][0]
    names = [x for x, _ in nest.band[:-1]]
    events = [
        (n, at, [(cell, write) for cell, write, _ in line.touches(at)])
        for values in product(*(range(n) for _, n in nest.band))
        for n, line in enumerate(nest.lines)
        for at in [dict(zip([*names, v], values, strict=True))]
    ]
    broken = [
        ((m, a), (n, b))
        for k, (m, a, touched) in enumerate(events)
        for n, b, others in events[k + 1 :]
        if a[v] != b[v] and all(a[x] == b[x] for x in names)
        for cell, write in touched
        for cell2, write2 in others
        if cell == cell2 and (write or write2) and (m, write) >= (n, write2)
    ]
    with patch.object(import_module(lp.Schedule.vectorize.__module__), "same_values", lambda *_: False):
        error = s.why("vectorize", v)
    assert (error is None) == (not broken), f"{s}\nvectorize {v}: {error}\n{broken[:1]}"
    assert error is None or pair_of(error) in broken, f"{s}\n{error}"


# ---------------------------------------------------------------- fused and split loops of symbolic sizes

NEST = """
def f(n: "size", m: "size", x: "float32[n, m]", y: "out float32[n, m]"):
    for i in range(n):
        for j in range(m):
            y[i, j] = x[i, j] * 2.0
"""


@pytest.mark.parametrize("steps", [("fuse",), ("fuse", "split"), ("split", "split_inner"), ("split", "fuse")])
def test_elementwise_nests_stay_independent(steps: tuple[str, ...]) -> None:
    s = lp.Schedule(lp.parse(NEST))
    for step in steps:
        names = [x.var for x in loops(s.func.body)]
        split = names[-1 if step == "split_inner" else 0]
        s = s.fuse(names[0], names[1]) if step == "fuse" else s.split(split, 8)
    for loop in loops(s.func.body):
        assert s.why("parallel", loop.var) is None, s.why("parallel", loop.var)
        assert s.why("bind", loop.var, "blockIdx.x") is None

"""Every rule of the simplifier, and what comes out of it, proved by integer sets: no point of the context differs.

The statements are proved for each value of their constants in a range and for every value of their variables. What
the simplifier makes of random indices and conditions, and of those that real schedules simplify, is compared with the
source on the whole of its context; where that has products of variables, at several sizes, for every value of the
other variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from loopir.arith import poly, prove, rules, simplify as room
from loopir.arith.prove import BOUNDS
from loopir.arith.rule_statement import RULES, RuleStatement
from loopir.arith.simplify import Context, simplify, simplify_cond
from loopir.ir.grammar import And, Cmp, Cond, FloorDiv, Index, Int, Mod, Mul, Not, Or, Var, ceildiv, maximum, minimum
from loopir.ir.printer import text
from loopir.ir.traverse.walk import free_vars, nodes, substitute
from loopir.testing.oracles.isl_points import Points, read

STATEMENTS = {**RULES, **BOUNDS}
RANGE = {0: 1, 1: 12, 2: 8, 3: 5}
"""The greatest value of each constant, by how many there are."""


# ---------------------------------------------------------------- the statements


def counterexample(s: RuleStatement) -> dict[str, int] | None:
    """Values for which `s` is wrong; None if there are none."""
    claim, where = read(s.claim), read(s.where) if s.where else And(())
    constants = s.constants.split()
    for values in product(range(1, RANGE[len(constants)] + 1), repeat=len(constants)):
        env = {name: Int(v) for name, v in zip(constants, values, strict=True)}
        points = Points(sorted(free_vars(And((claim, where))) - set(constants)))  # type: ignore[arg-type]
        wrong = points.cond(substitute(where, env)).subtract(points.cond(substitute(claim, env)))  # type: ignore
        found = points.one(wrong)
        if found is not None:
            return {**found, **dict(zip(constants, values, strict=True))}
    return None


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_rule_holds_for_all_integers(name: str) -> None:
    assert counterexample(STATEMENTS[name]) is None


def test_rules_are_told_apart_by_name() -> None:
    assert not RULES.keys() & BOUNDS.keys()
    assert len(STATEMENTS) > 30


@pytest.mark.parametrize("name", [name for name, s in STATEMENTS.items() if s.where])
def test_a_rule_needs_its_condition(name: str) -> None:
    """And the proof can fail: without the condition, there are values for which the rule is wrong."""
    assert counterexample(replace(STATEMENTS[name], where="")) is not None


# ---------------------------------------------------------------- what comes out


@dataclass(frozen=True)
class Known:
    """A Context in the making: assumptions and guards, and loops with their extents, outermost first."""

    steps: tuple[Cond | tuple[str, Index], ...]

    def context(self) -> Context:
        ctx = Context()
        for step in self.steps:
            ctx = ctx.given(step) if isinstance(step, Cond) else ctx.loop(*step)
        return ctx

    def holds(self) -> Cond:
        """The same as one condition; every variable that is no loop is a size, and at least 0."""
        terms: list[Cond] = []
        for step in self.steps:
            terms += [step] if isinstance(step, Cond) else [Cmp("<", Var(step[0]), step[1])]
        return And(tuple(terms))

    def __str__(self) -> str:
        return "; ".join(text(s) if isinstance(s, Cond) else f"{s[0]} in {text(s[1])}" for s in self.steps)


def short(x: Index | Cond, known: Known) -> Index | Cond:
    return simplify(x, known.context()) if isinstance(x, Index) else simplify_cond(x, known.context())


SIZES = (1, 2, 3, 8, 16, 40)
"""What a variable is replaced by where it stands in a product or under a division."""


def differ(a: Index | Cond, b: Index | Cond, known: Known) -> dict[str, int] | None:
    """A point of the context at which `a` and `b` are not the same; None is a proof, at `SIZES` of factors."""
    holds = known.holds()
    together = And((holds, Cmp("==", a, b) if isinstance(a, Index) else And((a, b))))  # type: ignore[arg-type]
    names = sorted(free_vars(together))
    for env in instances(together):
        if any(isinstance(n, FloorDiv | Mod) and isinstance(d := substitute(n.b, env), Int) and d.value < 1
               for n in nodes(together)):  # fmt: skip
            continue
        points = Points(n for n in names if n not in env)
        domain = points.cond(substitute(holds, env))
        for v in points.names:
            domain = domain.intersect(points.cond(Cmp("<=", Int(0), Var(v))))
        x, y = substitute(a, env), substitute(b, env)
        found = points.one(points.differ(x, y).intersect(domain))
        if found is not None:
            return {**found, **{name: ix.value for name, ix in env.items() if isinstance(ix, Int)}}
    return None


def instances(c: Cond) -> Iterator[Mapping[str, Index]]:
    """Values for as few variables as make `c` affine: none, if it is."""
    factors: set[str] = set()
    for n in nodes(c):
        if isinstance(n, FloorDiv | Mod):
            factors |= free_vars(n.b)
        elif isinstance(n, Mul):
            sides = sorted((free_vars(n.a), free_vars(n.b)), key=lambda v: (len(v - SIZED), len(v)))
            factors |= sides[0]
    for values in product(SIZES if len(factors) < 3 else SIZES[1:4], repeat=len(factors)):
        yield dict(zip(sorted(factors), map(Int, values), strict=True))


SIZED = frozenset("nmkhwf")
n, m = Var("n"), Var("m")
i, j, s, t, o = (Var(v) for v in "ijsto")
leaves = st.one_of(
    st.sampled_from([i, j, s, t, o, n]),
    st.integers(-9, 20).map(Int),
    st.sampled_from([i * 8 + j, o * 8 + j, n - 1 - s, s * 8 + j, n - 8, m * 8]),
)


def grow(inner: st.SearchStrategy[Index]) -> st.SearchStrategy[Index]:
    divisors = st.sampled_from([2, 3, 4, 6, 8, 16, 24]).map(Int)
    return st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
        st.tuples(inner, st.sampled_from([-3, -1, 2, 3, 4, 8])).map(lambda p: p[0] * p[1]),
        st.tuples(inner, divisors).map(lambda p: p[0] // p[1]),
        st.tuples(inner, divisors).map(lambda p: p[0] % p[1]),
        st.tuples(inner, inner).map(lambda p: minimum(*p)),
        st.tuples(inner, inner).map(lambda p: maximum(*p)),
    )


def compared(ix: st.SearchStrategy[Index]) -> st.SearchStrategy[Cond]:
    return st.builds(Cmp, st.sampled_from(["<", "<=", "==", "!="]), ix, ix)


indices = st.recursive(leaves, grow, max_leaves=5)
guards = compared(st.recursive(leaves, grow, max_leaves=2))
conds: st.SearchStrategy[Cond] = st.recursive(
    compared(st.recursive(leaves, grow, max_leaves=3)),
    lambda c: st.one_of(c.map(Not), st.tuples(c, c).map(And), st.tuples(c, c).map(Or)),
    max_leaves=3,
)
by_size = st.recursive(
    st.one_of(leaves, st.sampled_from([n * i + s, s * m + j, (i * m + t) * n + s])),
    lambda inner: st.one_of(
        grow(inner),
        st.tuples(inner, st.sampled_from([n, m, n + 2, n * m])).map(lambda p: p[0] // p[1]),
        st.tuples(inner, st.sampled_from([n, m, n + 2, n * m])).map(lambda p: p[0] % p[1]),
    ),
    max_leaves=4,
)


@st.composite
def knowns(draw: st.DrawFn) -> Known:
    """Constant loops, one as long as a size, a triangular one, one over tiles; with a guard or without."""
    assumes: list[Any] = [Cmp("<=", Int(draw(st.sampled_from([1, 2, 8]))), n), Cmp("<=", Int(1), m)]
    if draw(st.booleans()):
        assumes.append(Cmp("==", Mod(n, Int(draw(st.sampled_from([2, 4, 8])))), Int(0)))
    around = [("i", Int(6)), ("j", Int(8)), ("s", n), ("t", draw(st.sampled_from([i + 1, n - s, m])))]
    tiles = [("o", draw(st.sampled_from([ceildiv(n, 8), n // 8, n - 2])))]
    guard = draw(st.lists(guards, max_size=1))
    return Known((*assumes, *around, *tiles, *guard))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(indices, conds), knowns())
def test_what_is_simplified_is_the_same_everywhere(x: Index | Cond, known: Known) -> None:
    y = short(x, known)
    assert differ(x, y, known) is None, (str(known), text(x), text(y))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(by_size, compared(by_size)), knowns())
def test_divisions_by_sizes_are_the_same_at_any_of_them(x: Index | Cond, known: Known) -> None:
    y = short(x, known)
    assert differ(x, y, known) is None, (str(known), text(x), text(y))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(indices, conds), knowns(), st.lists(guards, max_size=2))
def test_no_proof_that_there_is_is_given_up(x: Index | Cond, known: Known, more: list[Cond]) -> None:
    """Points and corners at which something is negative end the search for a proof only where none is found."""
    place = Known((*known.steps, *more))
    y = short(x, place)
    with pytest.MonkeyPatch.context() as patch:
        for way in ("refuted_by_sample", "_unbounded"):
            patch.setattr(prove, way, lambda *asked: False)
        assert short(x, place) == y


CALLS = Path(__file__).parents[2] / "benchmarks" / "simplify_calls.txt"


def real() -> Iterator[tuple[Known, Index | Cond]]:
    for line in CALLS.read_text().splitlines():
        _, *where, what = line.split(" | ")
        steps: list[Any] = []
        for kind, rest in (step.split(" ", 1) for step in where):
            var, *extent = rest.split(" in ", 1)
            steps.append((var, read(extent[0])) if kind == "for" else read(rest))
        yield Known(tuple(steps)), read(what)


def test_what_real_schedules_simplify_is_the_same_everywhere() -> None:
    for known, x in list(real())[::4]:
        y = short(x, known)
        assert differ(x, y, known) is None, (str(known), text(x), text(y))


# ---------------------------------------------------------------- the check can fail


def too_low(a: Index, k: int, known: Context) -> list[tuple[Any, int]]:
    """A quotient is taken to be as great as the dividend allows, where it may be less."""
    if isinstance(a, FloorDiv) and isinstance(a.b, Int) and k % a.b.value == 0:
        return [(poly.poly_scale(poly.expand_index(a.a), k // a.b.value), 1)]
    return OPTIONS(a, k, known)


def always_whole(p: Any, m: Any, a: Any, known: Context) -> Any:
    """As if everything were a multiple of what it is divided by."""
    k = p[m]
    if m != (a,) or not isinstance(a.b, Int) or k % a.b.value:
        return None
    return poly.poly_add({x: c for x, c in p.items() if x != m}, poly.expand_index(a.a), k // a.b.value)


OPTIONS = prove._options  # pyright: ignore[reportPrivateUsage]
PLACE = Known((Cmp("<=", Int(1), n), ("i", Int(6)), ("j", Int(8)), ("s", n)))
WRONG: dict[str, tuple[Any, str, Any, Index | Cond]] = {
    "conditions are not looked at": (rules, "within", lambda r, b, known: True, (i * 8 + j + 4) // 8),
    "the sign of a coefficient is lost": (
        rules, "least_terms", lambda r, c: {m: k for m in r if (k := abs(r[m]) % c)}, (s - n * 3) % 8,
    ),
    "min and max are mixed up": (
        room, "extreme", lambda a, b, least, known: rules.extreme(a, b, not least, known), minimum(s, n),
    ),
    "a quotient may lose its remainder": (rules, "SUMS", (always_whole,), n // 8 * 8),
    "terms have no ends but 0": (prove, "least", lambda p, known: p.get((), 0), Cmp("<=", s, Int(5))),
    "a quotient is bounded by its dividend": (prove, "_options", too_low, Cmp("<=", n, n // 8 * 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, attribute, wrong, x = WRONG[name]
    assert differ(x, short(x, PLACE), PLACE) is None
    assert hasattr(where, attribute)
    monkeypatch.setattr(where, attribute, wrong)
    monkeypatch.setattr(prove, "refuted_by_sample", lambda *asked: False)  # the points would hide a wrong proof
    assert differ(x, short(x, PLACE), PLACE) is not None


def test_a_wrong_statement_is_found() -> None:
    assert counterexample(RuleStatement("(c * q + r) // c == q", constants="c")) is not None
    assert counterexample(RuleStatement("x % (c * d) // c == x // c % c", constants="c d")) is not None
    assert counterexample(RuleStatement("x // c <= x", constants="c")) is not None

"""What is asked of divisions and distances, against trying every point."""

from itertools import product

from hypothesis import given, settings, strategies as st

from loopir.analysis.dependence.access import statements_of
from loopir.analysis.dependence.depend import Order
from loopir.analysis.dependence.fusion_shift import distances
from loopir.analysis.presburger.constraints import ConstraintSystem
from loopir.ir.grammar import Add, FloorDiv, Index, Int, Mod, Mul, Var
from loopir.ir.parser.parse import parse
from loopir.ir.verify.verify import evaluate

LOOPS = {"i": 5, "j": 4}
leaves = st.one_of(st.sampled_from([Var(v) for v in LOOPS]), st.integers(-7, 7).map(Int))


def larger(inner: st.SearchStrategy[Index]) -> st.SearchStrategy[Index]:
    return st.one_of(
        st.builds(Add, inner, inner),
        st.builds(Mul, inner, st.integers(-6, 6).map(Int)),
        st.builds(FloorDiv, inner, st.integers(1, 6).map(Int)),
        st.builds(Mod, inner, st.integers(1, 6).map(Int)),
    )


@settings(max_examples=300, deadline=None)
@given(st.recursive(leaves, larger, max_leaves=8))
def test_a_linear_form_has_the_value_of_its_index(ix: Index) -> None:
    """At every point, with each quotient what its dividend gives, and all that is said of quotients holds there."""
    system = ConstraintSystem()
    found = system.linear(ix, "", {v: v for v in LOOPS})
    for values in product(*(range(n) for n in LOOPS.values())):
        env = dict(zip(LOOPS, values, strict=True))
        at = {**env, "": 1}
        for dividend, divisor, quotient in system.divided:
            at[quotient] = sum(c * at[k] for k, c in dividend.items()) // divisor
        assert sum(c * at[k] for k, c in found.items()) == evaluate(ix, env), f"{ix} as {found} at {env}"
        assert all(sum(c * at[k] for k, c in row.items()) >= 0 for row, _ in system.constraints)
        assert all(at[k] >= 0 for k in system.positive)


def test_one_division_stands_for_all_that_differ_by_whole_ones() -> None:
    """`(98 * i + 7 * j + i) // 7` and `i // 7`, of `j` iterations; and a quotient's quotient is of what is divided."""
    system, (i, j) = ConstraintSystem(), map(Var, LOOPS)
    for ix in (i // 7, (i * 99 + j * 7 + 14) // 7, (i + j * 7) % 7, FloorDiv(FloorDiv(i, Int(7)), Int(2)), i // 14):
        system.linear(ix, "", {v: v for v in LOOPS})
    assert [(dividend, divisor) for dividend, divisor, _ in system.divided] == [({"i": 1}, 7), ({"i": 1}, 14)]


subscripts = st.sampled_from(
    ("k", "(k + {c}) % 3", "k % 3", "(2 * k + i) // 3", "k + i", "i", "2 * k + {c}", "k // 2", "(k + i) // 2 % 2")
)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(subscripts, subscripts, st.integers(0, 3), st.integers(0, 3)),
    st.sampled_from(("0 <= i", "i != 1", "1 <= i + k", "k < 4 and 1 <= (i + k) % 3")),
    st.sampled_from((None, 0, 1)),
    st.integers(-6, 6),
)
def test_distances_are_the_largest(at: tuple[str, str, int, int], guard: str, later: int | None, over: int) -> None:
    """Those of all conflicting pairs of iterations; and what is over a bound is told with the bound as without it."""
    first, second = (x.replace("{c}", str(c)) for x, c in zip(at[:2], at[2:], strict=True))
    func = parse(f"""
def f(a: "inout float32[64]", b: "inout float32[64]"):
    for k in range(6):
        for i in range(4):
            if {guard}:
                a[{first}]: "one" = 1.0
            b[i]: "two" = a[{second}]
""")
    s, t = (next(x for x in statements_of(func) if x.label == name) for name in ("one", "two"))
    order: Order = [] if later is None else [({"t.k": 1, "s.k": -1, "": -later}, False)]
    ahead = {"s.k": 1, "t.k": -1}
    found = list(distances(func, s, t, ahead, order))
    tried = [
        k - m
        for k, i, m, n in product(range(6), range(4), range(6), range(4))
        if eval(guard, {"k": k, "i": i})
        and (later is None or m >= k + later)
        and eval(first, {"k": k, "i": i}) == eval(second, {"k": m, "i": n})
    ]
    assert max((d for d in found if d is not None), default=None) == max(tried, default=None)
    assert [d for d in distances(func, s, t, ahead, order, over=over) if d is None or d > over] == [
        d for d in found if d is None or d > over
    ]

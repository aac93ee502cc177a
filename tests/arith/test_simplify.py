"""Every simplification is equal to its source at every point of its context, and is its own simplification."""

from functools import cache, reduce
from itertools import product
from operator import and_, or_
from typing import Any

import numpy as np
from hypothesis import example, given, settings, strategies as st

from loopir.arith.simplify import Context, simplify, simplify_cond
from loopir.arith.simplify_func import Known, simplify_func, statements_known
from loopir.ir.grammar import (
    TRUE,
    And,
    Cmp,
    Cond,
    FloorDiv,
    Func,
    Index,
    Int,
    Mod,
    Not,
    Or,
    Var,
    ceildiv,
    maximum,
    minimum,
)
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import accessed_buffers, statements
from loopir.ir.verify.verify import evaluate
from loopir.testing.generate.trees import anything

LOOPS = {"i": 6, "j": 8, "k": 3}
n, m = Var("n"), Var("m")
i, j, k = (Var(v) for v in LOOPS)


def context(divisor: int = 1) -> Context:
    ctx = Context().given(Cmp("<=", Int(1), n), Cmp("<=", Int(1), m))
    if divisor > 1:
        ctx = ctx.given(Cmp("==", Mod(n, Int(divisor)), Int(0)))
    for v, extent in LOOPS.items():
        ctx = ctx.loop(v, Int(extent))
    return ctx.loop("s", n)


leaves = st.one_of(
    st.sampled_from([i, j, k, n, m, Var("s")]), st.integers(-9, 20).map(Int), st.sampled_from([i * 8 + j, n * i, m * 4])
)


def grow(inner: st.SearchStrategy[Index]) -> st.SearchStrategy[Index]:
    divisors = st.one_of(st.sampled_from([2, 3, 4, 8, 16, 24]).map(Int), st.sampled_from([n, m]))
    return st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
        st.tuples(inner, st.integers(-4, 8)).map(lambda p: p[0] * p[1]),
        st.tuples(inner, divisors).map(lambda p: p[0] // p[1]),
        st.tuples(inner, divisors).map(lambda p: p[0] % p[1]),
        st.tuples(inner, inner).map(lambda p: minimum(*p)),
        st.tuples(inner, inner).map(lambda p: maximum(*p)),
    )


indices = st.recursive(leaves, grow, max_leaves=8)
compares = st.builds(Cmp, st.sampled_from(["<", "<=", "==", "!="]), indices, indices)
conds: st.SearchStrategy[Cond] = st.recursive(
    compares,
    lambda c: st.one_of(c.map(Not), st.tuples(c, c).map(lambda t: And(t)), st.tuples(c, c).map(lambda t: Or(t))),
    max_leaves=3,
)


@cache
def points(divisor: int) -> dict[str, Any]:
    """Values of all variables, in the order of one another: an array each."""
    out = []
    for size_n, size_m in ((divisor, 1), (2 * divisor, 3), (3 * divisor, 7), (5 * divisor, 2)):
        for a, b, c in product(range(0, 6, 1), range(0, 8, 3), range(3)):
            for s in {0, size_n - 1, size_n // 2}:
                out.append((a, b, c, size_n, size_m, s))
    return dict(zip("ijknms", np.array(out).T))


def holds(c: Cond, env: dict[str, Any]) -> Any:
    """Where a condition holds: an array."""
    match c:
        case And(terms):
            return reduce(and_, (holds(t, env) for t in terms), np.ones_like(env["i"], bool))
        case Or(terms):
            return reduce(or_, (holds(t, env) for t in terms), np.zeros_like(env["i"], bool))
        case Not(term):
            return ~holds(term, env)
        case Cmp(op, a, b):
            of = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal}[op]
            return of(evaluate(a, env), evaluate(b, env)) & np.ones_like(env["i"], bool)
    raise TypeError(c)


def only(where: Any, env: dict[str, Any]) -> dict[str, int]:
    """The first of the points that are true in `where`."""
    at = int(np.argmax(where))
    return {name: int(values[at]) for name, values in env.items()}


@settings(max_examples=400, deadline=None)
@given(indices, st.sampled_from([1, 8]))
@example(n * 3 % 2, 8)
def test_simplified_indices_are_equal_everywhere(ix: Index, divisor: int) -> None:
    ctx = context(divisor)
    short = simplify(ix, ctx)
    env = points(divisor)
    wrong = (evaluate(ix, env) != evaluate(short, env)) & np.ones_like(env["i"], bool)
    assert not wrong.any(), (text(ix), text(short), only(wrong, env))
    assert simplify(short, ctx) == short, (text(ix), text(short), text(simplify(short, ctx)))


@settings(max_examples=300, deadline=None)
@given(conds, st.sampled_from([1, 8]))
def test_simplified_conditions_are_equivalent(c: Cond, divisor: int) -> None:
    short = simplify_cond(c, context(divisor))
    env = points(divisor)
    wrong = holds(c, env) != holds(short, env)
    assert not wrong.any(), (text(c), text(short), only(wrong, env))


@settings(max_examples=200, deadline=None)
@given(conds, indices)
def test_a_guard_is_used_only_where_it_holds(c: Cond, ix: Index) -> None:
    short = simplify(ix, context().given(c))
    env = points(1)
    wrong = holds(c, env) & (evaluate(ix, env) != evaluate(short, env))
    assert not wrong.any(), (text(c), text(ix), text(short), only(wrong, env))


def test_what_lowering_meets() -> None:
    ctx = Context().given(Cmp("<=", Int(1), n)).loop("i", n).loop("j", Int(64)).loop("f", Int(256))
    f = Var("f")
    rows = {
        (i * 64 + j) // 64: "i",
        (i * 64 + j) % 64: "j",
        ((i * 64 + j) % 1024) // 64: "i % 16",
        16 * (f // 16) + f % 16: "f",
        (n * f + i) // n: "f",
        (n * f + i) % n: "i",
        f // 4 // 8: "f // 32",
        n - 1 - (n - 1 - i): "i",
        minimum(n - i, n + 4): "n - i",
        ceildiv(n * 32, 32): "n",
    }
    for source, want in rows.items():
        assert text(simplify(source, ctx)) == want, text(source)
    assert simplify_cond(i < n, ctx) == And(())
    assert simplify_cond(i * 64 + j < n * 64, ctx) == And(())
    split = Context().given(Cmp("==", Mod(n, Int(32)), Int(0))).loop("o", ceildiv(n, 32)).loop("t", Int(32))
    assert simplify_cond(Var("o") * 32 + Var("t") < n, split) == And(())
    odd = Context().loop("o", ceildiv(n, 32)).loop("t", Int(32))
    assert text(simplify_cond(Var("o") * 32 + Var("t") < n, odd)) == "o * 32 + t < n"


def test_a_product_above_what_is_not_negative_has_no_factor_of_0() -> None:
    fused = Context().loop("x", n * m + n)
    assert simplify_cond(Cmp("<", Int(0), n), fused) == TRUE
    assert simplify_cond(Cmp("<", Int(0), m), fused) != TRUE
    guarded = Context().loop("i", Int(4)).given(Cmp("<", i, n * m))
    assert simplify_cond(Cmp("<", Int(0), m), guarded) == TRUE
    assert simplify_cond(Cmp("<", Int(0), m), Context().loop("i", Int(4)).given(Cmp("<", i - 1, n * m))) != TRUE


def test_a_quotient_is_below_a_size_where_its_dividend_is_below_the_multiple() -> None:
    ctx = Context().loop("i", Int(2)).loop("j", Int(2)).loop("k", n)
    flat = i * n * 2 + j * n + k
    assert simplify_cond(Cmp("<", flat // 4, n), ctx) == TRUE
    assert simplify_cond(Cmp("<", (flat + 1) // 4, n), ctx) != TRUE
    assert simplify_cond(Cmp("<", flat * 3 // 4, n * 3), ctx) == TRUE
    lanes = Context().loop("i", n * n).loop("j", Int(4)).given(Cmp("<", i * 4 + 3, n * n))
    assert simplify_cond(Cmp("<", (i * 4 + j) // n, n), lanes) == TRUE
    assert simplify_cond(Cmp("<", (i * 4 + j + 1) // n, n), lanes) != TRUE
    assert simplify_cond(Cmp("<=", Int(0), (i * 4 + j) // n), lanes) == TRUE
    assert simplify_cond(Cmp("<=", Int(0), (i * 4 - j) // n), lanes) != TRUE
    assert simplify_cond(Cmp("<", flat * 3 // 4, n * 3 - 1), ctx) != TRUE


def test_what_memory_held_at_a_guard_is_forgotten_where_it_may_be_written() -> None:
    """And is used where nothing writes it."""
    written = parse("""
def f(p: "inout int32[4]", q: "int32[4]", b: "out float32[4]"):
    for i in range(4):
        if index(p[i]) < 4:
            p[i] = 9
            if index(p[i]) < 4:
                b[i] = 1.0
            else:
                b[i] = 2.0
    for j in range(4):
        for k in range(p[j]):
            p[j] = 0
            if k < index(p[j]):
                b[j] = 3.0
""")
    assert simplify_func(written) == written
    read = text(written).replace("p[i] = 9", "b[i] = 9.0").replace("p[j] = 0", "b[j] = 9.0").replace("inout ", "")
    simplified = text(simplify_func(parse(read)))
    assert simplified.count("if") == 1
    assert "else" not in simplified


@given(st.sampled_from((0, -2)), st.sampled_from((FloorDiv, Mod)))
def test_what_is_divided_by_no_positive_number_where_nothing_runs_stays(least: int, kind: type[FloorDiv | Mod]) -> None:
    """As in a selection that asks for what is not: a divisor that is 0 there is divided by nowhere."""
    known = Context().loop("i", Int(4)).given(Cmp("<=", n, Int(2)))
    width = maximum(n, 3) + (least - 3)
    assert simplify(width, known) == Int(least)
    short = simplify(kind(Var("i") + 1, width), known)
    assert isinstance(short, kind)
    assert simplify(short, known) == short


def test_a_product_with_a_multiple_is_one() -> None:
    k, lane = Var("k"), Var("lane")
    known = Context().given(Cmp("==", Mod(k, Int(32)), Int(0))).loop("lane", Int(32))
    assert simplify((k * lane + lane // 4 * k * 3) % 8, known) == Int(0)
    assert simplify((k * lane) % 64, known) != Int(0)
    assert simplify((k * lane * 2) % 64, known) == Int(0)
    assert simplify((k * lane + 3) // 8 - lane * (k // 8), known) == Int(0)


unknown = Context()


@settings(max_examples=60)
@example(1, 152, 14, 14, 1)
@example(4, 152, 14, 14, 1)
@given(st.integers(1, 16), st.integers(-300, 300), st.integers(2, 20), st.integers(2, 20), st.integers(1, 3))
def test_three_digits_of_an_index_that_starts_anywhere_are_the_index(
    step: int, start: int, low: int, middle: int, scale: int
) -> None:
    """Rows, columns and the rest of a flat position, as an address takes them together again."""
    x, size = n * step + m * 8 + start, low * middle
    address = (x // size * size + x // low % middle * low + x % low) * scale
    high = x // size * middle + x // low % middle
    for found, want in ((address, x * scale), (high, x // low)):
        assert simplify(simplify(found, unknown) - simplify(want, unknown), unknown) == Int(0)


@settings(max_examples=40, deadline=None)
@given(anything(), st.data())
def test_statements_come_in_their_order_with_what_is_known_there(func: Func, data: st.DataObject) -> None:
    """Also where those alone are asked for that touch a buffer."""
    found = [*statements_known(func.body, Known.top(func))]
    assert [s for s, _ in found] == [*statements(func.body)]
    name = data.draw(st.sampled_from([a.buffer.name for a in func.args]))
    touching = [*statements_known(func.body, Known.top(func), lambda s: name in accessed_buffers(s))]
    assert [(s, x.here) for s, x in touching] == [(s, x.here) for s, x in found if name in accessed_buffers(s)]

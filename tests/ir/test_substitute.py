"""substitute: what an index or a condition is, where variables have the values that were put for them."""

import pytest
from hypothesis import given, strategies as st

from loopir.interp.interpret import cond_holds
from loopir.ir.grammar import Add, Cmp, If, Int, Loop, Mul, Var
from loopir.ir.layout.layouts import evaluate
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.free_vars import free_vars
from loopir.ir.traverse.substitute import keep_mentions, reduction_starts, refold, substitute, substitute_guard
from loopir.lower.pipeline import lower
from loopir.testing.generate.trees import conditions, indices

NAMES = ("i", "j", "n")
points = st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(-3, 70)))
environments = st.dictionaries(st.sampled_from(NAMES), indices(NAMES), max_size=3)


@given(indices(NAMES), environments, points)
def test_an_index(ix, env, at: dict[str, int]) -> None:
    new = substitute(ix, env)
    assert evaluate(new, at) == evaluate(ix, at | {v: evaluate(e, at) for v, e in env.items()})


@given(conditions(NAMES), environments, points)
def test_a_condition_at_once_for_all_variables(cond, env, at: dict[str, int]) -> None:
    try:
        expected = cond_holds(cond, at | {v: evaluate(e, at) for v, e in env.items()})
    except Exception:  # it asks a value of memory
        return
    assert cond_holds(substitute(cond, env), at) == expected


@given(indices(NAMES))
def test_what_nothing_is_put_for_is_the_same_object(ix) -> None:
    assert substitute(ix, {}) is ix
    assert substitute(ix, {"other": Int(1)}) is ix


def test_indices_fold_and_buffers_stay() -> None:
    i = Var("i")
    assert substitute(i * 4 + i, {"i": Int(3)}) == Int(15)
    assert refold(Add(Int(1), Int(2))) == Int(3)
    assert refold(Mul(i, Int(1))) == i
    func = parse('def f(n: "size", a: "inout float32[n]"):\n    for i in range(n):\n        a[i] = 1.0\n')
    (loop,) = func.body
    assert isinstance(loop, Loop)
    (store,) = loop.body
    new = substitute(store, {"i": i + 1, "n": Int(5)})
    assert new.buffer is store.buffer  # type: ignore[union-attr]
    assert new.at == (i + 1,)  # type: ignore[union-attr]


def test_a_guard_still_speaks_of_the_loop_that_is_folded() -> None:
    """A term of a guard that mentions none guards the start of the fold, too: folding may not drop the mention."""
    func = parse("""
def f(n: "size", a: "float32[9]", s: "out float32[1]"):
    for k in range(9):
        if k * n <= 8 and n > 1:
            s[0] = sum(a[k], over=k, init=0.0)
""")
    (loop,) = func.body
    assert isinstance(loop, Loop)
    (guard,) = loop.body
    assert isinstance(guard, If)
    assert reduction_starts(guard.then) == [frozenset({"k"})]
    zero = {"n": Int(0)}
    assert "k" in free_vars(substitute_guard(guard, zero))
    term = Cmp("<=", Var("k") * Var("n"), Int(8))
    assert "k" in free_vars(keep_mentions(term, zero, [frozenset({"k"})]))
    assert keep_mentions(term, zero, []) == substitute(term, zero)


def test_what_would_divide_by_none_never_runs_and_becomes_0() -> None:
    ix = (Var("i") % (Var("n") // 2)) + Var("i") // Var("n") + Var("i")
    assert substitute(ix, {"n": Int(0)}) == Var("i")
    kept = keep_mentions(Cmp("<=", Var("k") % Var("n"), Int(8)), {"n": Int(0)}, [frozenset({"k"})])
    assert free_vars(kept) == {"k"}


@pytest.mark.parametrize("kind", ["range", "unroll"])
def test_a_loop_of_one_iteration_around_one_of_none_is_lowered(kind: str) -> None:
    func = parse(f"""
def f(A: "float32[16]", B: "inout float32[16]"):
    for q in {kind}(1):
        for i in range((q + 1) // 2):
            B[i % ((q + 1) // 2)] = A[i // (q * 3)]
        B[q + 1] = A[q]
""")
    for target in ("cuda", "llvm"):
        lower(func, target)

"""Iterations that do nothing: what is proved of a statement with tests decided, and what counts all the same."""

import pytest

import loopir as lp
from loopir.analysis.dataflow.idle_iterations import busy_statement, guarding_tests
from loopir.ir.grammar import Cmp
from loopir.ir.traverse.walk import leaf_paths, loops


@pytest.mark.parametrize(
    ("lines", "busy"),
    [
        (["C[i] = sum(select(k <= i, A[i, k], 0.0) * B[k], over=k)"], None),
        (["C[i] = sum(exp(select(k <= i, A[i, k], -inf) - B[k]), over=k)"], None),
        (["C[i] = sum(exp(select(k <= i, A[i, k], -inf) * 2.0), over=k)"], None),
        (["C[i] = max(select(k <= i, A[i, k], -inf) + B[k], over=k)"], None),
        (["C[i] = max(select(k <= i, A[i, k], -inf) * B[k], over=k)"], "C"),  # of unknown sign
        (["C[i] = sum(select(k <= i, A[i, k], 0.0) + 1.0, over=k)"], "C"),
        (["C[i] = C[i] * exp(select(k <= i, A[i, k], 0.0))"], None),
        (["C[i] = C[i] + select(k <= i, A[i, k], 0.0)"], None),
        (["C[i] = C[i + 1] * select(k <= i, A[i, k], 1.0)"], "C"),
        (["C[k] = C[k] * select(k <= i, A[i, k], 1.0)"], None),
        (  # 0 where M is of something by then, and no number before
            ["M[i] = max(select(k <= i, A[i, k], -inf), over=k)",
             "C[i] = sum(exp(select(k <= i, A[i, k], -inf) - M[i]), over=k)"], "C",
        ),
        (
            ["M[i] = max(select(k <= i, A[i, k], -inf), over=k)",
             "C[i] = sum(exp(select(k <= i, A[i, k], -inf) - select(M[i] == -inf, 0.0, M[i])), over=k)"], None,
        ),
        (  # scaled where it is read, and so where it is tested
            ["M[i] = max(select(k <= i, A[i, k], -inf), over=k)",
             "C[i] = sum(exp(select(k <= i, A[i, k], -inf) - select(M[i] * 0.5 == -inf, 0.0, M[i] * 0.5)), over=k)"],
            None,
        ),
        (  # what is tested is another value
            ["M[i] = max(select(k <= i, A[i, k], -inf), over=k)",
             "C[i] = sum(exp(select(k <= i, A[i, k], -inf) - select(M[i] + B[k] == -inf, 0.0, M[i])), over=k)"], "C",
        ),
        (["T[0] = select(k <= i, A[i, k], 0.0)", "C[i] = sum(T[0], over=k)"], None),
        (["T[0] = select(k <= i, A[i, k], 0.0)", "T[0] = T[0] + 1.0", "C[i] = sum(T[0], over=k)"], "C"),
        (["if k <= i:", "    C[i] = A[i, k]"], None),
        (["if k <= i:", "    T[0] = 1.0", "C[i] = sum(T[0], over=k)"], "C"),
    ],
)  # fmt: skip
def test_what_is_left_of_an_iteration_whose_test_fails(lines: list[str], busy: str | None) -> None:
    inside = "\n".join(f"                {x}" for x in lines)
    f = lp.parse(f"""
def f(A: "float32[8, 8]", B: "float32[8]", C: "inout float32[9]", M: "inout float32[8]"):
    for i in range(8):
        for k in range(8):
            with alloc("float32[1]") as T:
{inside}
""")
    tests = [t for p in leaf_paths(f.body) for t, _ in guarding_tests(p.stmt)]
    tests += [c for p in leaf_paths(f.body) for c, _ in p.conds() if isinstance(c, Cmp)]
    (loop,) = (x for x in loops(f.body) if x.var == "k")
    assert busy_statement(loop, dict.fromkeys(tests, False)) == busy

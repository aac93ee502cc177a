"""Reads of what was written before in the same iteration, and writes that come between a value and its use."""

import pytest

import loopir as lp
from loopir.analysis.dataflow.reaching_writes import accesses_of, intervening_write, is_written_before
from loopir.analysis.dependence.access import statements_of

PRODUCER = """
def f(n: "size", A: "float32[n + 4, n + 4]", o: "out float32[n, n]"):
    with alloc("float32[n + 4, n + 4]") as t:
        for i in range(n):
            for j in range({wide}):
                t[i, j] = A[i, j]
            for k in range(n):
                o[i, k] = t[{read}]
"""


@pytest.mark.parametrize(
    ("wide", "read", "covered"),
    [
        ("n", "i, k", True),
        ("n", "i, n - 1 - k", True),
        ("n + 2", "i, k + 2", True),
        ("n", "i, k + 1", False),  # the last one is past what was written
        ("n - 1", "i, k", False),
        ("n", "i + 1, k", False),  # an earlier iteration's, or a later one's
        ("n", "k, i", False),
    ],
)
def test_all_that_is_read_was_written_in_this_iteration(wide: str, read: str, covered: bool) -> None:
    func = lp.parse(PRODUCER.format(wide=wide, read=read))
    (write,) = accesses_of(statements_of(func), {"t"}, write=True)
    (load,) = accesses_of(statements_of(func), {"t"}, write=False)
    assert is_written_before(func, load, write, ["i"]) is covered
    assert not is_written_before(func, write, load, ["i"])  # the read comes later
    assert not is_written_before(func, load, write, ["i", "j"])  # the reader is in no loop j


INLINED = """
def f(n: "size", A: "inout float32[n + 1]", o: "out float32[n]"):
    with alloc("float32[n]") as t:
        for i in range(n):
            t[i] = A[i] * 2.0
        for j in range({count}):
            A[j{shift}]: "A2" = 1.0
        for k in range(n):
            o[k] = t[k]
"""


@pytest.mark.parametrize(("count", "shift", "element"), [("n", "", (0,)), ("n", " + 1", (1,)), ("1", " + n", None)])
def test_the_first_operand_that_is_overwritten_before_a_use(
    count: str, shift: str, element: tuple[int, ...] | None
) -> None:
    found = intervening_write(lp.parse(INLINED.format(count=count, shift=shift)), "t", "t")
    if element is None:
        assert found is None
        return
    assert found is not None
    w = found.clash.witness
    assert (w.kind, w.buffer, w.element, found.label) == ("WAR", "A", element, "o")
    assert found.use == {"k": element[0]}


def test_nothing_comes_between_where_the_use_is_first() -> None:
    func = lp.parse("""
        def f(n: "size", A: "inout float32[n]", o: "out float32[n]"):
            with alloc("float32[n]") as t:
                for i in range(n):
                    t[i] = A[i]
                    o[i] = t[i]
                    A[i]: "A2" = 0.0
    """)
    assert intervening_write(func, "t", "t") is None
    assert intervening_write(func, "none", "t") is None

"""Buffers that a nest fills before another one reads them: by the shape of loops, so that sizes need not be affine."""

import pytest

from loopir.analysis.dataflow.coverage import is_filled_by_earlier_nest
from loopir.ir.parser.parse import parse

NEST = """
def f(n: "size", m: "size", A: "float32[n * m]", B: "out float32[n * m]"):
    with alloc("float32[n * m, 3]") as T:
        for i in range({rows}):
            for j in range({columns}):
                {store}
        for k in range(n * m):
            B[k] = T[k, 0]
"""


@pytest.mark.parametrize(
    ("rows", "columns", "store", "filled"),
    [
        ("n * m", "3", "T[i, j] = A[i]", True),
        ("n * m - 1", "3", "T[i, j] = A[i]", False),
        ("n * m", "2", "T[i, j] = A[i]", False),
        ("n * m", "3", "T[i, 2 - j] = A[i]", False),  # it is, and the solver is asked
        ("n * m", "3", "if i < n:\n                    T[i, j] = A[i]", False),
    ],
)
def test_a_nest_fills_what_it_has_a_loop_for(rows: str, columns: str, store: str, filled: bool) -> None:
    f = parse(NEST.format(rows=rows, columns=columns, store=store))
    assert is_filled_by_earlier_nest(f, "B", "T") == filled
    assert not is_filled_by_earlier_nest(f, "T", "T")

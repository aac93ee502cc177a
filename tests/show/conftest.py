"""A Schedule of which each kind of word is in the text."""

import pytest

from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule

SOURCE = """\
def f(n: "size", A: "float32[n, 8]", S: "out float32[n]"):
    assume(n >= 1)
    for i in parallel(n):
        for k in range(8):
            if i < n - 1 and k < 7:
                S[i] = sum(exp(A[i, k]) * 1e-05, over=k, init=0.0)
"""


@pytest.fixture
def s() -> Schedule:
    return Schedule(parse(SOURCE))

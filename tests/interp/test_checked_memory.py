"""Faults of accesses are told; what nothing has written may be copied and not used."""

from __future__ import annotations

import numpy as np
import pytest
from test_interpret import A, nest

import loopir as lp
import loopir.intrinsics


@pytest.mark.parametrize(
    ("held", "copy", "used"), [("float32", "T[j]", "U[k]"), ("int8", "int8(T[j])", "float32(U[k])")]
)
def test_what_nothing_has_written_may_be_copied_or_converted_and_not_used(held: str, copy: str, used: str) -> None:
    source = f"""
def f(a: "float32[4]", b: "out float32[4]"):
    with alloc("float32[4]") as T, alloc("{held}[4]") as U:
        for i in range(2):
            T[i] = a[i]
        for j in range(4):
            U[j] = {copy}
        for k in range(4):
            b[k] = {used.replace("k", "k % 2")} + 1.0
"""
    assert lp.interpret(lp.parse(source), [A[0]])["b"].tolist() == [1.0, 2.0, 1.0, 2.0]
    with pytest.raises(lp.InterpretError, match=r"reads U\[2\], which nothing has written"):
        lp.interpret(lp.parse(source.replace("k % 2", "k")), [A[0]])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    for i in range(n):\n        b[i] = a[i + 1]\n", r"statement b at \(i=3\) touches a\[4\]"),
        ("    for i in range(n - 1):\n        b[i] = a[i]\n", r"b\[3\] is never written"),
        (
            "    for i in range(n):\n        b[i] = b[i] + a[i]\n",
            r"b at \(i=0\) reads b\[0\], which nothing has written",
        ),
    ],
)
def test_faults_of_accesses_are_told(body: str, message: str) -> None:
    with pytest.raises(lp.InterpretError, match=message):
        lp.interpret(nest(body), [np.zeros(4, np.float32)])

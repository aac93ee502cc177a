"""Running folds in blocks: exact over the ring at every size, for every form, and refused where blocks would wait."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

import loopir as lp
from loopir.errors import ScheduleError
from loopir.schedule import Schedule

FORMS = {
    "from an element before": ("A: 'float32[n]', S: 'inout float32[n + 1]'", "n", "S[i + 1] = S[i] + A[i]"),
    "from a value": ("A: 'int32[n]', S: 'out int32[n]'", "n", "S[i] = maximum(A[i], select(1 <= i, S[i - 1], A[0]))"),
    "the other side first": ("A: 'float32[n]', S: 'out float32[n]'", "n", "S[i] = select(i < 1, 3.0, S[i - 1]) * A[i]"),
    "in place": ("S: 'inout float32[n + 1]'", "n", "S[i + 1] = S[i] + S[i + 1]"),
    "a fold in place": ("S: 'inout float32[n + 1]'", "n", "S[i + 1] += S[i]"),
    "a fold in place, of more": ("A: 'float32[n]', S: 'inout int32[n + 1]'", "n", "S[i + 1] += S[i] + int32(A[i])"),
    "a largest in place": ("S: 'inout float32[n + 2]'", "n", "S[i + 1] = max(S[i])"),
    "in place under a guard": ("S: 'inout int32[n]'", "n", "if i < n - 1:\n            S[i + 1] *= S[i]"),
    "reads ahead": ("S: 'inout float32[n + 3]'", "n", "S[i + 1] = S[i + 2] + S[i] + S[i + 3] * 2.0"),
    "several": ("A: 'float32[n]', S: 'inout float32[n + 2]'", "n", "S[i + 2] = A[i] * 2.0 + S[i + 1] + A[n - 1 - i]"),
    "fewer iterations": ("A: 'float32[n]', S: 'inout float32[n]'", "n - 2", "S[i + 1] = minimum(S[i], A[i])"),
    "a guard at the end": (
        "A: 'float32[n]', S: 'inout float32[n + 1]'", "n + 3", "if i < n - 1:\n            S[i + 1] = S[i] + A[i]",
    ),
    "another dimension": (
        "A: 'float32[n]', S: 'inout float32[n + 1, 3]'", "n", "S[i + 1, 2] = S[i, 2] + A[i]",
    ),
    "its length in memory": (
        "L: 'int32[1]', A: 'float32[9]', S: 'inout float32[9]'", "L[0] % 9",
        "S[i] = select(1 <= i, S[i - 1], 0.0) + A[i]",
    ),
    "bits": ("A: 'bool[n]', S: 'out bool[n]'", "n", "S[i] = select(1 <= i, S[i - 1], False) | A[i]"),
}  # fmt: skip


def program(name: str) -> Schedule:
    args, extent, body = FORMS[name]
    head = f'def f(n: "size", {args}):\n'.replace("'", '"')
    return Schedule(lp.parse(f"{head}    for i in range({extent}):\n        {body}\n"))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("factor", [1, 3, 4])
def test_blocks_store_what_the_row_stores(name: str, factor: int) -> None:
    s = program(name)
    made = s.scan_blocks("i", factor)
    for n in (0, 1, 2, 3, 7, 12, 13):
        assert_same(s.func, made.func, {"n": n})


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(FORMS)), st.integers(2, 4), st.integers(1, 3), st.integers(0, 20), st.booleans())
def test_blocks_are_cut_again_and_run_at_once(name: str, factor: int, inner: int, n: int, row: bool) -> None:
    s = program(name)
    made = s.scan_blocks("i", factor, names=("b", "k"))
    made = made if name == "reads ahead" else made.parallel("b")  # which blocks have not overwritten
    again = made.loops("S_ends")[-1] if row else "k"
    if row and factor == 4 and name == "its length in memory":  # two blocks, so that the row has one element
        assert made.why("scan_blocks", again, inner) is not None
    else:
        made = made.scan_blocks(again, inner)
    assert_same(s.func, made.func, {"n": n})


REFUSED = {
    "S[i + 2] = S[i + 1] + S[i]": r"S at \(i=0\) writes S\[2\], which S at \(i=2\) reads later \(at n=3\)",
    "S[i + 1] = S[i] * 2.0 + A[i]": r"S does not fold S\[i\], which the iteration before stored",
    "S[i + 1] = S[i] - A[i]": r"S does not fold S\[i\]",
    "S[i + 1] = S[i] + S[i]": r"S at \(i=0\) writes S\[1\], which S at \(i=1\) reads later",
    "S[n - i] = S[n - i + 1] + A[i]": "does not store elements of S one after the other along 'i'",
    "S[2] = S[1] + A[i]": "does not store elements of S one after the other",
    "S[0] = sum(A[i], over=i)": "'i' holds a fold",
    "if 3 < i:\n            S[i + 1] = S[i] + A[i]": "may fail in one iteration of 'i' and hold later",
    "S[i + 1] = select(2 <= i, S[i], 0.0) + A[i]": r"S does not fold S\[i\]",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_no_running_fold_is_refused(body: str) -> None:
    s = Schedule(
        lp.parse(
            f'def f(n: "size", A: "float32[n]", S: "inout float32[n + 2]"):\n    for i in range(n):\n        {body}\n'
        )
    )
    with pytest.raises(ScheduleError, match=REFUSED[body]):
        s.scan_blocks("i", 4)


@pytest.mark.parametrize("op", ["&", "|"])
def test_integers_fold_bit_by_bit(op: str) -> None:
    s = Schedule(
        lp.parse(
            f"""
def f(n: "size", A: "int32[n]", S: "inout int32[n + 1]"):
    for i in range(n):
        S[i + 1] = S[i] {op} A[i]
"""
        )
    )
    a = np.array([7, 6, 14, 4, 12, -1, 36, 5, 8], np.int32)
    want, got = np.full(10, 255, np.int32), np.full(10, 255, np.int32)
    s.build("interpret")(a, want)
    s.scan_blocks("i", 4).build("interpret")(a, got)
    assert np.array_equal(got, want)

"""cache_write of a store that reads its own buffer: taken where all that it reads is in the copy, or nothing is."""

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same

import loopir as lp
from loopir.errors import ScheduleError
from loopir.schedule import Schedule

NEST = """
def f(n: "size", A: "float32[3, 16]", S: "inout float32[3, 24, 24]"):
    for r in range(3):
        for i in range({extent}):
            for j in range({inner}):
                if {guard}:
                    S[r, {write}] = (S[r, {read}] if {cond} else 2.0) * A[r, i]
"""
INDICES = ("i + 2, j + 2", "i + 2, j + 1", "i + 1, j + 2", "i, j + 2", "j + 2, i + 2", "i + 2, 2", "i + 3, j + 2",
           "j + i, 0", "i * 2, j", "i * 2 + 1, j")  # fmt: skip
CONDS = ("1 <= j", "1 <= i", "2 <= i", "1 <= i + j", "i < j", "0 <= i", "j < 2")
GUARDS = ("0 <= i", "j < n - 1", "1 <= i", "i + j < n")


def found_in_the_copy(
    write: str, read: str, cond: str, guard: str, extent: str, inner: str, at: str | None
) -> tuple[bool, bool]:
    """Whether some read finds its value in the copy, and whether some read finds it elsewhere, at any size that fits.

    One value of `r` stands for all: both indices begin with it.
    """
    domain = f"((i, j) for i in range({extent}) for j in range({inner}) if {guard})"
    nest = eval(f"lambda n: [(i, ({write}), ({read}) if {cond} else None) for i, j in {domain}]")
    here, elsewhere = False, False
    for n in range(24):
        accesses = nest(n)
        if any(i > 15 or max(stored + (read_ or ())) > 23 for i, stored, read_ in accesses):
            continue  # no such call: an access is out of bounds
        written: set[tuple[int, tuple[int, int]]] = set()
        for i, stored, read_ in accesses:
            copy = i if at == "i" else 0
            if read_ is not None:
                found = (copy, read_) in written
                here, elsewhere = here or found, elsewhere or not found
            written.add((copy, stored))
    return here, elsewhere


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(INDICES), st.sampled_from(INDICES), st.sampled_from(CONDS), st.sampled_from(GUARDS),
    st.sampled_from(("n", "4", "n - 1")), st.sampled_from(("3", "i + 1", "n")), st.sampled_from(("r", "i", None)),
)  # fmt: skip
def test_taken_exactly_where_all_or_nothing_is_in_the_copy(
    write: str, read: str, cond: str, guard: str, extent: str, inner: str, at: str | None
) -> None:
    s = Schedule(lp.parse(NEST.format(write=write, read=read, cond=cond, guard=guard, extent=extent, inner=inner)))
    here, elsewhere = found_in_the_copy(write, read, cond, guard, extent, inner, at)
    error = s.why("cache_write", "S", "local", at)
    assert (error is not None) == (here and elsewhere), error
    if error is None:
        made = s.cache_write("S", "local", at)
        for n in range(6):
            assert_same(s.func, made.func, {"n": n})


def test_what_another_reads_is_still_refused() -> None:
    s = Schedule(
        lp.parse("""
def f(n: "size", A: "float32[n]", S: "inout float32[n + 1]", B: "out float32[n]"):
    for r in range(1):
        for i in range(n):
            S[i + 1] = select(1 <= i, S[i], 1.0) * A[i]
            B[i] = S[i + 1]
""")
    )
    with pytest.raises(ScheduleError, match=r"S at \(r=0, i=0\) writes S\[1\], which B at \(r=0, i=0\) reads later"):
        s.cache_write("S", "local", "r")

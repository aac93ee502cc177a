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


def mixed_reads(
    write: str, read: str, cond: str, guard: str, extent: str, inner: str, at: str | None
) -> tuple[bool, bool]:
    """Whether some read finds its value in the copy while another finds its own elsewhere: of all reads, of live ones.

    A read is live where what it makes reaches the end of a call whose accesses are all in bounds: a value that is
    overwritten unread may come from anywhere. One value of `r` stands for all: both indices begin with it.
    """
    domain = f"((i, j) for i in range({extent}) for j in range({inner}) if {guard})"
    nest = eval(f"lambda n: [(i, ({write}), ({read}) if {cond} else None) for i, j in {domain}]")
    of_all, of_live = set[bool](), set[bool]()
    for n in range(24):
        accesses = nest(n)
        last: dict[tuple[int, int], int] = {}
        made_by: list[int | None] = []
        in_copy: list[bool | None] = []
        for step, (i, stored, read_) in enumerate(accesses):
            made = last.get(read_) if read_ is not None else None
            made_by.append(made)
            in_copy.append(None if read_ is None else made is not None and (at != "i" or accesses[made][0] == i))
            last[stored] = step
        of_all |= {found for found in in_copy if found is not None}
        if all(i <= 15 and max(stored + (read_ or ())) <= 23 for i, stored, read_ in accesses):
            live, reached = set[int](), list(last.values())
            while reached:
                step = reached.pop()
                if step not in live:
                    live.add(step)
                    reached += [made for made in (made_by[step],) if made is not None]
            of_live |= {found for step in live if (found := in_copy[step]) is not None}
    return len(of_all) == 2, len(of_live) == 2


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(INDICES), st.sampled_from(INDICES), st.sampled_from(CONDS), st.sampled_from(GUARDS),
    st.sampled_from(("n", "4", "n - 1")), st.sampled_from(("3", "i + 1", "n")), st.sampled_from(("r", "i", None)),
)  # fmt: skip
def test_taken_exactly_where_all_or_nothing_is_in_the_copy(
    write: str, read: str, cond: str, guard: str, extent: str, inner: str, at: str | None
) -> None:
    s = Schedule(lp.parse(NEST.format(write=write, read=read, cond=cond, guard=guard, extent=extent, inner=inner)))
    of_all, of_live = mixed_reads(write, read, cond, guard, extent, inner, at)
    error = s.why("cache_write", "S", "local", at)
    assert of_live <= (error is not None) <= of_all, error
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


def test_what_a_copy_would_overwrite_is_named_by_its_element() -> None:
    """The copy is made in iterations that run the other branch, so that these two are no pair of accesses."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[16]", X: "inout float32[16]"):
    for i in range(2):
        for q in range(1):
            for k in range(2):
                if k + i < 2 and q <= i:
                    X[q] = sum(A[i + q + k], over=(i, k), label="s1")
                else:
                    X[0] = sum(A[i + q + k], over=(i, q, k), label="s2")
""")
    )
    error = s.why("cache_write", "s2", "shared", "k", name="T")
    assert error is not None
    assert str(error).splitlines()[0].endswith("s1 writes X[0], which s2 would be copied over, in the same nest")
    assert error.witness is None

"""The tails of split, where the docstring's examples do not reach: what is provable, what is not, what is refused."""

import pytest
from meaning import assert_same

from loopir.errors import ScheduleError
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule

COPY = """
def copy(n: "size", A: "float32[n]", B: "out float32[n]"):
    {assume}
    for i in range(n):
        B[i] = A[i]
"""


def copy(assume: str = "assume(n >= 0)") -> Schedule:
    return Schedule(parse(COPY.format(assume=assume)))


@pytest.mark.parametrize("tail", ["guard", "exact", "peel", "shift_inwards", "round_up"])
def test_no_tail_where_the_size_is_known_to_divide(tail: str) -> None:
    s = copy("assume(n % 12 == 0)").split("i", 4, tail=tail)
    assert s.loops() == ("i_o", "i_i")
    assert "if" not in str(s)
    assert "min" not in str(s)


@pytest.mark.parametrize(("factor", "divides"), [(1, True), (2, True), (6, True), (5, False), (24, False)])
def test_exact_takes_what_divides(factor: int, divides: bool) -> None:
    why = copy("assume(n % 12 == 0)").why("split", "i", factor, tail="exact")
    assert (why is None) is divides
    if why is not None:
        assert f"{factor} is not known to divide n" in str(why)
        assert f"assume(n % {factor} == 0)" in str(why)


def test_shift_inwards_takes_a_size_known_to_be_large_enough() -> None:
    assert copy("assume(n >= 4)").why("split", "i", 4, tail="shift_inwards") is None
    s = copy("assume(n >= 4)").split("i", 4, tail="shift_inwards")
    for n in range(4, 10):
        assert_same(s.undo().func, s.func, {"n": n})
    assert "assume(n >= 4)" in str(copy("assume(n >= 3)").why("split", "i", 4, tail="shift_inwards"))


def test_shift_inwards_takes_what_lives_inside() -> None:
    s = Schedule(parse("""
def f(A: "float32[7]", B: "out float32[7]"):
    for i in range(7):
        with alloc("float32[1]") as T:
            T[0] = A[i]
            B[i] = T[0] * T[0]
"""))  # fmt: skip
    after = s.split("i", 4, tail="shift_inwards")
    assert_same(s.func, after.func, {})


def test_shift_inwards_looks_at_what_starts_a_fold() -> None:
    """The start of the fold over k reads X outside of k."""
    s = Schedule(
        parse("""
            def f(A: "float32[4]", X: "inout float32[8]", Z: "inout float32[8]"):
                for i in range(1):
                    for k in range(4):
                        Z[i] = max(A[k], over=k, init=X[i])
                        X[i + k] = A[k]
        """)
    )
    with pytest.raises(ScheduleError, match="read elements of X before they are written"):
        s.split("k", 3, tail="shift_inwards")


def test_shift_inwards_refuses_what_it_would_do_twice() -> None:
    s = Schedule(parse("""
def f(A: "inout float32[7]", B: "inout float32[7]"):
    for i in range(7):
        A[i] = A[i] * 2.0
    for j in range(7):
        B[j] = sum(A[j], over=())
"""))  # fmt: skip
    with pytest.raises(
        ScheduleError, match="repeats iterations of 'i', which read elements of A before they are written"
    ):
        s.split("i", 4, tail="shift_inwards")
    with pytest.raises(ScheduleError, match="repeats iterations of 'j', and B would fold them in twice"):
        s.split("j", 4, tail="shift_inwards")


@pytest.mark.parametrize("factor", [0, -3])
def test_a_factor_is_at_least_one(factor: int) -> None:
    with pytest.raises(ScheduleError, match=f"a tile of {factor} iterations; the factor has to be at least 1"):
        copy().split("i", factor)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("A", "x"), "the name 'A' is taken"),
        (("x", "x"), "the name 'x' is taken"),
        (("x", "for"), "'for' is no usable name"),
        (("x", "1"), "'1' is no usable name"),
        (("n", "x"), "the name 'n' is taken"),
    ],
)
def test_chosen_names_have_to_be_free(names: tuple[str, str], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        copy().split("i", 4, names=names)


def test_the_old_name_may_be_used_again_and_made_ones_are_fresh() -> None:
    assert copy().split("i", 4, names=("i", "ii")).loops() == ("i", "ii")
    assert copy().split("i", 4).rename("i_o", "i").split("i", 2).loops() == ("i_o", "i_i_1", "i_i")


def test_a_loop_that_has_a_kind_stays_whole() -> None:
    s = copy().split("i", 4).unroll("i_i")
    with pytest.raises(ScheduleError, match="loop 'i_i' is unrolled already"):
        s.split("i_i", 2)


def test_peel_copies_under_fresh_names() -> None:
    s = Schedule(parse("""
def f(n: "size", A: "float32[n, 4]", B: "out float32[n]"):
    for i in range(n):
        with alloc("float32[1]") as T:
            for k in range(4):
                T[0] = sum(A[i, k], over=k, init=0.0)
            B[i] = T[0]
"""))  # fmt: skip
    after = s.split("i", 3, tail="peel")
    assert after.loops() == ("i_o", "i_i", "k", "i_t", "k_1")
    assert after.stages == ("T", "B", "T_1", "B_1")
    assert after.buffers == ("A", "B", "T", "T_1")
    for n in range(8):
        assert_same(s.func, after.func, {"n": n})


def test_fuse_undoes_a_split() -> None:
    s = copy("assume(n % 4 == 0)")
    assert s.split("i", 4).fuse("i_o", "i_i", name="i").func == s.func


def test_a_bound_that_the_loop_changes_is_refused() -> None:
    s = Schedule(parse("""
def f(ix: "inout int32[2]"):
    for i in range(ix[0]):
        ix[0] = 7
"""))  # fmt: skip
    with pytest.raises(ScheduleError, match="how often 'i' runs is read from ix, which the loop writes"):
        s.split("i", 2)


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        ("P[i] = A[i]; Q[i] = P[i]", True),
        ("P[i] = A[i]; Q[i] = P[i + 1]", False),
        ("P[i + 1] = A[i]; Q[i] = P[i]", True),
        ("Q[i] = P[i]; P[i] = A[i]", False),
        ("P[i] = P[i] * 2.0", False),
        ("P[i + 1] = P[i] * 2.0", True),
        ("P[i] = P[i + 1] * 2.0", False),
        ("P[i] = P[i + 9] * 2.0", True),
        ("P[0] = A[i]", True),
        ("P[0] = A[i]; Q[i] = P[0]", True),
        ("Q[i] = P[0]; P[0] = A[i]", False),
    ],
)
def test_iterations_are_repeated_if_nothing_that_they_read_is_written_later(body: str, taken: bool) -> None:
    lines = "\n        ".join(body.split("; "))
    s = Schedule(
        parse(f"""
def f(A: "float32[9]", P: "inout float32[19]", Q: "inout float32[9]"):
    for i in range(9):
        {lines}
""")
    )
    error = s.why("split", "i", 4, tail="shift_inwards")
    assert (error is None) == taken, error
    assert error is None or error.witness is not None
    if taken:
        assert_same(s.func, s.split("i", 4, tail="shift_inwards").func, {})

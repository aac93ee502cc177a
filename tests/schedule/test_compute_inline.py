"""compute_inline: what is refused, and where a value is read that is no plain load."""

import pytest
from meaning import assert_same

from loopir.errors import ScheduleError
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule


def nest(body: str, scope: str = 'A: "inout float32[6]", B: "inout float32[6]"') -> Schedule:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return Schedule(parse(f"def f({scope}):\n{lines}\n"))


def test_a_refusal_beside_what_is_read_tells_two_iterations() -> None:
    first = """
def f(n: "size", A: "inout float32[n]", B: "out float32[n]"):
    with alloc("float32[n]") as T:
        for i in range(n):
            T[i] = A[i] * 2.0
            A[i] = 0.0
        for j in range(n):
            B[n - 1 - j] = T[n - 1 - j] + 1.0
"""
    error = Schedule(parse(first)).why("reverse_compute_inline", "B")
    told = "with B beside T, A, which T is computed from, is written by A before B at (j=0) reads T"
    assert error is not None
    assert error.reason == told
    assert str(error.witness) == "T at (i=0) reads A[0], which A at (i=0) writes later (at n=1)"
    inside = """
def g(B: "out float32[8]"):
    with alloc("float32[8]") as T:
        for i in range(8):
            with alloc("float32[1]") as S:
                S[0] = 2.0
                T[i] = S[0]
        for j in range(8):
            B[j] = T[j] + 1.0
"""
    error = Schedule(parse(inside)).why("reverse_compute_inline", "B")
    assert error is not None
    assert error.reason.startswith("with B beside T, S, which T is computed from, is gone")
    assert str(error.witness) == "T at (i=0) writes T[0], which B at (j=0) reads later"


def test_values_in_conditions_indices_and_extents_are_read_inline() -> None:
    s = nest("""
with alloc("int32[6]") as T:
    for i in range(6):
        T[i] = ix[5 - i]
    for j in range(6):
        for k in range(T[j]):
            if T[k] < 3:
                B[j] = A[T[k]] + B[j]
""", 'A: "float32[6]", ix: "int32[6]", B: "inout float32[6]"')  # fmt: skip
    after = s.compute_inline("T")
    assert after.buffers == ("A", "ix", "B")
    assert "range(ix[5 - j])" in str(after)
    assert_same(s.func, after.func, {})


def test_a_chain_goes_one_by_one() -> None:
    s = nest("""
with alloc("float32[6]") as T, alloc("float32[6]") as U:
    for i in range(6):
        T[i] = A[i] + 1.0
    for j in range(6):
        U[j] = T[5 - j] * 2.0
    for k in range(6):
        B[k] = U[k] + T[k]
""")  # fmt: skip
    one, other = s.compute_inline("T").compute_inline("U"), s.compute_inline("U").compute_inline("T")
    assert one.func == other.func
    assert one.stages == ("B",)
    assert_same(s.func, one.func, {})


def test_a_stage_in_a_time_loop() -> None:
    s = nest("""
for t in range(3):
    with alloc("float32[6]") as T:
        for i in range(6):
            T[i] = A[i] + B[t]
        for j in range(5):
            B[j] = T[j] * T[j + 1]
""")  # fmt: skip
    with pytest.raises(ScheduleError, match="B, which T is computed from, is written by B"):
        s.compute_inline("T")


ACCEPTED = {
    "under a condition": """
with alloc("float32[6]") as T:
    for i in range(6):
        if i < 5:
            T[i] = A[i]
    for j in range(5):
        B[j] = T[j]
""",
    "the diagonal": """
with alloc("float32[6, 6]") as T:
    for i in range(6):
        T[i, i] = A[i]
    for j in range(6):
        B[j] = T[j, j]
""",
    "reversed": """
with alloc("float32[6]") as T:
    for i in range(6):
        T[5 - i] = A[i]
    for j in range(6):
        B[j] = T[j]
""",
    "a part of it": """
with alloc("float32[8]") as T:
    for i in range(6):
        T[i] = A[i]
    for j in range(6):
        B[j] = T[j]
""",
    "split, and its loops exchanged": """
with alloc("float32[6]") as T:
    for x in range(2):
        for y in range(3):
            T[y * 2 + x] = A[y * 2 + x] * 2.0
    for j in range(6):
        B[j] = T[5 - j]
""",
    "strided": """
with alloc("float32[6]") as T:
    for i in range(3):
        T[2 * i + 1] = A[i] * 2.0
    for j in range(3):
        B[j] = T[5 - 2 * j]
""",
    "inputs that are written where it is read no more": """
with alloc("float32[6]") as T:
    for i in range(6):
        T[i] = A[i] * 2.0
    for j in range(6):
        B[j] = T[j]
        A[j] = B[j] + 1.0
""",
    "inputs that are written elsewhere": """
with alloc("float32[3]") as T:
    for i in range(3):
        T[i] = A[i] * 2.0
    for j in range(3):
        A[j + 3] = B[j]
    for k in range(3):
        B[k] = T[2 - k]
""",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_accepted(name: str) -> None:
    s = nest(ACCEPTED[name])
    after = s.compute_inline("T")
    assert after.buffers == ("A", "B")
    assert_same(s.func, after.func, {})


REFUSED = {
    "T is a reduction": """
with alloc("float32[6]") as T:
    for i in range(6):
        for k in range(6):
            T[i] = sum(A[k], over=k, init=0.0)
    for j in range(6):
        B[j] = T[j]
""",
    "T is written by T and T_1": """
with alloc("float32[6]") as T:
    for i in range(6):
        T[i] = A[i]
    T[0] = 0.0
    for j in range(6):
        B[j] = T[j]
""",
    r"T stores T\[i\], which does not tell t": """
with alloc("float32[6]") as T:
    for t in range(2):
        for i in range(6):
            T[i] = A[t]
    for j in range(6):
        B[j] = T[j]
""",
    "U, which T is computed from, is gone where T is read": """
with alloc("float32[6]") as T:
    with alloc("float32[6]") as U:
        for i in range(6):
            U[i] = A[i]
        for j in range(6):
            T[j] = U[j]
    for k in range(6):
        B[k] = T[k]
""",
    r"A, which T is computed from, is written by A before B at \(j=0\) reads T": """
with alloc("float32[6]") as T:
    for i in range(6):
        A[5 - i] = 1.0
        T[i] = A[i]
    for j in range(6):
        B[j] = T[j]
""",
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        nest(REFUSED[message]).compute_inline("T")


def test_an_argument_is_refused() -> None:
    with pytest.raises(ScheduleError, match="B is an argument of 'f'"):
        nest("for i in range(6):\n    B[i] = A[i]").compute_inline("B")


def test_what_is_computed_again_finds_memory_that_stood_around_the_first_alone() -> None:
    s = Schedule(
        parse("""
def folded(n: "size", A: "float32[n]", B: "out float32[n]"):
    with alloc("float32[n]") as T:
        with alloc("float32[n]", scope="shared") as C:
            for x in range(n):
                C[x] = A[x]
            for i in range(n):
                T[i] = C[i] + 2.0
        for j in range(n):
            B[j] = T[j] * T[n - 1 - j]
""")
    )
    made = s.reverse_compute_inline("B")
    assert "T" not in made.buffers
    for n in (0, 1, 4, 5):
        assert_same(s.func, made.func, {"n": n})


TAIL = """
def tails(n: "size", A: "int32[n]", Y: "inout int32[n]"):
    for k in range((n + 1) // 2):
        for h in range(2):
            with alloc("int32[1]") as X:
                for x in range(1):
                    if k * 2 + h + x < n:
                        X[x] = {value}
                with alloc("int32[1]") as copy:
                    {first}
                    if k * 2 + h < n:
                        {then}
                        Y[k * 2 + h] = copy[0]
"""


@pytest.mark.parametrize("value", ["A[k * 2 + h + x]", "A[k * 2 + h + x] + 1", "int32(7 // (n - k * 2 - h))"])
def test_a_copy_of_what_is_not_stored_is_not_computed(value: str) -> None:
    """To copy an element that nothing has written is no use of it; to compute it reads past the end."""
    error = Schedule(parse(TAIL.format(value=value, first="copy[0] = X[0]", then="pass"))).why("compute_inline", "X")
    if value.startswith("A"):
        assert error is not None
        assert error.reason == "copy copies elements of X that X may not have stored, and would compute them"
    s = Schedule(parse(TAIL.format(value=value, first="pass", then="copy[0] = X[0]")))
    for n in (1, 2, 3):
        assert_same(s.func, s.compute_inline("X").func, {"n": n})

"""s.validate(): what it proves of schedules that people write, what it cannot and says so; nothing wrong is proved."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
from loopir.analysis.dataflow.equivalence import validate
from loopir.errors import ScheduleError
from loopir.testing.generate import nests
from loopir.testing.generate.candidate_steps import TABLE, random_candidate_steps
from loopir.testing.generate.tiny import tiny
from loopir.testing.mutants import MUTANTS, hunted

n = lp.symbol("n")


def product() -> lp.Schedule:
    return lp.Schedule(nests.matmul(n, n, n))


def blur() -> lp.Schedule:
    return lp.Schedule(nests.blur(n, n))


PROVED = {
    "nothing": product,
    "tiles": lambda: product().split("i", 8).split("k", 3).reorder("k_o", "i_o", "i_i"),
    "parts": lambda: product().split("k", 4, tail="peel").peel("i", first=1),
    "partial sums": lambda: product().split("k", 4).rfactor("C", "k_i"),
    "other partial sums": lambda: product().split("k", 4).rfactor("C", "k_o").parallel("i"),
    "a copy": lambda: product().split("i", 8).cache_read("C", "A", "local", at="i_o"),
    "a result of its own": lambda: product().cache_write("C", "local", at="i"),
    "first values apart": lambda: product().decompose_reduction("C", "i"),
    "inlined": lambda: blur().compute_inline("h"),
    "placed": lambda: blur().compute_at("h", "i_1"),
    "a sliding window": lambda: blur().compute_at("h", "i_1", store="root").fold_storage("h", 0, 3),
}


@pytest.mark.parametrize("name", PROVED)
def test_schedules_are_proved_for_all_sizes(name: str) -> None:
    found = PROVED[name]().validate()
    assert found, str(found)
    assert found.unproved == ()
    assert found.wrong is None
    assert str(found).startswith("proved: ")


SWEEP = """
def sweep(n: "size", m: "size", a: "inout float32[n, m]"):
    for i in range(n - 1):
        for j in range(m - 1):
            a[i + 1, j] = a[i, j + 1] + 1.0
"""
TURNED = """
def sweep(n: "size", m: "size", a: "inout float32[n, m]"):
    for j in range(m - 1):
        for i in range(n - 1):
            a[i + 1, j] = a[i, j + 1] + 1.0
"""


def test_values_that_depend_on_earlier_ones_are_proved() -> None:
    assert lp.Schedule(lp.parse(SWEEP)).skew("i", "j").validate()


def test_a_fold_of_its_own_earlier_results_has_no_end_of_partial_ones() -> None:
    s = lp.Schedule(
        lp.parse("""
            def f(n: "size", X: "inout float32[n + 2]", Y: "inout float32[n]"):
                for i in range(n):
                    for j in range(n - 1):
                        X[i] = sum(X[j + 1], over=j, init=0.0)
                for k in range(n):
                    Y[k] = X[k]
        """)
    )
    assert s.split("k", 2).validate().wrong is None


def test_another_order_is_wrong_and_shown() -> None:
    found = validate(lp.parse(SWEEP), lp.parse(TURNED))
    assert not found
    assert found.proved == ()
    assert found.wrong is not None
    assert found.wrong.buffer == "a"
    assert "wrong: a[" in str(found)
    assert "comes from other values than before (at n=" in str(found)


def test_what_memory_decides_is_not_proved_and_told() -> None:
    gather = lp.parse("""
def gather(n: "size", A: "float32[n]", ix: "int32[n]", B: "out float32[n]"):
    for i in range(n):
        B[i] = A[ix[i]]
""")
    found = lp.Schedule(gather).split("i", 4).validate()
    assert not found
    assert found.wrong is None
    assert found.unproved[0][0] == "B"
    assert "is read from memory" in found.unproved[0][1]


PLAIN = """
def plain(n: "size", m: "size", A: "float32[n, m]", B: "out float32[n, m]"):
    for i in range(n):
        for j in range(m):
            B[i, j] = A[i, j] * 2.0
"""


def test_fused_loops_are_proved_as_the_two_that_they_were() -> None:
    s = lp.Schedule(lp.parse(PLAIN)).fuse("i", "j")
    assert s.validate()
    assert validate(s.func, lp.parse(PLAIN))
    assert not validate(
        lp.parse(PLAIN), lp.parse(str(s).replace("= A[i_j // m, i_j % m]", "= A[i_j // m, m - 1 - i_j % m]"))
    )


def test_products_of_sizes_are_not_proved_and_told() -> None:
    found = lp.Schedule(lp.parse(PLAIN)).fuse("i", "j").split("i_j", 4).validate()
    assert found.wrong is None
    assert "is no affine index" in found.unproved[0][1]


PADDED = """
def padded(A: "float32[13]", B: "float32[13]", C: "out float32[1]"):
    for o in range(4):
        with alloc("float32[4]") as T, alloc("float32[4]") as U:
            for x in range(4):
                T[x] = select(o * 4 + x < 13, A[o * 4 + x], {first})
            for y in range(4):
                if o * 4 + y < 13:
                    U[y] = B[o * 4 + y]
                else:
                    U[y]: "rest" = {second}
            for i in range(4):
                C[0] = sum(T[i] * U[i], over=(o, i), init=0.0)
"""
DOT = """
def padded(A: "float32[13]", B: "float32[13]", C: "out float32[1]"):
    for i in range(13):
        C[0] = sum(A[i] * B[i], over=i, init=0.0)
"""


@pytest.mark.parametrize(("first", "second"), [("0.0", "0.0"), ("0.0", "2.0"), ("1.0", "0.0")])
def test_zeros_that_padding_folds_in_are_nothing(first: str, second: str) -> None:
    assert validate(lp.parse(DOT), lp.parse(PADDED.format(first=first, second=second)))


@pytest.mark.parametrize(("first", "second"), [("1.0", "1.0"), ("0.5", "2.0")])
def test_what_is_no_zero_is_not_left_out(first: str, second: str) -> None:
    assert not validate(lp.parse(DOT), lp.parse(PADDED.format(first=first, second=second)))


TIME = """
def steps(T: "size", n: "size", a: "inout float32[n + 2]", b: "inout float32[n + 2]"):
    for t in range(T):
        for i in range(n):
            b[i + 1] = a[i] + a[i + 2]
        for x in range(n):
            a[x + 1] = b[x + 1]
"""


def test_a_time_loop_with_borders_is_proved() -> None:
    assert lp.Schedule(lp.parse(TIME)).split("i", 4).split("x", 8).validate()
    assert not validate(lp.parse(TIME), lp.parse(TIME.replace("a[i + 2]", "a[i + 1]")))


SCAN = """
def scan(n: "size", A: "float32[n]", B: "out float32[n]"):
    for i in range(n):
        B[i] = select(1 <= i, B[i - 1], 0.0) + A[i]
"""
BLOCKS = """
def scan(n: "size", A: "float32[n]", B: "out float32[n]"):
    with alloc("float32[(n + 7) // 8]") as S, alloc("float32[(n + 7) // 8]") as E:
        for b in range((n + 7) // 8 - 1):
            for k in range(8):
                S[b] = sum(A[b * 8 + k], over=k, init=0.0)
        for c in range((n + 7) // 8 - 1):
            E[c] = select(1 <= c, E[c - 1], 0.0) + S[c]
        for d in range((n + 7) // 8):
            for w in range(8):
                if d * 8 + w < n:
                    B[d * 8 + w] = select(1 <= w, B[d * 8 + w - 1], select(1 <= d, E[d - 1], 0.0)) + A[d * 8 + w]
"""
WRONG_BLOCKS = {
    "a block's last element is left out": ("for k in range(8)", "for k in range(7)"),
    "a block's first element is folded in twice": ("0.0) + S[c]", "0.0) + S[c] + A[c * 8]"),
    "a block goes on from the one before twice": ("E[d - 1], 0.0)", "E[d - 1] + E[d - 1], 0.0)"),
    "a block goes on from itself": ("select(1 <= d, E[d - 1]", "select(d <= (n + 7) // 8 - 2, E[d]"),
    "blocks start at one": ("E[c - 1], 0.0)", "E[c - 1], 1.0)"),
    "the greatest of a block": ("sum(A[b * 8 + k], over=k, init=0.0)", "max(A[b * 8 + k], over=k, init=0.0)"),
    "a product instead of a sum": ("0.0) + S[c]", "0.0) * S[c]"),
    "only the block before": ("select(1 <= c, E[c - 1], 0.0) + S[c]", "S[c] + 0.0"),
}


def test_a_running_fold_in_blocks_is_proved_for_all_sizes() -> None:
    assert validate(lp.parse(SCAN), lp.parse(BLOCKS))
    s = lp.Schedule(lp.parse(SCAN)).scan_blocks("i", 8)
    assert s.validate()
    greatest = SCAN.replace("select(1 <= i, B[i - 1], 0.0) + A[i]", "maximum(select(1 <= i, B[i - 1], A[i]), A[i])")
    assert lp.Schedule(lp.parse(greatest)).split("i", 4).validate()


@pytest.mark.parametrize("name", WRONG_BLOCKS)
def test_a_wrong_scan_is_not_proved(name: str) -> None:
    old, new = WRONG_BLOCKS[name]
    assert BLOCKS.count(old) == 1
    found = validate(lp.parse(SCAN), lp.parse(BLOCKS.replace(old, new)))
    assert not found
    assert found.proved == ()


PARTS = """
def total(A: "float32[4]", C: "inout float32[1]"):
    with alloc("float32[1]") as T:
        for i in range(4):
            T[0] = sum(A[i], over=i, init=0.0)
        C[0] = sum(T[0])
        {again}
"""
WHOLE = """
def total(A: "float32[4]", C: "inout float32[1]"):
    for i in range(4):
        C[0] = sum(A[i], over=i)
"""


def test_a_partial_result_that_is_folded_in_twice_is_not_proved() -> None:
    assert validate(lp.parse(WHOLE), lp.parse(PARTS.format(again="")))
    twice = validate(lp.parse(WHOLE), lp.parse(PARTS.format(again='C[0]: "again" = sum(T[0])')))
    assert not twice
    assert twice.wrong is not None


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_step_that_is_accepted_is_called_wrong(data: st.DataObject) -> None:
    func = data.draw(tiny(depth=2))
    s = data.draw(random_candidate_steps(func, sorted(set(TABLE) - {"wavefront"}), most=2))
    assert s.validate().wrong is None


SOON = {"no WAW": 2}
"""Seeds from which a fault shows within few examples."""


@pytest.mark.parametrize(
    "name", ["no WAR", "no WAW", "one too many", "init lost", "starts in every tile", "half a guard"]
)
def test_what_a_faulty_rule_lets_through_is_not_proved(name: str) -> None:
    """The proof shares no rule with the steps: what a fault in these brings about, it does not prove."""
    (mutant,) = (m for m in MUTANTS if m.name == name)
    found = hunted(mutant, seed=SOON.get(name, 0), patience=0.2).found
    assert found is not None
    wrong = found.wrong
    if wrong.after is not None:
        assert not validate(wrong.before, wrong.after), f"{wrong}"


def test_it_is_no_step() -> None:
    s = product()
    s.validate()
    with pytest.raises(ScheduleError):
        s.undo()

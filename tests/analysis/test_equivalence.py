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

"""What is suggested is legal, runs when pasted, and is the better the more a person would like it."""

import pytest

import loopir as lp


@pytest.fixture(autouse=True)
def _any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All moves are tried, however slow or busy the machine is."""
    monkeypatch.setattr("loopir.show.suggest.BUDGET", float("inf"))


def product(n: object = 1024) -> lp.Schedule:
    A, B = (lp.placeholder((n, n), "float32", name=x) for x in "AB")
    return lp.Schedule(lp.relu(A @ B))


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize("n", [1024, "n"])
def test_calls_can_be_pasted_and_do_what_they_say(n: object, target: str) -> None:
    s = product(lp.symbol(n) if isinstance(n, str) else n)
    found = s.suggest(6, target)
    assert found
    speeds = [x.speedup for x in found]
    assert speeds == sorted(speeds, reverse=True)
    assert all(x > 1 for x in speeds)
    for suggestion in found:
        assert eval(suggestion.call, {"s": s}) == suggestion.schedule
        assert str(suggestion).startswith(suggestion.call)


def test_the_next_steps_lead_to_lanes_and_cores() -> None:
    s = product()
    for _ in range(4):
        found = s.suggest(1)
        if not found:
            break
        s = found[0].schedule
    kinds = {s.loop(x).kind for x in s.loops(s.stages[0])}
    assert {"vectorize", "parallel"} <= kinds


def test_a_target_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="llvm or cuda"):
        product().suggest(target="tpu")


def test_where_nothing_helps_it_says_so() -> None:
    s = lp.Schedule(lp.parse("def f(a: 'inout float32[4]'):\n    a[0] = a[1]\n"))
    assert not s.suggest()
    assert "no move" in str(s.suggest())

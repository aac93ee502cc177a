"""Names, counts and sizes that nobody should give: each is a sentence, from a step and from `why` alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import loopir as lp
from loopir.errors import ParseError, ScheduleError

NEST = """
def f(n: "size", A: "float32[n]", X: "out float32[n]"):
    for i in range(n):
        X[i] = A[i] + 1.0
"""
WORDS = (
    "__half", "é", "lp_x", "", "a b", "class", "nan", "λ", "i;j", "1", "x\n", "_Pragma", "int", "asm", "linux",
    "define", "threadIdx", "main", "min", "x" * 3000, "float4", "defined", "_Bool", "char8_t",
)  # fmt: skip


def nest() -> lp.Schedule:
    return lp.Schedule(lp.parse(NEST))


@given(st.sampled_from(WORDS) | st.text(max_size=8))
@example("lp_x")
@example("é")
@example("_Pragma")
def test_a_name_is_taken_or_refused_in_a_sentence(name: str) -> None:
    s = nest()
    steps = {
        "rename": (("i", name), {}),
        "split": (("i", 4), {"names": (name, "inner")}),
    }
    for step, (args, kwargs) in steps.items():
        reason = s.why(step, *args, **kwargs)
        if reason is None:
            after = getattr(s, step)(*args, **kwargs)
            assert lp.parse(str(after)) == after.func
            continue
        assert reason.suggestion
        with pytest.raises(ScheduleError) as error:
            getattr(s, step)(*args, **kwargs)
        assert str(error.value) == str(reason)


@pytest.mark.parametrize("name", [x for x in WORDS if nest().why("rename", "i", x) is None])
def test_what_is_taken_compiles(name: str) -> None:
    s = nest().rename("i", name)
    assert s.build("llvm")(np.ones(3, np.float32)).tolist() == [2, 2, 2]
    pytest.importorskip("cuda.core", reason="NVRTC is not installed")
    lp.compile_source(s.split(name, 32).bind(f"{name}_i", "threadIdx.x"), arch="sm_90a")


@pytest.mark.parametrize(("threads", "message"), [(2.0, "threads=2.0; it is a whole"), (True, "threads=True"),
                                                   ("2", "threads='2'")])  # fmt: skip
def test_threads_are_a_whole_number(threads: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        nest().build("llvm", threads=threads)


@pytest.mark.parametrize("threads", [0, -1, 4709, 10**30])
def test_threads_are_no_more_than_there_can_be(threads: int) -> None:
    with pytest.raises(ValueError, match=rf"threads={threads}; it is .* at least 1, and at most 1024"):
        nest().build("llvm", threads=threads)


def test_a_size_called_n_is_a_size_to_suggest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopir.show.suggest.BUDGET", float("inf"))
    s = nest()
    assert s.suggest(n=512)
    with pytest.raises(ValueError, match="f has no size 'm'; its sizes are n"):
        s.suggest(m=512)
    with pytest.raises(ValueError, match="n=-1; a size is a whole number, at least 0"):
        s.suggest(n=-1)


def test_a_decorator_that_does_nothing_is_told() -> None:
    with pytest.raises(ParseError, match=r"@fast\(1\) does nothing to a nest; take it away"):
        lp.parse("@fast(1)" + NEST)
    with pytest.raises(ParseError, match="a nest returns nothing"):
        lp.parse(NEST.replace("):\n    for", ") -> int:\n    for"))
    assert lp.parse("@lp.func" + NEST) == lp.parse(NEST)

"""What a run of the interpreter writes is told as it is written: printed, or given to a function."""

import numpy as np
import pytest

import loopir as lp
from loopir.interp.watch import Write

x = lp.placeholder((8, 8), "float32", name="x")


def test_writes_of_a_buffer_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    y = lp.placeholder((3,), "int32", name="y")
    s = lp.Schedule(lp.compute((3,), lambda i: y[i] * 2, name="D"))
    s.build("interpret", watch="D")(np.array([5, 6, 7], np.int32))
    assert capsys.readouterr().out == "D[0] = 10  by D at (i=0)\nD[1] = 12  by D at (i=1)\nD[2] = 14  by D at (i=2)\n"


def test_a_function_is_given_every_write() -> None:
    seen: list[Write] = []
    s = lp.Schedule(x.sum()).split("j", 4)
    s.build("interpret", watch=seen.append)(np.ones((8, 8), np.float32))
    assert [float(w.value) for w in seen] == list(range(65))
    assert seen[-1].loops == {"i": 7, "j_o": 1, "j_i": 3}
    assert {(w.buffer, w.at) for w in seen} == {("sum", ())}


def test_what_cannot_be_watched_or_checked_is_refused() -> None:
    s = lp.Schedule(lp.compute((8, 8), lambda i, j: x[i, j] + 1.0, name="C"))
    with pytest.raises(ValueError, match="watch: there is no buffer 'D' in compute_C; there are x, C"):
        s.build("interpret", watch="D")
    with pytest.raises(lp.TargetError, match=r'this is llvm; build\("interpret", watch=...\)'):
        s.build("llvm", watch="C")

"""What tests of subscripts find on a GPU is raised at the next call, and no call waits for it; no GPU is here."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from fake_gpu import program

import loopir as lp
from loopir.runtime.bounds_report import Checked


def on_stream_5(gpu: int) -> int:
    return 5


def test_what_a_test_of_an_earlier_call_found_is_raised_once_and_no_call_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls launch and return; the word of a test that failed is seen by the next one, which launches nothing."""
    cu, runtime = program(monkeypatch, ("k", "n x words"))

    def host(rt: Any, n: int, x: int, words: int) -> None:
        rt.launch(0, (n, 1, 1), (n, x, words))

    checked = Checked(host, "f", ["statement B reads A[p[i]] outside dimension 0", "another"])
    run = runtime.prepared(checked, (7,), 1, on_stream_5)
    run((160,))
    run((320,))
    pointer = cu.launched[0][3][2]
    assert cu.launched == [("k", (7, 1, 1, 32, 1, 1, 0), 5, [7, x, pointer]) for x in (160, 320)]
    assert not cu.pieces
    words = (ctypes.c_longlong * 6).from_address(pointer)
    words[:] = 1, -2, 4, 0, 0, 0
    with pytest.raises(lp.BoundsError, match=r"f: statement B .* at index -2; indices run from 0 to 3. An earlier"):
        run((160,))
    assert len(cu.launched) == 2
    run((160,))
    runtime.synchronize()
    words[:] = 0, 0, 0, 1, 5, 4
    with pytest.raises(lp.BoundsError, match="f: another, at index 5"):
        runtime.synchronize()
    run((160,))
    assert len(cu.launched) == 4


def test_a_call_that_waits_raises_what_earlier_ones_left(monkeypatch: pytest.MonkeyPatch) -> None:
    cu, runtime = program(monkeypatch, ("k", "x words"))

    def host(rt: Any, x: int, words: int) -> None:
        rt.launch(0, (1, 1, 1), (x, words))

    checked = Checked(host, "f", ["statement B divides by p[i]"])
    runtime.prepared(checked, (), 1, on_stream_5)((160,))
    (ctypes.c_longlong * 3).from_address(cu.launched[0][3][1])[:] = 1, 0, -1
    with pytest.raises(lp.BoundsError, match=r"divides by .* An earlier call"):
        checked(runtime.on(5), 160)
    checked(runtime.on(5), 160)
    assert len(cu.launched) == 2

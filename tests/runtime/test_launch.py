"""Launches as they were written down are those of the host function, with the addresses of the call; no GPU is here."""

from __future__ import annotations

from typing import Any

import pytest
from fake_gpu import program

from loopir.runtime.cuda.launch_record import Recorder


def on_stream_5(gpu: int) -> int:
    return 5


def test_integers_are_settled_and_addresses_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    cu, runtime = program(monkeypatch, ("k", "n m y x"))

    def host(rt: Any, n: int, m: int, x: int, y: int) -> None:
        rt.launch(0, (n, m, 1), (n, m, y, x))

    run = runtime.prepared(host, (3, 4), 2, on_stream_5)
    for at in (160, 320):
        run((at, at + 16))
    host(runtime.on(5), 3, 4, 160, 176)
    shape = (3, 4, 1, 32, 1, 1, 0)
    assert cu.launched == [("k", shape, 5, [3, 4, at + 16, at]) for at in (160, 320, 160)]


def test_intermediates_are_parts_of_one_piece_that_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    cu, runtime = program(monkeypatch, ("first", "x t"), ("second", "t u y"))

    def host(rt: Any, x: int, y: int) -> None:
        t = rt.alloc(100)
        try:
            rt.launch(0, (1, 1, 1), (x, t))
            u = rt.alloc(1000)
            try:
                rt.launch(1, (0, 1, 1), (t, u, y))
                rt.launch(1, (1, 1, 1), (t, u, y))
            finally:
                rt.free(u)
        finally:
            rt.free(t)

    run = runtime.prepared(host, (), 2, on_stream_5)
    run((160, 320))
    (_, size), (_, piece) = cu.pieces
    assert size == 512 + 1024
    assert [x[3] for x in cu.launched] == [[160, piece], [piece, piece + 512, 320]]


def test_what_waits_for_words_runs_its_host_function(monkeypatch: pytest.MonkeyPatch) -> None:
    cu, runtime = program(monkeypatch, ("k", "x"))
    seen: list[Any] = []

    def host(rt: Any, n: int, x: int) -> None:
        seen.append(rt)
        if not isinstance(rt, Recorder):
            rt.launch(0, (n, 1, 1), (x,))
        else:
            rt.lent(None)

    runtime.prepared(host, (7,), 1, on_stream_5)((160,))
    assert seen[-1] is runtime.on(5)
    assert cu.launched == [("k", (7, 1, 1, 32, 1, 1, 0), 5, [160])]

"""Launches as they were written down are those of the host function, with the addresses of the call; no GPU is here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fake_gpu import program
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.runtime.cuda.launch_record import MAX_LAUNCHES, Recorder, Slot, record_launches


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


def test_long_programs_are_not_written_down() -> None:
    def host(rt: Any, n: int, x: int) -> None:
        for _ in range(n):
            rt.launch(0, (1, 1, 1), (x,))

    assert record_launches(host, (MAX_LAUNCHES,), 1) is not None
    assert record_launches(host, (MAX_LAUNCHES + 1,), 1) is None


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_a_program_is_written_down_as_its_host_function_runs(n: int, m: int, threads: int) -> None:
    """Sums over two kernels and their intermediate, at any size."""
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), "float32", name="x")
    s = lp.Schedule(x.sum(axis=1)).split("j", threads)
    s = s.reorder("j_o", "i", "j_i").rfactor(s.stages[0], "j_o")
    s = s.reorder("i_1", "j_o_1").bind("j_o", "blockIdx.x").bind("i_1", "blockIdx.x")
    source = _host_source(s)
    scope: dict[str, Any] = {"lp_max": max, "lp_min": min, "lp_range": range}
    exec(source, scope)
    seen: list[Any] = []
    array, piece = (-1, -2), -3
    direct = SimpleNamespace(alloc=lambda _: piece, free=lambda _: None, launch=lambda *what: seen.append(what))
    scope["host"](direct, n, m, *array)
    recording = record_launches(scope["host"], (n, m), 2)
    assert recording is not None
    assert recording.workspace >= -(-m // threads) * n * 4
    told = [
        (x.kernel, x.grid, tuple((*array, piece)[a.n] if isinstance(a, Slot) else a for a in x.args))
        for x in recording.launches
    ]
    assert told == seen


def _host_source(s: lp.Schedule) -> str:
    from loopir.codegen.cuda.emit import emit
    from loopir.codegen.host import host_source, python_index

    (lowered,) = lp.lower(s, "cuda")
    kernels = emit(lowered).kernels

    def spell(n: int, _: Any) -> list[str]:
        grid = ", ".join(map(python_index, kernels[n].grid))
        return [f"lp_rt.launch({n}, ({grid}), ({''.join(f'{name}, ' for _, name in kernels[n].params)}))"]

    return host_source(lowered, spell)

"""Launches of a program are written down as its host function runs, but for long ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.runtime.cuda.launch_record import MAX_LAUNCHES, Slot, record_launches


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

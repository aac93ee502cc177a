"""Attention as torch has it on a GPU, traced without one: its numbers are ours, and no state of random numbers is."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import loopir as lp  # noqa: E402
from loopir.frontend.torch.attention_states import leave_out_random_states  # noqa: E402
from loopir.frontend.torch.partition import partition  # noqa: E402
from loopir.frontend.torch.piece import translate  # noqa: E402
from loopir.frontend.torch.report import Report  # noqa: E402

ROWS, KEYS, WIDTH = 5, 7, 8
KINDS = {"flash": (), "efficient": (None, True), "cudnn": (None, True)}
"""What each takes after queries, keys and values: no bias, and that the logarithms are wanted."""


def traced(name: str, dropout: float, wanted: tuple[int, ...]) -> Any:
    """The results `wanted` of an attention."""
    op = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention").default

    def attended(q: Any, k: Any, v: Any) -> tuple[Any, ...]:
        made = op(q, k, v, *KINDS[name], dropout, True)
        return tuple(made[n] for n in wanted)

    given = [torch.empty(2, 4, n, WIDTH) for n in (ROWS, KEYS, KEYS)]
    return make_fx(attended, tracing_mode="fake")(*given)


@pytest.mark.parametrize("name", KINDS)
def test_numbers_are_ours_and_states_are_memory(name: str) -> None:
    state = 6 if name != "efficient" else 2
    gm = traced(name, 0.0, (0, 1, state))
    leave_out_random_states(gm.graph)
    report = Report()
    (piece,) = partition(gm, torch.device("cpu"), report)
    gm.recompile()
    assert "torch.empty" in gm.code
    assert str(report).startswith("0 graphs, 0 kernels: 1 calls compiled")
    program = translate(getattr(gm, piece).graph)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 4, n, WIDTH)).astype(np.float32) for n in (ROWS, KEYS, KEYS))
    made = lp.Schedule(list(program.outputs)).build("llvm")(q, k, v)
    out, logarithms = (np.transpose(x, np.argsort(given.order)) for x, given in zip(made, program.stored))
    scores = np.where(np.tri(ROWS, KEYS, dtype=bool), q @ np.swapaxes(k, -1, -2) / np.sqrt(WIDTH), -np.inf)
    powers = np.exp(scores.astype(np.float64))
    assert np.abs(out - powers / powers.sum(-1, keepdims=True) @ v).max() < 1e-5
    logarithms = logarithms.reshape(2, 4, -1)
    assert np.abs(logarithms[..., :ROWS] - np.log(powers.sum(-1))).max() < 1e-5
    assert np.isposinf(logarithms[..., ROWS:]).all()  # up to a whole number of warps


@pytest.mark.parametrize("name", KINDS)
def test_attention_alone_needs_no_logarithms(name: str) -> None:
    gm = traced(name, 0.0, (0,))
    leave_out_random_states(gm.graph)
    (piece,) = partition(gm, torch.device("cpu"), Report())
    assert len(translate(getattr(gm, piece).graph).outputs) == 1


def test_with_dropout_all_stays_with_torch() -> None:
    gm = traced("efficient", 0.5, (0, 1, 2))
    before = gm.code
    leave_out_random_states(gm.graph)
    gm.recompile()
    assert gm.code == before
    assert partition(gm, torch.device("cpu"), Report()) == []

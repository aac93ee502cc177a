"""Resize and recurrent layers of ONNX: its own tests, sizes that are symbols, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopir as lp

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from loopir.testing.onnx_nodes import cases, outcome  # noqa: E402

F = TensorProto.FLOAT


@pytest.mark.parametrize("name", [
    "resize_downsample_scales_cubic_A_n0p5_exclude_outside", "resize_downsample_scales_linear_align_corners",
    "resize_upsample_sizes_nearest_ceil_half_pixel", "resize_upsample_sizes_nearest_not_larger", "gru_defaults",
    "gridsample_volumetric_bilinear_align_corners_1", "gridsample_bicubic",
    "gru_bidirectional", "lstm_with_peepholes", "lstm_batchwise", "simple_rnn_reverse",
])  # fmt: skip
def test_onnx_own(name: str) -> None:
    module = {"simple": "rnn"}.get(name.partition("_")[0], name.partition("_")[0])
    (case,) = (c for c in cases(module) if c.name == f"test_{name}")
    assert outcome(case) == ("pass", "")


def read(node: Any, inputs: dict[str, Any], held: Any) -> Any:
    infos = [helper.make_tensor_value_info(k, F, shape) for k, shape in inputs.items()]
    outputs = [helper.make_tensor_value_info(k, F, None) for k in node.output]
    graph = helper.make_graph([node], "g", infos, outputs, held)
    return lp.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))


def tensor(name: str, x: Any) -> Any:
    return helper.make_tensor(name, F, x.shape, x.astype(np.float32))


def test_steps_and_batches_are_symbols() -> None:
    rng = np.random.default_rng(0)
    w, r, bias = rng.normal(size=(1, 12, 2)), rng.normal(size=(1, 12, 3)), rng.normal(size=(1, 24))
    held = [tensor("w", w), tensor("r", r), tensor("b", bias)]
    node = helper.make_node("LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=3, direction="reverse")
    program = read(node, {"x": ["steps", "batch", 2]}, held)
    kernel = lp.Schedule(program).build("llvm")
    for steps, batch in ((1, 2), (4, 1), (3, 5)):
        x = rng.normal(size=(steps, batch, 2)).astype(np.float32)
        y, h, c = kernel(*program.arguments(x))
        state = cell = np.zeros((batch, 3))
        for s in reversed(range(steps)):
            i, o, f, g = np.split(x[s] @ w[0].T + state @ r[0].T + bias[0, :12] + bias[0, 12:], 4, axis=1)
            i, o, f = (1 / (1 + np.exp(-v)) for v in (i, o, f))
            cell = f * cell + i * np.tanh(g)
            state = o * np.tanh(cell)
            np.testing.assert_allclose(y[s, 0], state, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(h[0], state, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(c[0], cell, rtol=1e-4, atol=1e-6)


def test_a_batch_that_is_a_symbol_is_not_resized() -> None:
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest")
    program = read(node, {"x": ["n", 1, 2]}, [tensor("scales", np.array([1.0, 1.0, 2.5]))])
    made = lp.Schedule(program).build("interpret")(*program.arguments(np.array([[[1, 2]]], np.float32)))
    assert made.tolist() == [[[1, 1, 1, 2, 2]]]
    with pytest.raises(lp.ModelError, match="a size that is known only at the call"):
        read(node, {"x": [1, 1, "n"]}, [tensor("scales", np.array([1.0, 1.0, 2.5]))])
    with pytest.raises(lp.ModelError, match="antialias"):
        read(helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear", antialias=1), {"x": [1, 1, 4]},
             [tensor("scales", np.array([1.0, 1.0, 0.5]))])  # fmt: skip

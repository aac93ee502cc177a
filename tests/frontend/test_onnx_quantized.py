"""Products and convolutions of quantized numbers take the zero point of each operand, and of the result."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from loopir.testing.onnx_nodes import cases, outcome  # noqa: E402


@pytest.mark.parametrize("module", ["qlinearmatmul", "qlinearconv", "matmulinteger", "convinteger"])
def test_onnx_own(module: str) -> None:
    for case in cases(module):
        assert outcome(case) == ("pass", ""), case.name


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 255), min_size=3, max_size=3), st.booleans(), st.integers(0, 99))
def test_zero_points_are_those_of_each_operand(zeros: list[int], whole: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((3, 5), (5, 2)))
    scales = [np.float32(s) for s in (0.03, 0.05, 0.4)]
    points = [np.uint8(z) for z in zeros]
    exact = (a.astype(np.int32) - zeros[0]) @ (b.astype(np.int32) - zeros[1])
    if whole:
        held, order, wanted = {"az": points[0], "bz": points[1]}, ["a", "b", "az", "bz"], exact.astype(np.int32)
    else:
        names = ["as", "az", "bs", "bz", "ys", "yz"]
        held = dict(zip(names, [x for pair in zip(scales, points, strict=True) for x in pair], strict=True))
        order = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
        share = np.rint(exact.astype(np.float32) * (scales[0] * scales[1] / scales[2]))
        wanted = np.clip(share + zeros[2], 0, 255).astype(np.uint8)
    node = helper.make_node("MatMulInteger" if whole else "QLinearMatMul", order, ["y"])
    infos = [helper.make_tensor_value_info(k, TensorProto.UINT8, x.shape) for k, x in (("a", a), ("b", b))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT32 if whole else TensorProto.UINT8, None)]
    initial = [numpy_helper.from_array(np.asarray(x), k) for k, x in held.items()]
    graph = helper.make_graph([node], "g", infos, outputs, initial)
    program = lp.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    np.testing.assert_array_equal(lp.Schedule(program).build("llvm")(*program.arguments(a, b)), wanted)

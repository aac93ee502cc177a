"""ONNX's own tests of operators: a sample of them passes, and none is wrong. All of them are run by the command."""

import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from loopir.testing.onnx_nodes import cases, outcome, report_lines  # noqa: E402

FILES = (
    "add", "argmax", "averagepool", "batch_normalization", "bitshift", "cast", "clip", "conv", "convtranspose",
    "cumprod", "cumsum", "dequantizelinear", "det", "gather", "gatherelements", "gemm", "maxpool", "onehot",
    "pad", "qlinearmatmul", "quantizelinear", "reducesum", "reshape",
    "reversesequence", "scatterelements", "scatternd", "slice", "split", "topk", "unsqueeze", "where",
)  # fmt: skip
SAMPLE = 30


def test_a_sample_of_the_tests_of_onnx_passes() -> None:
    found = cases(*FILES)
    assert len(found) > 200
    results = [(case, *outcome(case)) for case in random.Random(0).sample(found, SAMPLE)]
    counts = Counter(result for _, result, _ in results)
    assert not counts["wrong"], "\n".join(report_lines(results))
    assert counts["pass"] >= SAMPLE // 2


def test_what_is_wrong_is_found() -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Neg", ["x"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, [2])],
        [onnx.helper.make_tensor_value_info("y", 1, [2])],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    x = np.array([1, 2], np.float32)

    def judged(wanted: np.ndarray) -> str:
        case = SimpleNamespace(model=model, data_sets=[([x], [wanted])], rtol=1e-3, atol=1e-7, name="t")
        return outcome(case)[0]

    assert judged(-x) == "pass"
    assert judged(x) == "wrong"
    assert judged(-x.astype(np.float64)) == "wrong"
    assert judged(-x[:1]) == "wrong"

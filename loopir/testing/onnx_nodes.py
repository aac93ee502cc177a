"""Judge the ONNX front end by ONNX's own tests of operators, which the package `onnx` ships.

    python -m loopir.testing.onnx_nodes [WORD ...]    only tests whose names have one of the words

Each test is a model of one node, or of what ONNX defines that node by, with inputs and the outputs that are right. It
passes, is refused with a sentence, is wrong, or is right but for the last digits of a narrow float ("rounded"). Inputs
whose elements decide shapes are given while it is read.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal, get_args
from unittest.mock import patch

import ml_dtypes
import numpy as np
import onnx

from loopir.build import Schedule, build
from loopir.errors import LoopirError, ModelError
from loopir.frontend import from_onnx
from loopir.frontend.onnx import OnnxProgram
from loopir.loading import load

Outcome = Literal["pass", "rounded", "wrong", "refused"]
ULPS = 4
"""Units in the last place by which floats of 16 bits and fewer may differ where they are not as near as ONNX asks: its
tolerance, 1e-3, is a quarter of a unit of bfloat16, and the reference rounds where loopir goes on in float32."""


def cases(*modules: str) -> list[Any]:
    """ONNX's tests of nodes: of the files of its package that are named, such as "add", or all of them."""
    with warnings.catch_warnings(), patch("onnx.backend.test.case.base.process_snippet", _no_source):
        warnings.simplefilter("ignore")
        node = load("onnx.backend.test.case.node")
        if not modules:
            return list(load("onnx.backend.test.loader").load_model_tests(kind="node"))
        return [case for name in modules for case in _cases_of(name, node)]


@cache
def _cases_of(name: str, node: Any) -> list[Any]:
    """What the file `name` adds to the tests of `node`, where those of all files that were read stand."""
    before = len(node._NodeTestCases)
    load(f"onnx.backend.test.case.node.{name}")
    return node._NodeTestCases[before:]


def _no_source(operator: str, name: str, export: Any) -> tuple[str, str]:
    """In place of what looks up the source of each test, for ONNX's pages: that is most of the time that they take."""
    return name, ""


def outcome(case: Any) -> tuple[Outcome, str]:
    """What becomes of one test, and why."""
    found: Outcome = "pass"
    for inputs, wanted in case.data_sets:
        arrays = dict(zip([i.name for i in case.model.graph.input], map(_array, inputs), strict=False))
        try:
            program, given = _read_case(case.model, arrays)
            kernel = build(Schedule(program), "llvm")
            made = kernel(*program.arguments(**given))
        except ModelError as error:
            return "refused", str(error)
        except (LoopirError, MemoryError) as error:
            return "refused", f"{type(error).__name__}: {error}"
        except Exception as error:
            return "wrong", f"{type(error).__name__}: {error}"
        results = made if isinstance(made, tuple) else (made,)
        for name, a, b in zip(program.outputs, results, wanted, strict=True):
            if _difference(np.asarray(a), _array(b), case.rtol, case.atol):
                if reason := _difference(np.asarray(a), _array(b), _narrow_tolerance(b, case.rtol), case.atol):
                    return "wrong", f"{name}: {reason}"
                found = "rounded"
    return found, ""


def _narrow_tolerance(x: Any, rtol: float) -> float:
    """`rtol`, or some units in the last place of a type of 16 bits or fewer."""
    t = np.asarray(x).dtype
    return max(rtol, ULPS * float(ml_dtypes.finfo(t).eps)) if t.itemsize <= 2 and t.kind in "fV" else rtol


def _read_case(model: Any, arrays: dict[str, Any]) -> tuple[OnnxProgram, dict[str, Any]]:
    """The program of a model and the inputs of its kernel: those whose values decide shapes are values."""
    values: dict[str, Any] = {}
    while True:
        try:
            program = from_onnx(model, values=values)
            return program, {k: v for k, v in arrays.items() if k in program.inputs}
        except ModelError as error:
            new = {k: arrays[k] for k in error.needs if k in arrays and k not in values}
            if not new:
                raise
            values |= new


def _array(x: Any) -> Any:
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def _difference(a: Any, b: Any, rtol: float, atol: float) -> str:
    """How `a` is not `b`; nothing if it is."""
    b = np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
    if a.dtype.kind in "iub":
        return "" if np.array_equal(a, b) else f"{int(np.sum(a != b))} of {a.size} differ"
    x, y = a.astype(np.float64), b.astype(np.float64)
    close = np.isclose(x, y, rtol, atol, equal_nan=True)
    return "" if np.all(close) else f"{int(np.sum(~close))} of {a.size} differ, as {x[~close][0]} and {y[~close][0]}"


def report_lines(found: Sequence[tuple[Any, Outcome, str]]) -> Iterator[str]:
    """The report: the counts, each wrong test, and by operator how many are refused, with a reason."""
    counts = Counter(outcome for _, outcome, _ in found)
    listed = ", ".join(f"{counts[k]} {k}" for k in get_args(Outcome))
    yield f"{listed}, of {len(found)}"
    for case, result, why in found:
        if result == "wrong":
            yield f"wrong: {case.name}: {why[:200]}"
    refused: dict[str, list[str]] = {}
    for case, result, why in found:
        if result == "refused":
            refused.setdefault(case.model.graph.node[0].op_type, []).append(why)
    for op, reasons in sorted(refused.items()):
        yield f"refused: {op}: {len(reasons)}, as {reasons[0][:160]}"


def main(words: Sequence[str]) -> int:
    found: list[tuple[Any, Outcome, str]] = []
    for case in cases():
        if not words or any(w in case.name for w in words):
            found.append((case, *outcome(case)))
    print("\n".join(report_lines(found)))
    return int(any(result == "wrong" for _, result, _ in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

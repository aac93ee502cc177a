"""Front ends: programs in other formats, read as tensor expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loopir.loading import load

if TYPE_CHECKING:
    from loopir.frontend.onnx import OnnxProgram
    from loopir.frontend.torch import Report

__all__ = ["from_onnx", "torch_report"]


def from_onnx(model: Any, *, values: Mapping[str, Any] | None = None, **sizes: int) -> OnnxProgram:
    """Read an ONNX model: a path, bytes, or an onnx.ModelProto.

    `sizes` are numbers for sizes that the model has by name; the others become symbols, and one kernel serves them all.
    `values` fix inputs, as those must be whose elements decide shapes. Raises ModelError, a sentence, for a file that
    is not whole, types or operators that loopir does not have (`.missing` lists them all), and inputs whose values are
    needed (`.needs`). Nothing in the file is executed, and external data is read from the model's folder alone.
    """
    return load("loopir.frontend.onnx").import_model(model, values or {}, sizes)


def torch_report(*, reset: bool = False) -> Report:
    """What `torch.compile(backend="loopir")` made kernels of in this process, and what it left to torch, with counts.

    `print` shows it. With `reset`, counting begins anew.
    """
    return load("loopir.frontend.torch.report").take_report(reset)

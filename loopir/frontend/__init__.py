"""Front ends: programs in other formats, read as tensor expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from loopir.loading import load

if TYPE_CHECKING:
    from loopir.frontend.jitting import Jitted
    from loopir.frontend.onnx import OnnxProgram
    from loopir.frontend.torch import Report

__all__ = ["from_onnx", "jit", "torch_report"]


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


def jit(fn: Callable[..., Any] | None = None, *, target: str | None = None) -> Jitted | Callable[..., Jitted]:
    """Compile a function of arrays for each signature that it is called with, as a decorator with or without arguments.

        @lp.jit
        def layer(x, w, b):
            return lp.relu(x @ w + b)

        layer(x, w, b)  # NumPy's arrays, torch's, or any with DLPack: traced once for these types and shapes

    The function gets placeholders and gives a tensor or a tuple of them; arguments that are no arrays are constants of
    the kernel. It is scheduled by `schedules.auto`, for `target` or where the arrays are; results are arrays of the
    library of the first one. Raises TypeError for what is neither an array nor a constant.
    """
    made = load("loopir.frontend.jitting").Jitted
    return made(fn, target) if fn is not None else lambda fn: made(fn, target)

"""The table of operators: one row each, in files by what they are about. Importing this package fills the table."""

from loopir.frontend.onnx.operators import indexing, math, movement, neural, quantized, recurrent, reductions, resizing

__all__ = ["indexing", "math", "movement", "neural", "quantized", "recurrent", "reductions", "resizing"]

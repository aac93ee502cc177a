"""Tensor expressions: what a person writes, and the graph of stages that becomes a nest."""

from loopir.tensor import functions, statistics
from loopir.tensor.functions import *  # noqa: F403
from loopir.tensor.index import reduce_axis, symbol
from loopir.tensor.nest import to_func
from loopir.tensor.statistics import *  # noqa: F403
from loopir.tensor.tensor import Tensor, compute, placeholder

__all__ = [
    "Tensor",
    "compute",
    "placeholder",
    "reduce_axis",
    "symbol",
    "to_func",
    *functions.__all__,
    *statistics.__all__,
]  # pyright: ignore[reportUnsupportedDunderAll]

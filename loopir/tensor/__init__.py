"""Tensor expressions: what a person writes, and the graph of stages that becomes a nest."""

from loopir.tensor import (
    called_nests,
    convolutions,
    creation,
    elementwise,
    functions,
    grid_sampling,
    grids,
    integers,
    joining,
    linear_algebra,
    missing_numbers,
    neural_layers,
    numeric,
    products,
    random,
    resampling,
    scans,
    scattering,
    shapes,
    signals,
    sorting,
    special,
    statistics,
)
from loopir.tensor.called_nests import *  # noqa: F403
from loopir.tensor.convolutions import *  # noqa: F403
from loopir.tensor.creation import *  # noqa: F403
from loopir.tensor.elementwise import *  # noqa: F403
from loopir.tensor.functions import *  # noqa: F403
from loopir.tensor.grid_sampling import *  # noqa: F403
from loopir.tensor.grids import *  # noqa: F403
from loopir.tensor.index import reduce_axis, symbol
from loopir.tensor.integers import *  # noqa: F403
from loopir.tensor.joining import *  # noqa: F403
from loopir.tensor.linear_algebra import *  # noqa: F403
from loopir.tensor.missing_numbers import *  # noqa: F403
from loopir.tensor.nest import to_func
from loopir.tensor.neural_layers import *  # noqa: F403
from loopir.tensor.numeric import *  # noqa: F403
from loopir.tensor.other_names import answer_keywords
from loopir.tensor.products import *  # noqa: F403
from loopir.tensor.random import *  # noqa: F403
from loopir.tensor.resampling import *  # noqa: F403
from loopir.tensor.scans import *  # noqa: F403
from loopir.tensor.scattering import *  # noqa: F403
from loopir.tensor.shapes import *  # noqa: F403
from loopir.tensor.signals import *  # noqa: F403
from loopir.tensor.sorting import *  # noqa: F403
from loopir.tensor.special import *  # noqa: F403
from loopir.tensor.statistics import *  # noqa: F403
from loopir.tensor.tensor import Tensor, compute, placeholder

__all__ = [
    "Tensor",
    "compute",
    "placeholder",
    "reduce_axis",
    "symbol",
    "to_func",
    *called_nests.__all__,
    *convolutions.__all__,
    *creation.__all__,
    *functions.__all__,
    *missing_numbers.__all__,
    *linear_algebra.__all__,
    *grid_sampling.__all__,
    *grids.__all__,
    *integers.__all__,
    *joining.__all__,
    *elementwise.__all__,
    *neural_layers.__all__,
    *numeric.__all__,
    *products.__all__,
    *random.__all__,
    *resampling.__all__,
    *scans.__all__,
    *scattering.__all__,
    *shapes.__all__,
    *signals.__all__,
    *sorting.__all__,
    *special.__all__,
    *statistics.__all__,
]  # pyright: ignore[reportUnsupportedDunderAll]

for _name in __all__:
    if not isinstance(globals()[_name], type):
        globals()[_name] = answer_keywords(globals()[_name])
for _name in ("sum", "prod", "max", "min", "mean", "any", "all", "argmax", "argmin"):
    setattr(Tensor, _name, answer_keywords(getattr(Tensor, _name)))
Tensor.functions = frozenset(__all__)
for _name in ("clip", "cumsum", "diagonal", "ravel", "repeat", "round", "squeeze", "std", "swapaxes", "trace", "var"):
    setattr(Tensor, _name, globals()[_name])  # the tensor is a method's first argument, as in NumPy
del _name

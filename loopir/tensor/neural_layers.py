"""Activations and normalizations of neural networks, made of other operators; in 32 bits where `x` is narrow."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from loopir.tensor.core import cast
from loopir.tensor.functions import (
    clip,
    exp,
    expm1,
    log1p,
    maximum,
    mean,
    minimum,
    rsqrt,
    softplus,
    tanh,
    where,
    widened_input,
)
from loopir.tensor.statistics import var
from loopir.tensor.tensor import Tensor

__all__ = ["elu", "hardswish", "layer_norm", "leaky_relu", "log_sigmoid", "mish", "rms_norm"]


def leaky_relu(x: Any, slope: float = 0.01) -> Tensor:
    """`x` where it is positive, else `slope` times it."""
    e, t = widened_input(x)
    return cast(where(e > 0, e, e * slope), t)


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """`x` where it is positive, else alpha * (exp(x) - 1)."""
    e, t = widened_input(x)
    return cast(where(e > 0, e, expm1(minimum(e, 0.0)) * alpha), t)


def hardswish(x: Any) -> Tensor:
    """x * clip(x + 3, 0, 6) / 6."""
    e, t = widened_input(x)
    return cast(e * clip(e + 3.0, 0.0, 6.0) / 6.0, t)


def log_sigmoid(x: Any) -> Tensor:
    """log(1 / (1 + exp(-x))), with no overflow."""
    e, t = widened_input(x)
    return cast(minimum(e, 0.0) - log1p(exp(minimum(e, 0.0) - maximum(e, 0.0))), t)


def mish(x: Any) -> Tensor:
    """x * tanh(log(1 + exp(x)))."""
    e, t = widened_input(x)
    return cast(e * tanh(softplus(e)), t)


def layer_norm(x: Any, axis: Any = -1, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """`x` less its mean over `axis`, over the root of its variance, times `weight`, plus `bias`."""
    e, t = widened_input(x)
    middle = mean(e, axis=axis, keepdims=True)
    made = (e - middle) * rsqrt(var(e, axis=axis, keepdims=True, mean=middle) + eps)
    made = made if weight is None else made * weight
    return cast(made if bias is None else made + bias, t)


def rms_norm(x: Any, axis: Any = -1, weight: Any = None, eps: float = 1e-6) -> Tensor:
    """`x` over the root of the mean of its squares over `axis`, times `weight`."""
    e, t = widened_input(x)
    made = e * rsqrt(mean(e * e, axis=axis, keepdims=True) + eps)
    return cast(made if weight is None else made * weight, t)

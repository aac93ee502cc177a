"""Products of matrices and attention."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from typing import Any

from loopir.frontend.torch.row import Result, Unsupported, operator
from loopir.ir.grammar import Load
from loopir.tensor import functions as f
from loopir.tensor.core import as_expr
from loopir.tensor.creation import arange
from loopir.tensor.tensor import Tensor


def _of_floats(*given: Tensor) -> None:
    if not all(x.dtype.is_float for x in given):
        raise Unsupported("products of integers")


def _wide(x: Tensor) -> Tensor:
    return x.astype("float32") if x.dtype.is_narrow else x


def operand(x: Tensor) -> Tensor:
    """`x` in memory, unless it is a view of what is: a product reads each element many times."""
    return x if isinstance(x.element, Load) else x.named("operand")


def _product(given: Result, a: Tensor, b: Tensor) -> Tensor:
    """The product of what is in memory, rounded to TF32 where torch has it so."""
    x, y = operand(a), operand(b)
    return f.tf32(x) @ f.tf32(y) if "matmul" in given.rounded else x @ y


@operator("aten.mm.default", "aten.bmm.default", "aten.mv.default", "aten.dot.default", informed=True)
def matmul(given: Result, a: Tensor, b: Tensor) -> Tensor:
    _of_floats(a, b)
    return _product(given, a, b)


def _with(c: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    if alpha != 1:
        product = product * float(alpha)
    if beta == 0:  # what torch does not read then may be NaN
        return product
    return (c if beta == 1 else c * float(beta)) + product


@operator("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default", "aten.addbmm.default", informed=True)
def addmm(given: Result, c: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    _of_floats(a, b, c)
    return _with(c, _product(given, a, b), beta, alpha)


def _attention(q: Tensor, k: Tensor, v: Tensor, dropout_p: float, is_causal: bool, mask: Any,
               scale: Any) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The attention, and the logarithm of the sum of each row's exponentials, which its derivative takes.

    Queries are [batch, heads, rows, width]; keys and values may have fewer heads, each for as many heads of queries.
    """
    if dropout_p:
        raise Unsupported("dropout, which draws torch's random numbers")
    if mask is not None and q.shape[1] != k.shape[1]:
        raise Unsupported("a mask beside heads of keys that several heads of queries share")
    width, heads, groups = q.shape[-1], q.shape[1], k.shape[1]
    if not isinstance(width, int):
        raise Unsupported("a head width that is known only at the call")
    factor = 1.0 / math.sqrt(width) if scale is None else float(scale)
    q, k, v = operand(q), operand(k), operand(v)
    if heads != groups:
        if not isinstance(heads, int) or not isinstance(groups, int) or heads % groups:
            raise Unsupported("heads of queries that are no whole multiple of those of keys")
        q = q.reshape(q.shape[0], groups, heads // groups, *q.shape[2:])
        k, v = k[:, :, None], v[:, :, None]
    scores = _wide(q @ k.transpose(*range(k.ndim - 2), k.ndim - 1, k.ndim - 2)) * factor
    if is_causal:
        rows, columns = arange(q.shape[-2])[:, None], arange(k.shape[-2])[None, :]
        scores = f.where(columns <= rows, scores, as_expr(Tensor, -math.inf, scores.dtype))
    if mask is not None:
        scores = scores + mask.astype(scores.dtype)
    scores = scores.named("scores")
    largest = f.max(scores, axis=-1, keepdims=True)
    if mask is not None:
        largest = f.where(largest == -math.inf, 0.0, largest)
    powers = f.exp(scores - largest).named("powers")
    total = f.sum(powers, axis=-1, keepdims=True)
    if mask is not None:
        total = f.where(total == 0.0, 1.0, total)  # a row that is masked as a whole gives zeros
    weights = (powers * (1.0 / total)).astype(q.dtype)
    attended, logarithms = weights @ v, (largest + f.log(total))[..., 0]
    if heads != groups:
        shape = (q.shape[0], heads, q.shape[-2])
        attended, logarithms = attended.reshape(*shape, v.shape[-1]), logarithms.reshape(*shape)
    return attended, logarithms


def _as_asked(given: tuple[Result | None, ...], attended: Tensor, logarithms: Tensor) -> tuple[Tensor, ...]:
    """The attention, and, if it is asked for, the logarithm of each row's sum in the shape in which the operator gives
    it: cuDNN's has one column, and that of CUTLASS has rows up to a whole number of warps, which nothing reads."""
    asked = given[1] if len(given) > 1 else None
    if asked is None:
        return (attended,)
    if len(asked.shape) == logarithms.ndim + 1:
        return attended, logarithms[..., None]
    rows, wanted = logarithms.shape[-1], asked.shape[-1]
    if isinstance(rows, int) and isinstance(wanted, int) and wanted > rows:
        logarithms = f.pad(logarithms, ((0, 0), (0, 0), (0, wanted - rows)), value=math.inf)
    return attended, logarithms


@operator("aten._scaled_dot_product_flash_attention_for_cpu.default")
def cpu_attention(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: Any = None,
    scale: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """What torch takes on a CPU."""
    return _attention(q, k, v, dropout_p, is_causal, attn_mask, scale)


@operator("aten._scaled_dot_product_flash_attention.default", informed=True)
def flash_attention(
    given: tuple[Result | None, ...], q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: Any = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """What torch takes on a GPU where it takes its own kernel. The state of random numbers is not given."""
    return _as_asked(given, *_attention(q, k, v, dropout_p, is_causal, None, scale))


@operator(
    "aten._scaled_dot_product_efficient_attention.default", "aten._scaled_dot_product_cudnn_attention.default",
    informed=True,
)  # fmt: skip
def biased_attention(
    given: tuple[Result | None, ...], q: Tensor, k: Tensor, v: Tensor, attn_bias: Any, compute_log_sumexp: bool,
    dropout_p: float = 0.0, is_causal: bool = False, return_debug_mask: bool = False, *, scale: Any = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """What torch takes on a GPU where it takes cuDNN's kernel or that of CUTLASS. The state of random numbers is not
    given."""
    if attn_bias is not None:
        raise Unsupported("attention with a mask on a GPU, where rows may be masked as a whole")
    return _as_asked(given, *_attention(q, k, v, dropout_p, is_causal, None, scale))

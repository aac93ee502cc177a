"""x times a sigmoid of it, for results that are rounded to 16 bits: silu, and the gelu of Hendrycks and Gimpel (2016).

Instructions for two lanes have the unit that makes quotients make one, 1 / (a b), for 1 / a and 1 / b: it takes eight
times as long as a product. Then neither may be larger than 2^63, so the sigmoid is never less than 2^-63.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopir.interp.instruction import Pointer, instruction
from loopir.intrinsics.ops.arith import FLOAT, mul
from loopir.intrinsics.ops.expand import X
from loopir.intrinsics.ops.math import sigmoid_16
from loopir.ir.grammar import Const, Op, Value
from loopir.ir.ops import Intrinsic

LOG2_E = 1.4426950408889634
Number = Callable[[float], Any]
_BOTH = Pointer((0,), run=2)
_ONE = """\
__device__ __forceinline__ float lp_{name}_16(float x) {{
  float e, r;  // by 2^-8, so that x times a sigmoid below 2^-126, which is taken for 0, is below that, too
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"({power} - 8.0f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(0.00390625f + e));
  return x * 0.00390625f * r;
}}
__device__ __forceinline__ double lp_{name}_16_double(double x) {{ return x / (1.0 + exp({minus})); }}
"""
_TWO = """\
__device__ __forceinline__ float lp_{name}_16_divisor(float x) {{
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(fminf({power}, 63.0f)));
  return 1.0f + e;
}}
__device__ __forceinline__ void lp_{name}_16x2(float* c, const float* a) {{
  float r, e = lp_{name}_16_divisor(a[0]), f = lp_{name}_16_divisor(a[1]);
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(e * f));
  c[0] = a[0] * (r * f);
  c[1] = a[1] * (r * e);
}}
"""


@dataclass(frozen=True)
class _C:
    """An expression in C."""

    text: str

    def __add__(self, other: _C) -> _C:
        return _C(f"{self.text} + {other.text}")

    def __mul__(self, other: _C) -> _C:
        return _C(" * ".join(f"({x.text})" if " " in x.text else x.text for x in (self, other)))


def _gate(name: str, work: int, of: Callable[[Any, Number], Any], doc: str) -> Intrinsic:
    """x times the sigmoid `of` x, and the instruction for two lanes of it.

    `of` takes x, of any kind that has the operators, and what makes numbers of that kind.
    """
    power = of(_C("x"), lambda c: _C(f"{-LOG2_E * c:.9g}f")).text  # 2 to this is added to 1 in the divisor
    minus = of(_C("x"), lambda c: _C(f"{-c}")).text

    def meaning(x: Any) -> Any:
        wide = x.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(wide / (1 + np.exp(of(wide, lambda c: -c)))).astype(x.dtype)[()]

    def expand(x: Value) -> Value:
        return Op(mul, (x, Op(sigmoid_16, (of(X(x), lambda c: X(Const(c, x.dtype))).value,))))

    gate = Intrinsic(
        f"{name}_16", 1, FLOAT, meaning, ulp=256, work=work, expand=expand,
        cuda={"float32": f"lp_{name}_16({{0}})", "float64": f"lp_{name}_16_double({{0}})"},
        cuda_prelude=_ONE.format(name=name, power=power, minus=minus),
        pairs={"float32": f"{name}_16x2"}, doc=doc,
    )  # fmt: skip
    instruction(
        cuda=f"lp_{name}_16x2({{C}}, {{A}});", cuda_prelude=_TWO.format(name=name, power=power),
        at={"A": _BOTH, "C": _BOTH}, doc=f"Two of `{name}_16`, whose sigmoid is at least 2^-63.",
    )(f"""
def {name}_16x2(A: "float32[2] local", C: "out float32[2] local"):
    for n in range(2):
        C[n] = {name}_16(A[n])
""")  # fmt: skip
    return gate


_KNOWN = "for results of 16 bits: to 2^-15 of it where the sigmoid is above 2^-63; what is below 2^-126 may be 0"
silu_16 = _gate("silu", 7, lambda x, number: x * number(1.0), f"x / (1 + exp(-x)), {_KNOWN}.")
gelu_16 = _gate(
    "gelu", 10, lambda x, number: x * (number(1.5957691216057308) + number(0.07135481627260025) * (x * x)),
    f"x / (1 + exp(-2 u)), u = sqrt(2 / pi) * (x + 0.044715 x^3), {_KNOWN}.",
)  # fmt: skip

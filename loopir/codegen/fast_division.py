"""Division by a launch-time constant: a multiplication and a shift, found on the host.

Kernels divide by sizes that are not known at compile time, and a division takes some twenty instructions. Dividends are
at least 0 and below 2^31. For a divisor d with 2^(l-1) < d <= 2^l, the host passes m = floor(2^(31+l) / d) + 1, which
fits 32 bits, and l. Then floor(n m / 2^(31+l)) equals floor(n / d), as m exceeds 2^(31+l) / d by at most 1, and
n / 2^(31+l) is less than 1 / d (Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994).
"""

from __future__ import annotations

from collections.abc import Collection

from loopir.ir.grammar import Add, FloorDiv, Index, Int, Kernel, Max, Min, Mod, Mul, ValueToIndex, Var, Xor
from loopir.ir.traverse.walk import nodes

INT32_END = 1 << 31
DIVISION_PRELUDE = """\
__device__ __forceinline__ int lp_quotient(int n, unsigned long long by) {
  return (int)(__umulhi((unsigned int)n << 1, (unsigned int)by) >> (unsigned int)(by >> 32));
}
"""


def reciprocal(d: int) -> int:
    """The reciprocal of `d` for `lp_quotient`: m in the lower 32 bits, l above them; 0 where no kernel divides."""
    if not 1 <= d < INT32_END:
        return 0
    l = (d - 1).bit_length()  # noqa: E741
    return (1 << (31 + l)) // d + 1 | l << 32


def divisors(kernel: Kernel, integers: Collection[str]) -> tuple[Index, ...]:
    """The divisors in `kernel` that are not constant and depend only on `integers`, which the host passes."""
    found = dict.fromkeys(n.b for n in nodes(kernel) if isinstance(n, FloorDiv | Mod) and is_nonnegative(n.a))
    return tuple(d for d in found if not isinstance(d, Int) and _of(d, integers))


def _of(d: Index, integers: Collection[str]) -> bool:
    parts = list(nodes(d))
    own = not any(isinstance(n, ValueToIndex) for n in parts)
    return own and all(n.name in integers for n in parts if isinstance(n, Var))


def is_nonnegative(ix: Index) -> bool:
    """Whether `ix` is at least 0 by its form: loop variables, sizes, sums and products of these."""
    match ix:
        case Int(value):
            return value >= 0
        case Var() | Mod():
            return True
        case Add(a, b) | Mul(a, b) | Max(a, b) | Min(a, b) | Xor(a, b):
            return is_nonnegative(a) and is_nonnegative(b)
        case FloorDiv(a, _):
            return is_nonnegative(a)
        case _:
            return False

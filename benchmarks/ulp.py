"""How far from the true value the CPU's float32 functions are, over all floats or every n-th.

    python benchmarks/ulp.py [step]

Units in the last place of the result, the reference being float64 (its own error is below 1e-8 of these units). Values
that must be exact (NaN, infinities, zeros) are counted apart when they are not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

import loopir as lp

Array = np.ndarray[Any, Any]
BLOCK = 1 << 22
REFERENCES: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "tanh": np.tanh, "erf": special.erf, "sin": np.sin, "cos": np.cos,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": special.expit,
}  # fmt: skip


def main(step: int) -> None:
    print(f"{lp.describe_target('llvm').partition(',')[0]}, float32, every {step} of 2^32 numbers")
    print("function    ulp with fma   without   special values wrong")
    for name, reference in REFERENCES.items():
        worst = [measured(name, reference, step, fma) for fma in (True, False)]
        print(f"{name:10s} {worst[0][0]:10.3f} {worst[1][0]:12.3f} {max(w for _, w in worst):12d}", flush=True)


def measured(name: str, reference: Callable[[Array], Array], step: int, fma: bool) -> tuple[float, int]:
    """The largest error in units in the last place, and how many special values are wrong."""
    x = lp.placeholder((BLOCK,), "float32", name="x")
    s = lp.Schedule(lp.compute((BLOCK,), lambda i: getattr(lp, name)(x[i]), name="y"))
    kernel = s.split("i", 8).vectorize("i_i").build("llvm", fma=fma)
    worst, wrong = 0.0, 0
    for first in range(0, 1 << 32, BLOCK * step):
        bits = np.arange(first, min(first + BLOCK * step, 1 << 32), step, dtype=np.uint64).astype(np.uint32)
        given = np.resize(bits, BLOCK).view(np.float32)
        with np.errstate(all="ignore"):
            want = reference(given.astype(np.float64))
            got = kernel(given).astype(np.float64)
            unit = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
            rounded = want.astype(np.float32)
            special_value = ~np.isfinite(rounded) | (want == 0)
            same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
            error = np.abs(got - want) / unit
        wrong += int((special_value & ~same).sum())
        ordinary = error[~special_value]
        worst = max(worst, float(ordinary.max(initial=0.0)))
    return worst, wrong


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)

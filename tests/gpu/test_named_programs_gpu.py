"""The programs that a scheduling language is asked for first, on a GPU: by small tiles, and as `auto` makes them."""

from __future__ import annotations

import numpy as np
import pytest
from named_programs import PROGRAMS

import loopir as lp
import schedules

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]
OF_ITS_OWN = ("jacobi", "prefix sum", "histogram")
"""Programs whose schedule has to be told what they are."""


@pytest.mark.parametrize("kind", ["fits", "odd", "symbols"])
@pytest.mark.parametrize("how", ["small tiles", "auto"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_a_gpu(name: str, how: str, kind: str) -> None:
    named = PROGRAMS[name]
    fits, odd = (dict(zip(named.sizes, x, strict=True)) for x in (named.fits, named.odd))
    fixed = {"fits": fits, "odd": odd}.get(kind)
    s = named.schedule(*(fixed or {}).values())
    made = named.gpu(s) if how == "small tiles" or name in OF_ITS_OWN else schedules.auto(s, "cuda")
    kernel = made.build("cuda")
    for sizes in (fits, odd) if fixed is None else (fixed,):
        arrays = named.arrays(s, sizes)
        wanted = {x: sizes[x] for x in s.func.sizes}
        want = lp.interpret(s.func, {k: v.copy() for k, v in arrays.items()}, wanted)
        mine = {k: v.copy() for k, v in arrays.items()}
        got = kernel(*mine.values(), **wanted)
        results = mine if got is None else dict(zip(want, got if isinstance(got, tuple) else (got,), strict=True))
        for key, value in want.items():
            one, other = results[key].astype(np.float64), value.astype(np.float64)
            np.testing.assert_allclose(one, other, rtol=named.tolerance, atol=named.tolerance)

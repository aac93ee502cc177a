"""A fence shows the first byte that is written beside an array, on either side, also of one without elements."""

import numpy as np
import pytest

from loopir.testing.oracles.guard_bytes import WIDTH, Fenced


@pytest.mark.parametrize("shape", [(3, 2), (0,), ()])
@pytest.mark.parametrize("offset", [-WIDTH, -1, None])
def test_what_is_written_beside_it_is_found(shape: tuple[int, ...], offset: int | None) -> None:
    given = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    fenced = Fenced(given)
    np.testing.assert_array_equal(fenced.array, given)
    fenced.array[...] = -1
    assert fenced.broken is None
    places = (offset, given.nbytes) if offset is not None else (given.nbytes + WIDTH - 1,)
    for n, at in enumerate(reversed(places)):
        fenced.bytes[WIDTH + at] = 0
        assert fenced.broken == f"something is written {at} bytes from its start", n

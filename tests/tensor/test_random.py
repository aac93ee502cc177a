"""Random numbers by counters: Philox's published answers, the same in every order, and as they are distributed."""

import numpy as np
import pytest

import loopir as lp

# counter, key and words of Philox4x32-10, from the authors' known answers (Random123, kat_vectors)
ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]  # fmt: skip


def test_philox_gives_its_authors_answers() -> None:
    words = [lp.placeholder((), "uint64", name=f"w{n}") for n in range(6)]
    made = lp.stack([w[None] for w in lp.philox(words[:4], words[4:])]).named("y")
    kernel = lp.Schedule(made).build("llvm")
    for counter, key, answer in ANSWERS:
        got = kernel(*(np.array(w, np.uint64) for w in (*counter, *key)))
        assert got.reshape(-1).tolist() == list(answer)


def test_numbers_depend_on_seed_offset_and_place_alone() -> None:
    seed = lp.placeholder((), "int64", name="seed")
    made = [lp.rand((8, 64), seed).named("a"), lp.rand((512,), seed).named("b"), lp.randn((4096,), seed, 1).named("c"),
            lp.randint(-2, 5, (4096,), seed).named("d"), lp.rand((64,), seed, dtype="float64").named("e")]  # fmt: skip
    kernel = lp.Schedule(made).build("llvm")
    a, b, c, d, e = kernel(np.array(3))
    assert (a.reshape(-1) == b).all()
    assert (b != kernel(np.array(4))[1]).mean() > 0.99
    assert 0 <= a.min() < 0.05 < 0.95 < a.max() < 1
    assert 0.3 < e.mean() < 0.7
    assert abs(c.mean()) < 0.1
    assert abs(c.std() - 1) < 0.1
    assert np.bincount(d + 2, minlength=7).min() > 450


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(lp.ExprError, match="drawn as float32 or float64"):
        lp.rand((2,), 0, dtype="int32")
    with pytest.raises(lp.ExprError, match=r"there are 1 to 2\^32 integers"):
        lp.randint(3, 3, (2,), 0)
    with pytest.raises(lp.ExprError, match="a counter of 4 words and a key of 2"):
        lp.philox((0, 0), (0, 0))

"""Figures have three digits."""

from loopir.show.units import count, seconds, si, times


def test_figures_have_three_digits() -> None:
    assert [si(x) for x in (0, 999, 1234, 1.5e9)] == ["0 ", "999 ", "1.23 k", "1.5 G"]
    assert [seconds(x) for x in (2.4e1, 1.5e-3, 2e-6, 3e-9)] == ["24 s", "1.5 ms", "2 us", "3 ns"]
    assert [count(x) for x in (64, 131072)] == ["64", "131 k"]
    assert [times(x) for x in (1.5, 128, 65536)] == ["1.5 x", "128 x", "65.5 k x"]

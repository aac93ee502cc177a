"""Figures as people read them: bytes, counts, seconds and ratios, three digits at most."""


def si(x: float) -> str:
    """1.07 G, 524 k: ends in the letter, or in a space where none is needed."""
    for factor, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= factor:
            return f"{_three_digits(x / factor)} {letter}"
    return f"{_three_digits(x)} "


def seconds(x: float) -> str:
    """23.4 ms."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if x >= factor:
            return f"{_three_digits(x / factor)} {unit}"
    return f"{_three_digits(x * 1e9)} ns"


def count(x: float) -> str:
    """Whole numbers as they are up to 99999, then 1.07 G."""
    return f"{x:.0f}" if x < 1e5 else si(x)


def times(x: float) -> str:
    """128 x, 1.5 x."""
    return f"{_three_digits(x)} x" if x < 1e4 else f"{si(x)} x"


def _three_digits(x: float) -> str:
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"

"""Printed nests fit a terminal, and are parsed as what they were."""

import loopir as lp
from loopir.ir.text_width import WIDTH, wrapped

LONG = [
    "x[i] = " + " + ".join(f"values[i * 16 + {n}] * weights[{n}]" for n in range(12)),
    "x[i] = sum(" + " * ".join(f"values[k * 16 + {n}]" for n in range(12)) + ", over=k, init=0.0)",
    "with " + ", ".join(f'alloc("float32[n, 256]", scope="local") as buffer_{n}' for n in range(6)) + ":",
    "if " + " and ".join(f"i * 16 + {n} < n" for n in range(20)) + ":",
]


def test_lines_break_at_the_outermost_operator() -> None:
    first, second = "a[" + "i + " * 20 + "1]", "b[" + "j + " * 20 + "2]"
    assert list(wrapped(f"x[i] = {first} + {second}", 0)) == [(0, f"x[i] = ({first}"), (2, f"+ {second})")]


def test_every_piece_fits_and_they_make_the_line() -> None:
    for line in LONG:
        for depth in range(12):
            pieces = list(wrapped(line, depth))
            assert all(len(piece) + 4 * at <= max(WIDTH, 4 * at + 60) for at, piece in pieces)
            brackets = str.maketrans("", "", " ()")
            assert "".join(p for _, p in pieces).translate(brackets) == line.translate(brackets)


def test_a_long_nest_is_parsed_as_it_was() -> None:
    x, y = (lp.placeholder((64, 256), "float32", name=f"a_long_name_of_a_tensor_{n}") for n in range(2))
    s = lp.Schedule(lp.where(x > y, lp.exp(x * y + x) - lp.exp(y * y - x), lp.relu(x - y) * 2.0 + lp.tanh(x + y)))
    s = s.split("i", 16).split("i_i", 4).split("j", 8)
    assert max(map(len, str(s).splitlines())) <= WIDTH
    assert lp.parse(str(s)) == s.func

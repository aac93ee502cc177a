"""What a nest does not have of Python is refused with what is written for it."""

# ruff: noqa: F722

import pytest

import loopir as lp

REFUSED = [
    ("t: float = a[i]", "with no annotation"),
    ("b[i] = b[0] = 1", "write each in a line of its own"),
    ("import math", "nothing is imported inside a nest"),
    ("global x", "names numbers from around it, with no global"),
    ("del a", "nothing is deleted"),
    ("raise a", "there is no raise"),
    ("yield a[i]", "a nest gives nothing back"),
    ("print(a[i])", 'watch="a"'),
    ("for j in enumerate(a):\n            b[i] = 1", r"a\[i\] is the element"),
    ("for j in range(2):\n            b[i] = 1\n        else:\n            b[i] = 2", "a loop has no else"),
    ("for j in range(len(a)):\n            b[i] = 1", 'the size of a dimension is a parameter, n: "size"'),
    ("b[i] = float(i)", r"float32\(x\) or float64\(x\) here"),
    ("b[i] = [1, 2]", "has no lists, tuples or dicts"),
    ("b[i] = lambda x: x", "has no lambda"),
    ("b[i] = (lambda x: x)(a[i])", "calls operations of one element by name"),
    ("b[i] = f'{i}'", "is not in the language of nests"),
    ("b[i] = a.T[i]", r"an array has no a.T in a nest; a\[i\] is an element"),
]


@pytest.mark.parametrize(("statement", "instead"), REFUSED, ids=[s for s, _ in REFUSED])
def test_the_refusal_names_the_line_and_what_to_write(statement: str, instead: str) -> None:
    with pytest.raises(lp.ParseError, match=rf"(?s){instead}.*line [34]"):
        lp.parse(f'def f(a: "float32[8]", b: "out float32[8]"):\n    for i in range(8):\n        {statement}\n')


TABLE = [1.0, 2.0]


def test_what_is_around_the_nest_is_said_to_be_outside() -> None:
    with pytest.raises(lp.ParseError, match="an array from around the nest is a parameter of it"):

        @lp.func
        def f(b: "out float32[2]"):  # pyright: ignore
            for i in range(2):
                b[i] = TABLE[i]

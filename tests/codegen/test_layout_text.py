"""Emitted lines: no parentheses around parentheses, and no line that could be broken and is long."""

from __future__ import annotations

import random

import pytest

from loopir.codegen.cuda import layout_text
from loopir.codegen.cuda.layout_text import LINE_WIDTH, without_double_parentheses, wrapped


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if (((a < b) || (c < d))) {", "if ((a < b) || (c < d)) {"),
        ("x[(a + b)] = (f((c + d), (float)(e)) + 1);", "x[a + b] = f(c + d, (float)(e)) + 1;"),
        ("x = (a) + (b);", "x = (a) + (b);"),
        ("x = (a + b);", "x = a + b;"),
        ("x = (a, (b));", "x = a, (b);"),
        ('asm("{(%0)}" :: "r"((x)));', 'asm("{(%0)}" :: "r"((x)));'),
    ],
)
def test_parentheses_that_say_nothing_are_left_out(before: str, after: str) -> None:
    assert without_double_parentheses(before) == after


def test_wrapped_lines_hold_the_same_words_and_fit() -> None:
    rng = random.Random(0)

    def term(depth: int) -> str:
        if depth == 0:
            return f"name_{rng.randrange(1000)}"
        parts = [term(depth - 1) for _ in range(rng.randrange(2, 5))]
        return f"({rng.choice([' + ', ' * ', ' && ']).join(parts)})"

    for _ in range(200):
        line = "      call(" + ", ".join(term(2) for _ in range(4)) + ");"
        lines = wrapped(line)
        assert " ".join(x.strip() for x in lines) == line.strip()
        assert all(len(x) <= LINE_WIDTH for x in lines)
        assert all(x.startswith(" " * 10) for x in lines[1:])


def test_what_stands_in_quotes_is_in_one_piece() -> None:
    text = "a, " * 60
    line = f'asm volatile("{text}" : "=r"(x), "=r"(y) : "r"(z) : "memory");'
    assert any(f'"{text}"' in x for x in wrapped(line))
    assert wrapped("#define " + text) == ["#define " + text]


def test_a_comment_at_the_end_of_a_long_line_goes_above_it() -> None:
    line = "  x = " + " + ".join(f"y{n}" for n in range(40)) + ";  // why"
    first, *rest = wrapped(line)
    assert first == "  // why"
    assert " ".join(x.strip() for x in rest) == line.partition("  // ")[0].strip()


def test_a_line_is_read_once_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    read, places = list[int](), layout_text._break_points
    monkeypatch.setattr(layout_text, "_break_points", lambda line: read.append(len(line)) or places(line))
    line = "  x = " + " + ".join(f"f(y{n}, z)" for n in range(2000)) + ";"
    assert len(wrapped(line)) > 200
    assert read == [len(line)]

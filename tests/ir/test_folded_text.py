"""A long program is printed with the outer loops of each nest."""

import re

import pytest

import loopir as lp
from loopir.ir.folded_text import FOLD_FROM, fold_lines, folded_text
from loopir.ir.printer import lines
from loopir.ir.text_width import WIDTH


def nests(count: int) -> lp.Func:
    body = "".join(
        f"    for i{n} in range(8):\n        for j{n} in range(8):\n            A[i{n}, j{n}] = 1.0\n"
        for n in range(count)
    )
    return lp.parse(f'def f(A: "inout float32[8, 8]"):\n{body}')


def test_a_short_program_is_printed_whole() -> None:
    func = nests(5)
    assert lp.parse(folded_text(func)) == func


@pytest.mark.parametrize(("count", "depth"), [(80, 1), (150, 1)])
def test_a_long_one_has_the_outer_loops_of_each_nest(count: int, depth: int) -> None:
    shown = folded_text(nests(count)).splitlines()
    assert len(shown) == 1 + 2 * count + 1
    assert shown[2] == "        ...  # 2 lines: A"
    assert shown[-1].startswith(f"# {depth} loop of each nest; lp.text(s.func) has all {1 + 3 * count} lines")
    assert str(lp.Schedule(nests(count))).splitlines() == shown


def test_as_many_loops_are_printed_as_fit() -> None:
    inner = "".join(f"{'    ' * n}for i{n} in range(2):\n" for n in range(1, 6))
    body = "".join(f"        {'    ' * 4}A[i1, i2] = {n}.0\n" for n in range(FOLD_FROM))
    func = lp.parse(f'def f(A: "inout float32[2, 2]"):\n{inner}{body}')
    shown = folded_text(func).splitlines()
    assert len(shown) == 8
    assert shown[6].strip().startswith(f"...  # {FOLD_FROM} lines: A, A_1, ")
    assert re.search(r", A_\d+ and \d+ more$", shown[6])
    assert max(map(len, shown)) <= WIDTH
    assert fold_lines(lines(func), 9) == lines(func)


def test_a_folded_text_is_no_program() -> None:
    with pytest.raises(lp.ParseError, match=r"left out of this text; lp\.text\(s\.func\) has them all"):
        lp.parse(folded_text(nests(80)))

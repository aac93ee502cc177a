"""The text of a nest with its inner loops left out, so that a long program is seen whole."""

from __future__ import annotations

from collections.abc import Sequence

from loopir.ir.grammar import Func, Loop, Reduce, Store
from loopir.ir.printer import Line, lines
from loopir.ir.text_width import WIDTH

FOLD_FROM = 240
"""A program of more lines is printed with its inner loops left out."""


def folded_text(func: Func) -> str:
    """The source of `func`; where that is longer than FOLD_FROM lines, with as many loops of each nest as fit in.

    The last line then says what has all of it. At least one loop of each nest is there, however many that are.
    """
    whole = lines(func)
    if len(whole) <= FOLD_FROM:
        return "\n".join(map(str, whole))
    depth, shown = 1, fold_lines(whole, 1)
    while len(more := fold_lines(whole, depth + 1)) < FOLD_FROM:
        depth, shown = depth + 1, more
    told = f"# {depth} loop{'s' * (depth > 1)} of each nest; lp.text(s.func) has all {len(whole)} lines, and "
    told += f"s.show(depth={depth + 1}) one more loop"
    return "\n".join([*map(str, shown), told])


def fold_lines(whole: Sequence[Line], depth: int) -> list[Line]:
    """`whole` without the lines that stand in `depth` loops or more, with a line for those left out at each place."""
    out: list[Line] = []
    heads: list[int] = []
    left_out: list[Line] = []
    for line in whole:
        while heads and heads[-1] >= line.depth:
            heads.pop()
        if len(heads) < depth:
            out += _ellipsis(left_out)
            left_out = []
            out.append(line)
        else:
            left_out.append(line)
        if isinstance(line.node, Loop):
            heads.append(line.depth)
    return [*out, *_ellipsis(left_out)]


def _ellipsis(left_out: Sequence[Line]) -> list[Line]:
    """One line for those that are left out, with as many of the stages in them as fit in."""
    if not left_out:
        return []
    stages = list(dict.fromkeys(x.node.label for x in left_out if isinstance(x.node, Store | Reduce)))
    number = sum(x.node is not None for x in left_out)  # without what a long line goes on with
    head = f"...  # {number} line{'s' * (number != 1)}{': ' if stages else ''}"
    texts = (f"{head}{', '.join(stages[:n])} and {len(stages) - n} more" for n in range(len(stages) - 1, 0, -1))
    fits = WIDTH - 4 * left_out[0].depth
    shown = next((x for x in (f"{head}{', '.join(stages)}", *texts) if len(x) <= fits), head.rstrip(": "))
    return [Line(left_out[0].depth, shown, None)]

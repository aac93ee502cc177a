"""What the calls in a primitive's docstring have in common: a fold as the stage, a loop that stands beside it ...

Random steps are made with these needs in mind, most of the time: an argument is drawn from what meets them in the nest,
and where nothing does, the primitive has no place there. No list here has to know a primitive: a question is asked of
each argument that a docstring shows accepted, and what all of them answer with yes is a need.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import loopir.testing.generate.memory_questions  # noqa: F401  # pyright: ignore[reportUnusedImport]  (adds to the questions)
from loopir.ir.parser.parse import parse
from loopir.schedule.core.doc import examples
from loopir.testing.generate.argument_questions import Nest, Question, questions

Chosen = Mapping[str, Any]


class NoPlace(Exception):
    """Nothing in the nest is such as the docstring of the primitive shows."""


def fitting(
    f: Callable[..., Any], here: Nest, name: str, options: Iterable[Any], chosen: Chosen, *, but: int | None = None
) -> list[Any]:
    """Those of `options` for the parameter `name` that are such as all that the docstring of `f` shows.

    One need, the one that `but` counts to, may be left out. NoPlace if no option is left.
    """
    needs = habits(f).get(name, {})
    left_out = "" if but is None or not needs else [*needs][but % len(needs)]
    found = [x for x in options if x is None or all(q == left_out or ask(here, x, chosen) for q, ask in needs.items())]
    if not found:
        raise NoPlace(f"no {name} for {getattr(f, '__name__', f)}")
    return found


@cache
def habits(f: Callable[..., Any]) -> dict[str, dict[str, Question]]:
    """By parameter, the questions that are answered with yes in all calls that the docstring of `f` shows accepted."""
    needs: dict[str, dict[str, Question]] = {}
    others = tuple(inspect.signature(f).parameters)
    for e in examples(f):
        if e.after is None:
            continue
        here, chosen = Nest(parse(e.before)), _arguments(f, e.call)
        for name, value in chosen.items():
            before = needs.get(name, questions(name, others))
            needs[name] = {n: ask for n, ask in before.items() if ask(here, value, chosen)}
    return needs


def _arguments(f: Callable[..., Any], call: str) -> dict[str, Any]:
    """By parameter, what `call` gives `f` after the Func."""
    tree = ast.parse(call, mode="eval").body
    assert isinstance(tree, ast.Call)
    args = [ast.literal_eval(a) for a in tree.args]
    kwargs = {k.arg: ast.literal_eval(k.value) for k in tree.keywords if k.arg is not None}
    bound = inspect.signature(f).bind(None, *args, **kwargs).arguments
    return {k: v for n, (k, v) in enumerate(bound.items()) if n}

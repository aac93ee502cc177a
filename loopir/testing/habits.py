"""What the calls in a primitive's docstring take: statements or folds, loops around a stage or beside it, and so on.

Random steps are drawn with these in mind, most of the time, so that they have a chance to be accepted; and no list here
has to know a primitive.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from loopir.ir.grammar import Alloc, Func, If, Reduce
from loopir.ir.parse import parse
from loopir.ir.walk import Place, loaded, loops, places, statements
from loopir.schedule.doc import examples
from loopir.schedule.find import written

Traits = dict[str, object]
"""What can be said of an argument, by the question."""


@dataclass(frozen=True)
class Context:
    """A nest in which arguments are looked for, as those questions want it."""

    func: Func

    @property
    def own(self) -> set[str]:
        return {s.buffer.name for s in statements(self.func.body) if isinstance(s, Alloc)}

    def traits(self, name: str, value: object, chosen: Mapping[str, Any]) -> Traits:
        """What is so of `value`, given for the parameter `name` beside `chosen`; nothing for what is not known here."""
        if name == "stage":
            return self._stage(value)
        if name == "buffer":
            return {"own": value in self.own}
        if name in ("loop", "at"):
            return self._loop(value, chosen)
        if name == "loops" and isinstance(value, list | tuple):
            return {"nested": self._nested([str(v) for v in value])}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return {}

    def _stage(self, value: object) -> Traits:
        every = list(places(self.func.body))
        at = next((n for n, p in enumerate(every) if p.stmt.label == value), None)
        if at is None:
            return {}
        place = every[at]
        inner = place.loops[-1] if place.loops else None
        return {
            "fold": isinstance(place.stmt, Reduce),
            "start": isinstance(place.stmt, Reduce) and place.stmt.init is not None,
            "guarded": any(isinstance(s, If) for s in place.around),
            "alone": inner is None or len([*places(place.loops[0].body)]) == 1,
            "consumes": any(written_names(p) & loaded(place.stmt) for p in every[:at]),
            "feeds": any(written_names(place) & loaded(p.stmt) for p in every[at + 1 :]),
        }

    def _loop(self, value: object, chosen: Mapping[str, Any]) -> Traits:
        loop = next((x for x in loops(self.func.body) if x.var == value), None)
        if loop is None:
            return {"none": value is None}
        inside = {p.stmt.label for p in places(loop.body)}
        allocs = [s for s in statements(loop.body) if isinstance(s, Alloc)]
        out: Traits = {"several": len(inside) > 1, "constant": not hasattr(loop.extent, "name")}
        if (stage := chosen.get("stage")) is not None:
            labels = [p.stmt.label for p in places(self.func.body)]
            out["around"] = stage in inside
            out["later"] = stage in labels and labels.index(str(stage)) < min(map(labels.index, inside), default=0)
        if (buffer := chosen.get("buffer")) is not None:
            out["anew"] = any(s.buffer.name == buffer for s in allocs)
        if "buffer" not in chosen and "stage" not in chosen:
            out["memory"] = bool(allocs)
        return out

    def _nested(self, names: list[str]) -> bool:
        found = [x for x in loops(self.func.body) if x.var in names]
        return any(y.var in names for x in found for y in loops(x.body))


def written_names(place: Place) -> set[str]:
    return {b.name for b in written(place)}


def fitting(
    f: Callable[..., Any], here: Context, name: str, options: Iterable[Any], chosen: Mapping[str, Any]
) -> list[Any]:
    """Those of `options` that are like what the docstring of `f` calls it with; all, if none is."""
    every = list(options)
    seen = habits(f).get(name)
    if not seen:
        return every
    found = [x for x in every if all(v in seen.get(k, (v,)) for k, v in here.traits(name, x, chosen).items())]
    return found or every


@cache
def habits(f: Callable[..., Any]) -> dict[str, dict[str, set[object]]]:
    """By parameter and question, the answers in the calls that the docstring of `f` shows accepted."""
    out: dict[str, dict[str, set[object]]] = {}
    for e in examples(f):
        if e.after is None:
            continue
        here, chosen = Context(parse(e.before)), _arguments(f, e.call)
        for name, value in chosen.items():
            for question, answer in here.traits(name, value, chosen).items():
                out.setdefault(name, {}).setdefault(question, set()).add(answer)
    return out


def _arguments(f: Callable[..., Any], call: str) -> dict[str, Any]:
    """By parameter, what `call` gives `f` after the Func."""
    tree = ast.parse(call, mode="eval").body
    assert isinstance(tree, ast.Call)
    args = [ast.literal_eval(a) for a in tree.args]
    kwargs = {k.arg: ast.literal_eval(k.value) for k in tree.keywords if k.arg is not None}
    bound = inspect.signature(f).bind(None, *args, **kwargs).arguments
    return {k: v for n, (k, v) in enumerate(bound.items()) if n}

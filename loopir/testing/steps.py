"""Random schedules: steps of any registered primitive, with arguments that are found in the nest.

No primitive is known here. What a parameter is called says what may stand for it: `loop` is a loop, and beside a
`stage` one near that stage; `factor` is a small number that seldom divides; an annotation says the rest. So a primitive
of one's own is drawn as soon as it is declared. A schedule is the list of the steps that were accepted, each drawn from
the nest as those before have left it; a smaller schedule has fewer steps.
"""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar

from hypothesis import strategies as st

from loopir.errors import ScheduleError
from loopir.ir.grammar import AXES, SCOPES, Func, Loop, Reduce
from loopir.ir.match import unify
from loopir.ir.ops import INSTRUCTIONS
from loopir.ir.walk import accessed, fresh, inside, loops, names, places, statements
from loopir.schedule import Schedule
from loopir.schedule.find import all_buffers
from loopir.schedule.primitive import PRIMITIVES
from loopir.schedule.trace import Step
from loopir.testing.draws import between, choose
from loopir.testing.habits import Context, fitting

T = TypeVar("T")


@st.composite
def schedules(
    draw: st.DrawFn,
    func: Func | Schedule,
    *,
    most: int = 5,
    primitives: Collection[str] | None = None,
    refused: Callable[[Func, Step, ScheduleError], None] | None = None,
) -> Schedule:
    """Up to `most` steps that apply to `func`, as the Schedule that they lead to; `.trace` holds them.

    `primitives` names those to draw from: all that are registered, if it is None. `refused(func, step, error)` is told
    of every step that was tried and turned down.
    """
    s = Schedule(func)
    chosen = sorted(PRIMITIVES if primitives is None else primitives)
    for _ in range(4 * most):
        if len(s.trace) == most or not draw(between(0, 9)):
            break
        step = _step(draw, s.func, chosen)
        try:
            s = s.apply(step)
        except ScheduleError as error:
            if refused is not None:
                refused(s.func, step, error)
        except Exception as error:
            raise Crash(s, step, error) from error
    return s


class Crash(Exception):
    """A step raised what is no refusal: `cause`, when `step` was taken on `before`."""

    def __init__(self, before: Schedule, step: Step, cause: Exception) -> None:
        self.before, self.step, self.cause = before, step, cause
        super().__init__(f"{step}: {type(cause).__name__}: {cause}")


@st.composite
def steps(draw: st.DrawFn, func: Func, primitives: Sequence[str] = ()) -> Step:
    """One step that could be tried on `func`, legal or not."""
    return _step(draw, func, primitives or sorted(PRIMITIVES))


def _step(draw: st.DrawFn, func: Func, primitives: Sequence[str]) -> Step:
    name = choose(draw, primitives)
    args, kwargs = _arguments_of(draw, PRIMITIVES[name], func, {})
    return Step(name, args, tuple(kwargs.items()))


@st.composite
def arguments_of(
    draw: st.DrawFn,
    f: Callable[..., Any],
    func: Func,
    given: Mapping[str, st.SearchStrategy[Any]] | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What to call `f` with after its first parameter; `given` are strategies by the name of a parameter."""
    return _arguments_of(draw, f, func, given or {})


@cache
def _parameters(f: Callable[..., Any]) -> tuple[tuple[inspect.Parameter, Any], ...]:
    """The parameters of `f` after the first, with what they are annotated as."""
    hints = typing.get_type_hints(f)
    found = list(inspect.signature(f).parameters.values())[1:]
    return tuple((p, hints.get(p.name, object)) for p in found if p.kind is not p.VAR_KEYWORD)


def _arguments_of(
    draw: st.DrawFn, f: Callable[..., Any], func: Func, given: Mapping[str, st.SearchStrategy[Any]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    arguments = _Arguments(draw, func, f)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for p, hint in _parameters(f):
        optional = p.default is not p.empty
        if optional and p.name not in given and draw(between(0, 2)) == 0:
            if p.kind is not p.KEYWORD_ONLY:
                arguments.chosen[p.name] = p.default
                args.append(p.default)
            continue
        many = p.kind is p.VAR_POSITIONAL
        value = draw(given[p.name]) if p.name in given else arguments.one(p.name, hint, many=many)
        arguments.chosen[p.name] = value
        if p.kind is p.VAR_POSITIONAL:
            args += value
        elif p.kind is p.KEYWORD_ONLY:
            kwargs[p.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


class _Arguments:
    """Draws one argument after the other, each near those before it."""

    def __init__(self, draw: st.DrawFn, func: Func, f: Callable[..., Any]) -> None:
        self.draw, self.func, self.f = draw, func, f
        self.usual = draw(between(0, 2)) > 0
        """Whether arguments are to be like those that the docstring of `f` shows."""
        self.context = Context(func)
        self.chosen: dict[str, Any] = {}
        self.places = tuple(places(func.body))
        self.loops = tuple(loops(func.body))
        self.around = {p.stmt.label: tuple(x.var for x in p.loops) for p in self.places}
        self.buffers = tuple(b.name for b in all_buffers(func))
        self.own = tuple(b.name for b in all_buffers(func)[len(func.args) :])
        self.touched = {p.stmt.label: accessed(p.stmt) for p in self.places}

    def one(self, name: str, hint: Any, *, many: bool) -> Any:
        origin, options = typing.get_origin(hint), typing.get_args(hint)
        if origin is Literal:
            return self.pick(options)
        finder: Callable[[], Any] | None = getattr(self, f"_{name}", None)
        if finder is not None:
            value = finder()
            return self._dim() if hint is int and not isinstance(value, int) else value
        if many:
            return self._loops()
        if type(None) in options and self.draw(st.booleans()):
            return None
        if hint is bool:
            return self.draw(st.booleans())
        if hint is int or int in options:
            return self._factor()
        return self._loop()

    def pick(self, options: Iterable[T], default: Any = "none") -> Any:
        found = tuple(options)
        return choose(self.draw, found) if found else default

    def like(self, name: str, options: Iterable[T], default: Any = "none") -> Any:
        """One of `options` for the parameter `name`, mostly one such as the docstring shows."""
        return self.pick(fitting(self.f, self.context, name, options, self.chosen) if self.usual else options, default)

    def rarely(self) -> bool:
        return self.draw(between(0, 5)) == 5

    # ------------------------------------------------------------ loops

    def _loop(self) -> str:
        """Any loop; beside a stage, one around it or around what shares a buffer with it; beside a buffer, one near."""
        every = [x.var for x in self.loops]
        found: list[str] = []
        if (stage := self.chosen.get("stage")) in self.around:
            own = self.around[stage]
            near = [v for label in self.around if self._share(stage, label) for v in self.around[label]]
            found = list(own) if self.draw(st.booleans()) else [v for v in near if v not in own]
            found = found or list(own)
        elif (buffer := self.chosen.get("buffer")) is not None:
            found = [v for p in self.places if buffer in accessed(p.stmt) for v in self.around[p.stmt.label]]
        if self.usual:
            found = self.matching() or every
        return self.like("loop", dict.fromkeys(found) if found and not self.rarely() else every)

    def matching(self) -> list[str]:
        """The loops that some instruction does as they stand, where an instruction is to be chosen."""
        if all(p.name != "instruction" for p, _ in _parameters(self.f)):
            return []
        known = INSTRUCTIONS.values()
        return [x.var for x in self.loops if any(not isinstance(unify(fn, (x,)), str) for fn in known)]

    def _share(self, one: str, other: str) -> bool:
        """Whether two statements touch one buffer."""
        return bool(self.touched[one] & self.touched[other])

    def _at(self) -> str | None:
        around = self.around.get(str(self.chosen.get("stage")), ())
        return self.like("at", [*around, None])

    _store = _at

    def _outer(self) -> str:
        return self.pick([x.var for x in self.loops if any(loops(x.body))] or [x.var for x in self.loops])

    def _inner(self) -> str:
        outer = [x for x in self.loops if x.var == self.chosen.get("outer")]
        nested = [x.var for o in outer for x in loops(o.body)]
        return self.pick(nested[:2] or [x.var for x in self.loops])

    def _first(self) -> Any:
        """A loop with another one after it; where loops are chosen already, a count."""
        if "loop" in self.chosen:
            return self.draw(between(0, 2))
        return self.pick([one for one, _ in self._pairs()] or [x.var for x in self.loops])

    def _second(self) -> str:
        """Mostly the loop right after the first one."""
        first = self.chosen.get("first")
        after = [other for one, other in self._pairs() if one == first]
        return self.pick(after if after and not self.rarely() else [x.var for x in self.loops])

    def _pairs(self) -> list[tuple[str, str]]:
        """Loops that stand one right after the other, most often."""
        return [(a.var, b.var) for row in self._rows() for a, b in itertools.pairwise(row)]

    def _last(self) -> int:
        return self.draw(between(0, 2))

    def _rows(self) -> list[list[Loop]]:
        """The loops that stand one beside another, by what is around them."""
        bodies = [self.func.body, *((*s_inside,) for s in statements(self.func.body) if (s_inside := inside(s)))]
        rows = [[s for s in body if isinstance(s, Loop)] for body in bodies]
        return [row for row in rows if len(row) > 1]

    def _chains(self) -> list[list[str]]:
        """Loops that are each the only statement in the one before."""
        found: list[list[str]] = []
        for loop in self.loops:
            chain = [loop.var]
            while len(loop.body) == 1 and isinstance(loop.body[0], Loop):
                loop = loop.body[0]
                chain.append(loop.var)
            found.append(chain)
        return found

    def _loops(self) -> list[str]:
        """Several loops: of one nest in any order, or beside one another."""
        if (stage := self.chosen.get("stage")) in self.around:
            return [v for v in self.around[stage] if self.draw(st.booleans())]
        rows = [[x.var for x in row] for row in self._rows()]
        chains = [c for c in self._chains() if len(c) > 1]
        pairs = self.like("loops", [*rows, *chains], [])
        if pairs in rows:
            start = self.draw(between(0, len(pairs) - 2))
            return pairs[start : start + 2 + self.rarely()]
        chain = pairs or [x.var for x in self.loops]
        return list(self.draw(st.permutations(chain)))[: self.draw(st.integers(1, max(1, len(chain))))]

    def _loops_and_factors(self) -> list[str | int]:
        chain = self.pick(self._chains(), [])
        return [*chain, *(self._factor() for _ in chain)]

    # ------------------------------------------------------------ statements, buffers, names

    def _stage(self) -> str:
        folds = [p.stmt.label for p in self.places if isinstance(p.stmt, Reduce)]
        return self.like("stage", folds if folds and not self.usual and self.draw(st.booleans()) else self.around)

    def _after(self) -> list[str]:
        within = [label for label, around in self.around.items() if self.chosen.get("loop") in around]
        return [label for label in within[:-1] if self.draw(st.booleans())]

    def _buffer(self) -> str:
        stage = [p.stmt for p in self.places if p.stmt.label == self.chosen.get("stage")]
        touched = [b for b in self.buffers if any(b in accessed(s) for s in stage)]
        return self.like("buffer", touched or (self.own if self.own and not self.rarely() else self.buffers))

    def _old(self) -> str:
        if "buffer" in self.chosen:
            return self.pick([b for b in self.own if b != self.chosen["buffer"]] or self.buffers)
        return self.pick([*(x.var for x in self.loops), *self.around, *self.buffers])

    def _new(self) -> str:
        return fresh(self.pick(("x", "T", "i")), names(self.func))

    def _name(self) -> str | None:
        return self._new() if self.rarely() else None

    def _names(self) -> tuple[str, ...] | None:
        if not self.rarely():
            return None
        first = self._new()
        return (first, fresh(first, {*names(self.func), first}))

    # ------------------------------------------------------------ numbers, words and texts

    def _factor(self) -> int:
        """Small, and as often as not one that does not divide; of a skew also below 0."""
        return self.draw(between(-2 if "outer" in self.chosen else 1, 5))

    def _dim(self) -> int:
        ranks = {b.name: len(b.shape) for b in all_buffers(self.func)}
        rank = ranks.get(str(self.chosen.get("buffer")), 0)
        return self.draw(st.integers(0, rank if self.rarely() else max(0, rank - 1)))

    def _stages(self) -> int:
        return self.draw(between(1 if self.rarely() else 2, 4))

    def _registers(self) -> tuple[int, int]:
        return self.draw(st.tuples(*[st.integers(3, 32).map(lambda n: 8 * n)] * 2))

    def _shift(self) -> int | tuple[int, ...]:
        return self.draw(st.integers(-2, 2) | st.tuples(st.integers(-1, 1), st.integers(-1, 1)))

    def _value(self) -> float:
        return choose(self.draw, (0.0, 1.0))

    def _axis(self) -> str:
        return self.pick(AXES[:2] + AXES[3:5] if not self.rarely() else AXES)

    def _scope(self) -> str:
        return self.pick(SCOPES)

    def _instruction(self) -> str:
        """Mostly one that does what the chosen loop does, if there is any."""
        nest = next((x for x in self.loops if x.var == self.chosen.get("loop")), None)
        fits = [n for n, fn in INSTRUCTIONS.items() if nest is not None and not isinstance(unify(fn, (nest,)), str)]
        return self.pick(fits if fits and not self.rarely() else INSTRUCTIONS)

    def _when(self) -> str:
        """A condition on the sizes and on loops."""
        known = [*self.func.sizes, *(x.var for x in self.loops)]
        return self.pick(("{v} % 2 == 0", "{v} > 2", "{v} == 1")).format(v=self.pick(known, "1"))

    def _layout(self) -> str:
        shapes = {b.name: b.shape for b in all_buffers(self.func)}
        rank = len(shapes.get(str(self.chosen.get("buffer")), ()))
        return self.pick(LAYOUTS.get(rank, ("lambda i: i",)))


LAYOUTS = {
    1: ("lambda i: i * 2", "lambda i: (i % 2, i // 2)", "lambda i: i + 1", "lambda i: i // 2"),
    2: (
        "lambda i, j: (j, i)", "lambda i, j: i * 7 + j", "lambda i, j: (j // 2, i, j % 2)",
        "lambda i, j: (i, (i + j) % 4)", "lambda i, j: i + j",
    ),
}  # fmt: skip
"""By the number of dimensions: transposed, packed, padded, swizzled; and some that put two elements in one place."""

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
from loopir.ir.grammar import AXES, SCOPES, Alloc, Func, Loop, Reduce
from loopir.ir.instr.match_nest import misplaced_operand, unify
from loopir.ir.ops import INSTRUCTIONS, Instruction
from loopir.ir.traverse.walk import (
    accessed_buffers,
    child_stmts,
    fresh_name,
    leaf_paths,
    loaded_buffers,
    loops,
    statements,
    taken_names,
)
from loopir.schedule import Schedule
from loopir.schedule.core.find import all_buffers
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.generate.draws import between, choose

T = TypeVar("T")
OF_NUMBERS = frozenset({"defer_scale", "narrow_functions", "narrow_sum", "use_exp2"})
"""Primitives that are right of numbers alone, of their order or to 16 bits: no ring and no field can judge them."""
EXACT = tuple(sorted(PRIMITIVES.keys() - OF_NUMBERS))
"""All others, which are right in any arithmetic."""


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

    `primitives` names those to draw from, one of them twice if it is to come twice as often: all of EXACT, if it is
    None. `refused(func, step, error)` is called for every step that was tried and refused.
    """
    s = Schedule(func)
    chosen = sorted(EXACT if primitives is None else primitives)
    turned_down: set[str] = set()
    for _ in range(4 * most):
        if len(s.trace) == most or not draw(between(0, 9)):
            break
        step = _step(draw, s.func, chosen)
        if str(step) in turned_down:
            continue
        try:
            s, turned_down = s.apply(step), set()
        except ScheduleError as error:
            turned_down.add(str(step))
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
    return _step(draw, func, primitives or EXACT)


def _step(draw: st.DrawFn, func: Func, primitives: Sequence[str]) -> Step:
    """A step of a primitive that, most of the time, accepts it; or any."""
    accepted = draw(between(0, 3)) > 0
    for _ in range(PRIMITIVES_TRIED if accepted else 0):
        name = choose(draw, primitives)
        args, kwargs, taken = _tried(draw, PRIMITIVES[name], func, {}, TRIALS)
        if taken:
            return Step(name, args, tuple(kwargs.items()))
    name = choose(draw, primitives)
    args, kwargs = _arguments_of(draw, PRIMITIVES[name], func, {})
    return Step(name, args, tuple(kwargs.items()))


PRIMITIVES_TRIED = 3
"""So many primitives are tried until one accepts what is drawn for it."""
TRIALS = 8
"""So many arguments are drawn for a primitive until it accepts them."""


def _tried(
    draw: st.DrawFn, f: Callable[..., Any], func: Func, given: Mapping[str, st.SearchStrategy[Any]], trials: int
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """Arguments for `f`, drawn up to so many times until it accepts them, and whether it does, or fails."""
    args, kwargs = _arguments_of(draw, f, func, given)
    for left in reversed(range(trials)):
        try:
            refusal = refused_by(f, func, args, kwargs)
        except Exception:
            refusal = None  # a failure: whoever takes the step is to meet it
        if refusal is None:
            return args, kwargs, True
        if left:
            args, kwargs = _arguments_of(draw, f, func, given)
    return args, kwargs, False


def refused_by(
    f: Callable[..., Any], func: Func, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> ScheduleError | None:
    """What `f` says if it refuses; of a primitive, so that who then takes the step has it checked once."""
    name = getattr(f, "__name__", "")
    if PRIMITIVES.get(name) is f:
        return Schedule(func).why(name, *args, **kwargs)
    try:
        f(func, *args, **kwargs)
    except ScheduleError as error:
        return error
    return None


@st.composite
def arguments_of(
    draw: st.DrawFn,
    f: Callable[..., Any],
    func: Func,
    given: Mapping[str, st.SearchStrategy[Any]] | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What to call `f` with after its first parameter; `given` are strategies by the name of a parameter."""
    args, kwargs, _ = _tried(draw, f, func, given or {}, TRIALS * draw(st.booleans()))
    return args, kwargs


@cache
def _parameters(f: Callable[..., Any]) -> tuple[tuple[inspect.Parameter, Any], ...]:
    """The parameters of `f` after the first, with what they are annotated as."""
    hints = typing.get_type_hints(f)
    found = list(inspect.signature(f).parameters.values())[1:]
    return tuple((p, hints.get(p.name, object)) for p in found if p.kind is not p.VAR_KEYWORD)


def _arguments_of(
    draw: st.DrawFn, f: Callable[..., Any], func: Func, given: Mapping[str, st.SearchStrategy[Any]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments for `f` that speak of what is in the nest."""
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
    """Draw the arguments of a step one by one, each likely to fit those before it."""

    def __init__(self, draw: st.DrawFn, func: Func, f: Callable[..., Any]) -> None:
        self.draw, self.func, self.f = draw, func, f
        self.chosen: dict[str, Any] = {}
        self.places = tuple(leaf_paths(func.body))
        self.loops = tuple(loops(func.body))
        self.around = {p.stmt.label: tuple(x.var for x in p.loops) for p in self.places}
        self.buffers = tuple(b.name for b in all_buffers(func))
        self.own = tuple(s.buffer.name for s in statements(func.body) if isinstance(s, Alloc))
        self.touched = {p.stmt.label: accessed_buffers(p.stmt) for p in self.places}

    def one(self, name: str, hint: Any, *, many: bool) -> Any:
        """The argument `name`, annotated as `hint`; of `*name`, a list."""
        if typing.get_origin(hint) is Literal:
            return self.pick(typing.get_args(hint))
        if hint == tuple[str, ...]:
            return tuple(label for label in self.around if self.draw(st.booleans()))
        finder: Callable[[], Any] | None = getattr(self, f"_{name}", None)
        if finder is not None:
            value = finder()
            if value is None and hint is str:  # a place that has to be one
                return self._loop()
            return self._dim() if hint is int and not many and not isinstance(value, int) else value
        if many:
            return self._loops() if hint is str else self.draw(st.permutations(range(self._rank())))
        return self.of_type(hint)

    def of_type(self, hint: Any) -> Any:
        """An argument of which no name tells more than the annotation: a number is a factor, a text a loop."""
        options = typing.get_args(hint)
        if type(None) in options and self.draw(st.booleans()):
            return None
        if hint is bool:
            return self.draw(st.booleans())
        several = next((t for t in (hint, *options) if typing.get_origin(t) is tuple), None)
        if several is not None:
            return tuple(self._factor() if t is int else self._loop() for t in typing.get_args(several) if t is not ...)
        if hint is int or int in options:
            return self._factor()
        return self._loop()

    def pick(self, options: Iterable[T], default: Any = "none") -> Any:
        found = tuple(options)
        return choose(self.draw, found) if found else default

    def rarely(self) -> bool:
        return self.draw(between(0, 5)) == 5

    # ------------------------------------------------------------ loops

    def _loop(self) -> str:
        """Any loop; where nothing else is asked, beside a stage one around it or around what shares a buffer with it,
        beside a buffer one near."""
        every = [x.var for x in self.loops]
        found: list[str] = []
        if (stage := self.chosen.get("stage")) in self.around:
            own = self.around[stage]
            near = [v for label in self.around if self._share(stage, label) for v in self.around[label]]
            found = list(own) if self.draw(st.booleans()) else [v for v in near if v not in own]
            found = found or list(own)
        elif (buffer := self.chosen.get("buffer")) is not None:
            found = [v for p in self.places if buffer in accessed_buffers(p.stmt) for v in self.around[p.stmt.label]]
        return self.pick(dict.fromkeys(found) if found and not self.rarely() else every)

    def _share(self, one: str, other: str) -> bool:
        """Whether two statements touch one buffer."""
        return bool(self.touched[one] & self.touched[other])

    def _at(self) -> str | None:
        around = self.around.get(str(self.chosen.get("stage")), ())
        return self.pick([*around, None])

    _store = _at

    def _fold(self) -> str:
        """A stage that another stage folds after, or reads."""
        folds = [p.stmt.label for p in self.places if isinstance(p.stmt, Reduce)]
        return self.pick([x for x in folds if x != self.chosen.get("stage")] or list(self.around))

    def _outer(self) -> str:
        return self.pick([x.var for x in self.loops if any(loops(x.body))])

    def _inner(self) -> str:
        outer = [x for x in self.loops if x.var == self.chosen.get("outer")]
        nested = [x.var for o in outer for x in loops(o.body)]
        return self.pick(nested[: None if self.rarely() else 2] or [x.var for x in self.loops])

    def _first(self) -> Any:
        """A loop with another one after it, or a dimension; where loops are chosen already, a count."""
        if "loop" in self.chosen:
            return self.draw(between(0, 2))
        if "buffer" in self.chosen:
            return self.pick(range(3), 0)
        return self.pick([one for one, _ in self._pairs()] or [x.var for x in self.loops])

    def _second(self) -> str:
        """Mostly the loop right after the first one."""
        first = self.chosen.get("first")
        after = [other for one, other in self._pairs() if one == first]
        return self.pick(after if after and not self.rarely() else [x.var for x in self.loops])

    def _count(self) -> int:
        """So many dimensions, from the first on."""
        left = self._rank() - int(self.chosen.get("first", 0))
        return self.draw(between(0, 3) if self.rarely() else between(2, max(2, left)))

    def _pairs(self) -> list[tuple[str, str]]:
        """Loops that stand one right after the other, most often."""
        return [(a.var, b.var) for row in self._rows() for a, b in itertools.pairwise(row)]

    def _last(self) -> int:
        return self.draw(between(0, 2))

    def _rows(self) -> list[list[Loop]]:
        """The loops that stand one beside another, by what is around them."""
        bodies = [self.func.body, *((*s_inside,) for s in statements(self.func.body) if (s_inside := child_stmts(s)))]
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
            each = [v for v in self.around[stage] if self.draw(st.booleans())]
            return self.pick([each], [])
        rows = [[x.var for x in row] for row in self._rows()]
        chains = [c for c in self._chains() if len(c) > 1]
        pairs = self.pick([*rows, *chains], [])
        if pairs in rows:
            start = self.draw(between(0, len(pairs) - 2))
            return pairs[start : start + 2 + self.rarely()]
        chain = pairs or [x.var for x in self.loops]
        return list(self.draw(st.permutations(chain)))[: self.draw(st.integers(1, max(1, len(chain))))]

    def _loops_and_factors(self) -> list[str | int]:
        chain = self.pick(self._chains(), [])
        return [*chain, *(self._factor() for _ in chain)]

    def _order(self) -> list[int]:
        """The dimensions of the buffer, in any order."""
        return list(self.draw(st.permutations(range(self._rank()))))[: None if not self.rarely() else 1]

    # ------------------------------------------------------------ statements, buffers, names

    def _stage(self) -> str:
        folds = [p.stmt.label for p in self.places if isinstance(p.stmt, Reduce)]
        return self.pick(folds if folds and self.draw(st.booleans()) else self.around)

    def _reader(self) -> str:
        """Another stage than the one that is chosen; mostly one that touches a buffer with it."""
        others = [label for label in self.around if label != self.chosen.get("stage")]
        near = [label for label in others if self._share(str(self.chosen.get("stage")), label)]
        return self.pick(near if near and not self.rarely() else others or self.around)

    def _after(self) -> list[str]:
        return [label for label in self._within()[:-1] if self.draw(st.booleans())]

    def _readers(self) -> list[str]:
        """Some of the stages that read what the one chosen makes, if there are any."""
        made = {b.name for p in self.places if p.stmt.label == self.chosen.get("stage") for b in p.stmt.buffers}
        found = [p.stmt.label for p in self.places if not made.isdisjoint(loaded_buffers(p.stmt))]
        return [label for label in found if self.draw(st.booleans())] or found[:1]

    def _late(self) -> list[str]:
        """Some of the stages of the loop; mostly not all of them, and the last ones."""
        within = self._within()
        if self.rarely():
            return [label for label in within if self.draw(st.booleans())]
        return within[self.draw(between(1, max(1, len(within) - 1))) :]

    def _before(self) -> str | None:
        """One of the stages of the loop that are not late."""
        late = self.chosen.get("late", ())
        return self.pick([*(label for label in self._within() if label not in late), None])

    def _within(self) -> list[str]:
        """The stages of the loop that is chosen."""
        return [label for label, around in self.around.items() if self.chosen.get("loop") in around]

    def _buffer(self) -> str:
        stage = [p.stmt for p in self.places if p.stmt.label == self.chosen.get("stage")]
        touched = [b for b in self.buffers if any(b in accessed_buffers(s) for s in stage)]
        return self.pick(touched or (self.own if self.own and not self.rarely() else self.buffers))

    def _old(self) -> str:
        if "buffer" in self.chosen:
            return self.pick([b for b in self.own or self.buffers if b != self.chosen["buffer"]])
        return self.pick([*(x.var for x in self.loops), *self.around, *self.buffers])

    def _new(self) -> str:
        return fresh_name(self.pick(("x_new", "T_new", "i_new")), taken_names(self.func))  # as no program has it

    def _name(self) -> str | None:
        return self._new() if self.rarely() else None

    def _names(self) -> tuple[str, ...] | None:
        if not self.rarely():
            return None
        first = self._new()
        return (first, fresh_name(first, {*taken_names(self.func), first}))

    # ------------------------------------------------------------ numbers, words and texts

    def _factor(self) -> int:
        """Small, and as often as not one that does not divide; of a skew also below 0."""
        return self.draw(between(-2 if "outer" in self.chosen else 1, 5))

    def _rank(self) -> int:
        return next((len(b.shape) for b in all_buffers(self.func) if b.name == self.chosen.get("buffer")), 0)

    def _dim(self) -> int:
        rank = self._rank()
        return self.pick(range(max(1, rank) + self.rarely()), 0)

    def _stages(self) -> int | tuple[str, ...]:
        """How many, or which: some of those that the loop does not hold, in their order."""
        if {p.name: hint for p, hint in _parameters(self.f)}["stages"] is not int:
            return tuple(x for x in self.around if self.draw(st.booleans()))[:3]
        return self.draw(between(1 if self.rarely() else 2, 4))

    def _registers(self) -> tuple[int, int]:
        return self.draw(st.tuples(*[st.integers(3, 32).map(lambda n: 8 * n)] * 2))

    def _shift(self) -> int | tuple[int, ...]:
        """Of one loop, or of two where one holds another."""
        one = self.draw(between(-2, 2))
        return (one, self.draw(between(-1, 1))) if self.draw(st.booleans()) else one

    def _value(self) -> float:
        return choose(self.draw, (0.0, 1.0))

    def _axis(self) -> str:
        return self.pick(AXES[:2] + AXES[3:5] if not self.rarely() else AXES)

    def _scope(self) -> str:
        return self.pick(SCOPES)

    def _dtype(self) -> str | None:
        return self.pick(sorted({b.dtype.name for b in all_buffers(self.func)})) if self.rarely() else None

    def _instruction(self) -> str:
        """Mostly one that does what the chosen loop does, if there is any."""
        nest = next((x for x in self.loops if x.var == self.chosen.get("loop")), None)
        fits = [n for n, fn in INSTRUCTIONS.items() if nest is not None and done_by(fn, nest)]
        return self.pick(fits if fits and not self.rarely() else INSTRUCTIONS)

    def _when(self) -> str:
        """A condition on the sizes and on loops around the one that is chosen."""
        inside = next(([y.var for y in loops((x,))] for x in self.loops if x.var == self.chosen.get("loop")), [])
        known = [*self.func.sizes, *(x.var for x in self.loops if self.rarely() or self._holds(x, inside))]
        return self.pick(("{v} % 2 == 0", "{v} > 2", "{v} == 1")).format(v=self.pick(known, "1"))

    def _holds(self, loop: Loop, names: list[str]) -> bool:
        """Whether `loop` is around all of `taken_names`."""
        return {*names} < {x.var for x in loops((loop,))}

    def _layout(self) -> str:
        shapes = {b.name: b.shape for b in all_buffers(self.func)}
        rank = len(shapes.get(str(self.chosen.get("buffer")), ()))
        return self.pick(LAYOUTS.get(rank, ("lambda i: i",)))


def done_by(fn: Instruction, loop: Loop) -> bool:
    """Whether `loop` does what `fn` means, on memory that `fn` works on."""
    found = unify(fn, (loop,))
    if isinstance(found, str):
        return False
    operands = [(a.buffer.scope, found.operands[a.buffer.name].buffer) for a in fn.meaning.args]
    bare = any(b.scope == scope == "fragment" and b.layout is None for scope, b in operands)
    return bare or misplaced_operand(fn, found) is None


LAYOUTS = {
    1: ("lambda i: i * 2", "lambda i: (i % 2, i // 2)", "lambda i: i + 1", "lambda i: i // 2"),
    2: (
        "lambda i, j: (j, i)", "lambda i, j: i * 7 + j", "lambda i, j: (j // 2, i, j % 2)",
        "lambda i, j: (i, (i + j) % 4)", "lambda i, j: i + j",
    ),
}  # fmt: skip
"""By the number of dimensions: transposed, packed, padded, swizzled; and some that put two elements in one place."""

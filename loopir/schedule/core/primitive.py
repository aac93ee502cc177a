"""What makes a function a primitive: arguments checked by their annotations, refusals named, the result verified.

A primitive is a pure function from a Func to a Func. `checked` wraps one so that every way of calling it, by hand
or through a Schedule, meets the same checks; `PRIMITIVES` is the one place that knows which there are.
"""

from __future__ import annotations

import inspect
import operator
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, Literal, ParamSpec, cast

from loopir.analysis.presburger.solver import effort
from loopir.errors import EASIER, MismatchError, NestingError, ScheduleError, Undecided, spelled
from loopir.ir.arguments import listed_parameters
from loopir.ir.grammar import Func, InstrRegion
from loopir.ir.recursion import deep
from loopir.ir.traverse.queries import statements
from loopir.ir.verify.verify import verify
from loopir.schedule.core.cache_hints import drop_dead_hints
from loopir.schedule.core.find import join_names
from loopir.schedule.core.trace import Step, spell

P = ParamSpec("P")
Rewrite = Callable[Concatenate[Func, P], Func]
PRIMITIVES: dict[str, Callable[..., Func]] = {}
MAX_NUMBER = 1 << 62
"""What no number that a primitive is given reaches, either way."""
_TYPED = ContextVar("_TYPED", default=True)
"""Whether a primitive that is called now is the one that the user typed, and none that it is made of."""
MOST_MADE = 8192
"""Legal steps that are known with what they made, the last ones: of all that is tried for a plan of a network, as many
are taken."""
_MADE: dict[tuple[int, str], tuple[Func, Func]] = {}
"""By the identity of a Func and a call, that Func and what the call made of it, the last ones at the end."""
_MADE_LOCK = Lock()


def checked(f: Rewrite[P]) -> Rewrite[P]:
    """`f` with its arguments checked before it and its result verified after it.

    A ScheduleError that leaves it carries the call as it was typed; where primitives call one another, the
    outermost call, which is the one that the user typed. Its result is the one that is verified, and it is known for a
    while: who asks whether a step is legal and then takes it, or takes again what was taken of the same Func, as a plan
    does that is applied, has it checked once.
    """
    name = cast("Any", f).__name__
    signature = inspect.signature(f)
    hints = typing.get_type_hints(f)

    @deep(ScheduleError)
    @wraps(f)
    def primitive(func: Func, *args: P.args, **kwargs: P.kwargs) -> Func:
        if not isinstance(func, Func):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{name} takes a Func first, not {type(func).__name__}")
        try:
            bound = signature.bind(func, *args, **kwargs)
        except TypeError as error:
            takes = listed_parameters(f, hidden=("func",))
            other = next((k for k in kwargs if k not in signature.parameters), None)
            why = str(error) if other is None else f"there is no {other}="
            raise TypeError(f"{Step(name, args, tuple(kwargs.items()))}: {why}; {name} takes {takes}") from None
        typed = _TYPED.get()
        call = spell_call(name, args, kwargs) if typed else None
        if (known := _made_before(func, call)) is not None:
            return known
        outermost = _TYPED.set(False)
        try:
            _conform(name, bound, hints)
            with effort():
                result = _decided(f, bound)
            if typed:
                result = drop_dead_hints(result)
                _verify(result)
                _remember(func, call, result)
        except ScheduleError as error:
            error.primitive, error.call = name, str(Step(name, args, tuple(kwargs.items())))
            raise
        finally:
            _TYPED.reset(outermost)
        return result

    return primitive


def spell_call(name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> str | None:
    """A call of a primitive as text, which tells it from others; None if an argument is one that may change."""
    plain = all(map(_is_plain, args)) and all(map(_is_plain, kwargs.values()))
    return str(Step(name, tuple(args), tuple(kwargs.items()))) if plain else None


def _is_plain(x: object) -> bool:
    if isinstance(x, tuple):
        return all(map(_is_plain, cast("tuple[object, ...]", x)))
    return x is None or isinstance(x, str | int)


def _made_before(func: Func, call: str | None) -> Func | None:
    """What the step `call` made of `func`, if it was taken of late, and is verified."""
    known = None if call is None else _MADE.get((id(func), call))
    return known[1] if known is not None else None


def _remember(func: Func, call: str | None, made: Func) -> None:
    if call is not None:
        with _MADE_LOCK:
            _MADE[id(func), call] = func, made  # which keeps the Func, and so its identity
            if len(_MADE) > MOST_MADE:
                del _MADE[next(iter(_MADE))]


def forget_made() -> None:
    """Forget what steps have made: for tests that took some without their checks."""
    with _MADE_LOCK:
        _MADE.clear()


def _decided(f: Callable[..., Func], bound: inspect.BoundArguments) -> Func:
    """What `f` makes of its arguments; where the solver cannot tell whether that is right, it is refused."""
    try:
        return f(*bound.args, **bound.kwargs)
    except Undecided as hard:
        raise ScheduleError(str(hard), suggestion=EASIER) from hard


def replay(func: Func, name: str, args: tuple[object, ...], kwargs: tuple[tuple[str, object], ...]) -> Func:
    """Take a step that is given as data, inside another step; a ScheduleError where it cannot be taken.

    The step around it verifies what all of them give. What may be wrong by then, and right again after the next step,
    is what instructions do: it is verified here.
    """
    if name not in PRIMITIVES:
        raise ScheduleError(f"there is no primitive {name!r}", suggestion=f"one of {join_names(sorted(PRIMITIVES))}")
    if (known := _made_before(func, spell_call(name, args, dict(kwargs)))) is not None:
        return known
    outermost = _TYPED.set(False)
    try:
        made = PRIMITIVES[name](func, *args, **dict(kwargs))
        if any(isinstance(s, InstrRegion) for s in statements(made.body)):
            _verify(made)
        return drop_dead_hints(made)
    except TypeError as error:
        raise ScheduleError(str(error), suggestion="arguments as the primitive takes them") from None
    finally:
        _TYPED.reset(outermost)


def _verify(func: Func) -> None:
    """A step may not take apart what an instruction does as a whole, nor put statements in one another that may not
    stand there; for the rest, its result is in the language."""
    try:
        verify(func, "schedule")
    except MismatchError as error:
        raise ScheduleError(str(error), suggestion="take this step before the nest is made an instruction") from None
    except NestingError as error:
        raise ScheduleError(str(error), suggestion=error.instead) from None


def lookup(name: str) -> Callable[..., Func]:
    """The primitive called `name`; AttributeError, with those that come close, if there is none."""
    if name not in PRIMITIVES:
        close = get_close_matches(name, PRIMITIVES, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else f"; there are {join_names(sorted(PRIMITIVES))}"
        raise AttributeError(f"there is no primitive {name!r}{hint}")
    return PRIMITIVES[name]


def _cure(name: str, hint: Any, wrong: object) -> str:
    """How an argument that is a name is written."""
    if hint is not str:
        return ""
    if isinstance(wrong, list | tuple) and wrong:
        return f"; names are written one by one: {name}({', '.join(spell(w) for w in cast(Sequence[object], wrong))})"
    return '; loops, stages and buffers go by name: "k"'


def _conform(name: str, bound: inspect.BoundArguments, hints: dict[str, Any]) -> None:
    """Check each argument against its annotation, in place: counts become int, lists become tuples."""
    for key, value in bound.arguments.items():
        if key not in hints or key == next(iter(bound.arguments)):
            continue
        many = bound.signature.parameters[key].kind is inspect.Parameter.VAR_POSITIONAL
        try:
            given = tuple(conform(v, hints[key]) for v in value) if many else conform(value, hints[key])
        except TypeError:
            wrong = next((v for v in value if not _fits(v, hints[key])), value) if many else value
            cure = _cure(name, hints[key], wrong)
            raise TypeError(f"{name}: {key} is {spell_hint(hints[key])}, not {spell(wrong)}{cure}") from None
        except ValueError:
            one_of = join_names(spell(a) for a in typing.get_args(hints[key]))
            raise ScheduleError(f"{key} is one of {one_of}, not {spell(value)}", suggestion=f"{key}={one_of}") from None
        _require_small(key, given)
        bound.arguments[key] = given


def _require_small(key: str, value: object) -> None:
    """Loops count in 64 bits, and so do the sums of what two steps are given."""
    if isinstance(value, tuple):
        for part in cast("tuple[object, ...]", value):
            _require_small(key, part)
    elif isinstance(value, int) and abs(value) >= MAX_NUMBER:
        raise ScheduleError(
            f"{key} is {spelled(value)}, and loops count in 64 bits", suggestion=f"a number below {spelled(MAX_NUMBER)}"
        )


def _fits(value: object, hint: Any) -> bool:
    try:
        conform(value, hint)
    except (TypeError, ValueError):
        return False
    return True


def conform(value: Any, hint: Any) -> Any:
    """`value` as the annotation `hint` wants it; TypeError if it cannot be, ValueError if it is no such choice."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if not isinstance(value, type(options[0])):
            raise TypeError
        if value not in options:
            raise ValueError
        return value
    if origin in (typing.Union, types.UnionType):
        return _first(value, options)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        wanted = [options[0]] * len(items) if options[-1] is Ellipsis else list(options)
        if len(wanted) != len(items):
            raise TypeError
        return tuple(conform(v, h) for v, h in zip(items, wanted, strict=True))
    if hint is int:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    if hint is None:
        hint = types.NoneType
    if isinstance(hint, type) and not isinstance(value, hint):
        raise TypeError
    return value


def _first(value: Any, options: tuple[Any, ...]) -> Any:
    for option in options:
        try:
            return conform(value, option)
        except TypeError:
            continue
    raise TypeError


def spell_hint(hint: Any) -> str:
    """An annotation as source: `tuple[str, str] | None`."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if hint is None or hint is types.NoneType:
        return "None"
    if hint is Ellipsis:
        return "..."
    if origin is Literal:
        return f"Literal[{', '.join(map(spell, options))}]"
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(spell_hint, options))
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(spell_hint, options))}]"
    return hint.__name__ if isinstance(hint, type) else str(hint)

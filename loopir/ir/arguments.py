"""What is wrong with the arguments of a call, in a sentence that lists those that there are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar, cast

from loopir.errors import LoopirError, asked_frames

F = TypeVar("F", bound=Callable[..., Any])


def listed_parameters(function: Callable[..., Any], hidden: Collection[str] = ("self", "cls")) -> str:
    """The parameters of `function` as a call writes them: `name=` for those that are given by name alone; none that are
    `hidden`."""
    marks = {Parameter.KEYWORD_ONLY: "{}=", Parameter.VAR_POSITIONAL: "*{}", Parameter.VAR_KEYWORD: "**{}"}
    found = [p for p in signature(function).parameters.values() if p.name not in hidden]
    return ", ".join(marks.get(p.kind, "{}").format(p.name) for p in found) or "no arguments"


def wrong_arguments(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Which argument of a call is missing or too much, and what `function` takes; None if the call fits."""
    try:
        signature(function).bind(*args, **kwargs)
    except TypeError as error:
        return f"{_public_name(function)}: {error}; it takes {listed_parameters(function)}"
    return None


def _public_name(function: Callable[..., Any]) -> str:
    return function.__name__ if function.__name__ != "__init__" else function.__qualname__.split(".")[0]


def answer_arguments(function: F) -> F:
    """`function`, which answers a call that lacks an argument or has one too many with what it takes, and whose errors
    show the lines of who called it, but for one."""

    @wraps(function)
    def answering(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            if (told := wrong_arguments(function, args, kwargs)) is not None:
                raise TypeError(told) from None
            raise
        except LoopirError as told:
            raise told.with_traceback(asked_frames(told))  # noqa: B904  (the same error)

    return cast(F, answering)

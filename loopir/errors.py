"""The exception tree. Every error a user can meet is one of these, or a plain TypeError or ValueError at a call."""

from __future__ import annotations

from collections.abc import Sequence
from os import environ, sep
from pathlib import Path
from traceback import extract_tb, format_list
from types import TracebackType

from loopir.witness import Witness as Witness, page, pairs as pairs


class LoopirError(Exception):
    """Base of every error that loopir raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """What IPython prints: the lines of the person who asked, and the words."""
        asked = [
            f for f in extract_tb(self.__traceback__) if not (f.filename.startswith(_PACKAGE) or _SHELL in f.filename)
        ]
        return [*format_list(asked), f"{type(self).__name__}: {self}"]


def asked_frames(error: LoopirError) -> TracebackType | None:
    """The traceback of `error` without the frames of this package, for a sentence that says what is to be done; whole
    where LOOPIR_TRACEBACK=full asks for that."""
    whole = error.__traceback__
    if environ.get("LOOPIR_TRACEBACK") == "full":
        return whole
    frames: list[TracebackType] = []
    while whole is not None:
        frames.append(whole)
        whole = whole.tb_next
    kept: TracebackType | None = None
    for t in reversed(frames):
        if not t.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            kept = TracebackType(kept, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return kept


class ParseError(LoopirError, SyntaxError):
    """A loop nest written as text or as a Python function is not in the language."""


class VerifyError(LoopirError):
    """A Func breaks a rule of the stage it is at; the message names the node and the rule."""


class MismatchError(VerifyError):
    """A nest is not, or is no longer, what the instruction around it does."""


class NestingError(VerifyError):
    """A statement may not stand in what is around it, though both are legal alone; `.instead` says what to do first.

    Steps that move statements, memory or loops can come to that; such a step is refused.
    """

    def __init__(self, message: str, instead: str) -> None:
        super().__init__(message)
        self.instead = instead


class ExprError(LoopirError, ValueError):
    """A tensor expression is ill-formed: mismatched shapes, dtypes or axes."""


class ModelError(LoopirError, ValueError):
    """A model in another format cannot be read.

    `.missing` lists the operators that loopir does not have, `.needs` the inputs whose values decide shapes.
    """

    def __init__(self, message: str, *, missing: Sequence[str] = (), needs: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.missing, self.needs = tuple(missing), tuple(needs)


class Undecided(LoopirError):
    """Whether something holds was not found out: the proof would take the integer solver too long. So it was not done.

    A primitive that meets it is refused, with a ScheduleError that says so.
    """

    def __init__(self) -> None:
        super().__init__(TOO_HARD)


TOO_HARD = "whether it is right was not decided, as the integer solver would take too long over it"
EASIER = "take it earlier, on a nest of fewer splits, guards and quotients, or with sizes that are numbers"
"""What makes questions easier."""


class LowerError(LoopirError):
    """A scheduled Func cannot be lowered for the target that was asked for."""


class CompileError(LoopirError):
    """A backend compiler (NVRTC or LLVM) turned the emitted source down. `.source` holds it, `.log` says why."""

    def __init__(self, message: str, *, source: str = "", log: str = "") -> None:
        super().__init__(message)
        self.source = source
        self.log = log


class TargetError(LoopirError):
    """The target is unknown, is not there, or lacks a resource the kernel needs."""


class BoundsError(LoopirError, IndexError):
    """A program met a subscript outside its array: it touched nothing there, and its results are incomplete."""


class NanError(LoopirError, FloatingPointError):
    """A statement of a kernel that was built with `checks=True` stored nan; the message has the first iteration."""


class InterpretError(LoopirError):
    """The interpreter met an out-of-bounds access, a race, a divergent barrier or a read of unwritten memory."""


class InterpretBoundsError(InterpretError, BoundsError):
    """The interpreter met a subscript outside its array, or an index that divides by what is not positive."""


def spelled(number: int) -> str:
    """`number` by its digits, or about how large it is: Python does not spell integers of thousands of digits."""
    bits = abs(number).bit_length()
    if bits <= 64:
        return str(number)
    power = abs(number) == 1 << (bits - 1)
    return f"{'' if power else 'about '}{'-' if number < 0 else ''}2^{bits - power}"


def literal(number: int) -> str:
    """`number` as Python source, however large: Python reads and writes thousands of digits in base 16 alone."""
    return str(number) if number.bit_length() <= 4096 else hex(number)


def positive(divisor: int, source: str) -> int:
    """`divisor`; ValueError if it cannot be divided by, as the sizes of a call may bring it about."""
    if divisor < 1:
        raise ValueError(f"the program divides by {source}, which is {divisor}; a divisor is at least 1")
    return divisor


class ScheduleError(LoopirError):
    """A primitive was refused; the Schedule it was called on is unchanged.

    `.primitive`, `.loop` and `.call` (as it was typed) say what was asked, `.witness` shows the two clashing
    iterations where there are any, `.suggestion` says what would be legal.
    """

    def __init__(
        self,
        reason: str,
        *,
        primitive: str | None = None,
        loop: str | None = None,
        witness: Witness | None = None,
        suggestion: str | None = None,
    ) -> None:
        self.reason = reason
        self.call: str | None = None
        self.primitive = primitive
        self.loop = loop
        self.witness = witness
        self.suggestion = suggestion
        super().__init__(reason)

    def __str__(self) -> str:
        asked = self.call or self.primitive
        parts = [self.reason if asked is None else f"{asked}: {self.reason}"]
        if self.witness is not None:
            parts.append(f"  {self.witness}")
        if self.suggestion is not None:
            parts.append(f"  instead: {self.suggestion}")
        return "\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: the same words, and the two iterations drawn."""
        return page(str(self), "" if self.witness is None else self.witness.svg())

    def _render_traceback_(self) -> list[str]:
        """What IPython prints: the lines of the person who asked, the words, and the two iterations on a grid."""
        return [*super()._render_traceback_(), *([] if self.witness is None else ["", self.witness.drawn()])]


_PACKAGE, _SHELL = f"{Path(__file__).parent}{sep}", f"{sep}IPython{sep}"
"""Files whose lines a person who schedules did not write."""

"""Records: what was measured of a program on a machine, as lines of JSON that hold names, numbers and steps, no code.

A record is of one candidate: what it is called, the values of its knobs, the steps that make it of the program in
canonical names, and how it went. A record of kind "winner" ends a run of the tuner. What is read from a file is checked
field by field, and its steps are proved again when they are applied; what does not pass is refused with a sentence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, cast

import loopir as lp

from ..plan import Trace, frozen

FORMAT = 1
"""Of a line; one of another is foreign."""
MOST_BYTES = 4 << 20
"""Of a line: a longer one is no record."""
OUTCOMES = ("ok", "wrong", "crashed", "hung", "out of memory", "failed")
"""How a candidate went: it gave the program's result, or another, or it ended its process, or did not end, or asked for
more memory than there is, or could not be scheduled or built."""
LAST = 2.0**37
"""Seconds after 1970 of the last day that there is: the year 6325, which a calendar of four digits has."""
KINDS = ("candidate", "winner")
EFFORTS = ("none", "quick", "full")


@dataclass(frozen=True)
class Subject:
    """What is tuned: a program by its canonical text, at sizes, on a machine, by a version of loopir."""

    program: str
    sizes: tuple[tuple[str, int], ...]
    target: str
    machine: str
    version: str = lp.__version__

    @property
    def key(self) -> str:
        """64 digits by which records of it are found."""
        return _digest(json.dumps([self.program, self.sizes, self.target, self.machine, self.version]))


def label_of(name: str, knobs: Iterable[tuple[str, Any, Any]]) -> str:
    """What a candidate is called where it is listed: its recipe, and knobs with another value than the formula's."""
    return ", ".join([name, *(f"{key} = {value}" for key, value, _ in knobs)])


@dataclass(frozen=True)
class Record:
    """How one candidate went, or, of kind "winner", which one a run of the tuner chose."""

    subject: Subject
    kind: str
    name: str
    knobs: tuple[tuple[str, Any, Any], ...]
    """Those with another value than the formula's: "knob(stage)", the value, and the formula's."""
    trace: Trace
    outcome: str
    said: str = ""
    """What was wrong, in a sentence."""
    seconds: float = 0.0
    """The median of a run; 0 where none was timed."""
    first_seconds: float = 0.0
    """That of the formula's choice, in the same blocks."""
    predicted: float = 0.0
    bytes: float = 0.0
    samples: int = 0
    effort: str = "quick"
    p50: float = 0.0
    p99: float = 0.0
    when: float = 0.0
    """Seconds since 1970."""

    @property
    def label(self) -> str:
        """What it is called where it is listed."""
        return label_of(self.name, self.knobs)

    def line(self) -> bytes:
        """The record as a line, which begins with its key and a digest of the rest."""
        text = json.dumps(asdict(self), sort_keys=True)
        head = f'{{"loopir record": {FORMAT}, "key": "{self.subject.key}", "digest": "{_digest(text)[:16]}", "record": '
        return f"{head}{text}}}\n".encode()


class Refused(ValueError):
    """A line is no record that can be used; the message says why."""


def parse_record(line: bytes) -> Record:
    """The record in `line`; Refused, with a sentence, for what is damaged, of another format, or not what it says."""
    if len(line) > MOST_BYTES:
        raise Refused(f"a line of {len(line)} bytes is no record, which has at most {MOST_BYTES}")
    try:
        read: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise Refused("a line is no JSON: it is damaged, or was cut off") from None
    if not isinstance(read, dict) or "loopir record" not in read:
        raise Refused("a line is no record of loopir's tuner")
    whole = cast("dict[str, Any]", read)
    if whole["loopir record"] != FORMAT:
        raise Refused(f"a record is of format {whole['loopir record']!r}, and this loopir reads {FORMAT}")
    try:
        body = whole["record"]
        if _digest(json.dumps(body, sort_keys=True))[:16] != whole["digest"]:
            raise Refused("a record is damaged: its digest is another")
        found = _record(body)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"a record lacks a field, or has one of another type: {error}") from None
    if found.subject.key != whole["key"]:
        raise Refused("a record is filed under the key of another program or machine")
    return found


def _record(body: Any) -> Record:
    s = body["subject"]
    sizes = tuple((_text(n), int(v)) for n, v in s["sizes"])
    subject = Subject(_text(s["program"]), sizes, _text(s["target"]), _text(s["machine"]), _text(s["version"]))
    if any(x != _printable(x) for x in (subject.program.replace("\n", ""), subject.target, subject.machine)):
        raise Refused("a record has a program or a machine with characters that are not printable")
    given: dict[str, Any] = {f.name: body[f.name] for f in fields(Record) if f.name != "subject"}
    for name in ("seconds", "first_seconds", "predicted", "bytes", "p50", "p99", "when"):
        given[name] = float(given[name])
        if not 0.0 <= given[name] < float("inf"):
            raise Refused(f"a record has {name} of {given[name]}")
    if given["when"] > LAST:
        raise Refused(f"a record was made {given['when']} seconds after 1970")
    for name in ("kind", "name", "outcome", "said", "effort"):
        given[name] = _printable(_text(given[name]))
    for name, known in (("kind", KINDS), ("outcome", OUTCOMES), ("effort", EFFORTS)):
        if given[name] not in known:
            raise Refused(f"a record has {name} {given[name]!r}, which is none of {', '.join(known)}")
    given["samples"] = int(given["samples"])
    given["knobs"] = tuple((_printable(_text(k)), _printable(v), f) for k, v, f in frozen(given["knobs"]))
    given["trace"] = _trace(frozen(given["trace"]))
    return Record(subject, **given)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _printable(value: Any) -> Any:
    """Text as it may be printed: what moves a terminal's cursor, or ends the line, is a space. The rest as it is."""
    return "".join(c if c.isprintable() else " " for c in value) if isinstance(value, str) else value


def _trace(steps: Any) -> Trace:
    """Steps as they were frozen, each a name, arguments and keyword arguments."""
    for name, args, kwargs in steps:
        if not isinstance(name, str) or not isinstance(args, tuple) or not isinstance(kwargs, tuple):
            raise TypeError("a step is a name, arguments and keyword arguments")
        for key, _ in cast("tuple[tuple[Any, Any], ...]", kwargs):
            _text(key)
    return steps


def apply_record(s: lp.Schedule, found: Record) -> lp.Schedule:
    """`s` after the steps of the record, each of which is proved. Refused, with a sentence, where one is not legal."""
    if not found.trace:
        return s
    try:
        return s.schedule_nests((s.stages, found.trace))
    except lp.LoopirError as error:
        said = error.reason if isinstance(error, lp.ScheduleError) else str(error).splitlines()[0]
        raise Refused(f"a step of the record {found.name!r} is not legal for this program: {said}") from None
    except Exception as error:
        raise Refused(f"the steps of the record {found.name!r} are damaged: {type(error).__name__}") from None


def subject_of(s: lp.Schedule, target: str, machine: str, sizes: Mapping[str, int] | None = None) -> Subject:
    """The key of `s` in a database: programs that differ in names alone have the same one."""
    given = dict(sizes or {})
    unknown = sorted(set(given) - set(s.func.sizes))
    if unknown:
        raise ValueError(
            f"{s.func.name} has no size {unknown[0]!r}; its sizes are {', '.join(s.func.sizes) or 'fixed'}"
        )
    at = tuple((n, int(given.get(n, 1024))) for n in s.func.sizes)
    return Subject(lp.text(canonical(s).func), at, target, machine)


def canonical(s: lp.Schedule) -> lp.Schedule:
    """The program in canonical names, in which steps are recorded."""
    return lp.Schedule(lp.extract(s.func, s.stages).func) if s.stages else s


def machine_name(target: str, arch: str | None = None) -> str:
    """What records call this machine: its CPU and the threads that run, or its GPU."""
    return _machine_name(target, arch, lp.thread_count())


@lru_cache(maxsize=16)
def _machine_name(target: str, arch: str | None, threads: int) -> str:
    if target == "llvm":
        return f"{lp.describe_target('llvm').rpartition(',')[0]}, {threads} threads"
    try:
        return lp.describe_target(target)
    except lp.TargetError:
        return lp.machine(arch).arch


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""A plan: which stages of a program run together, how, at what predicted price, and why not otherwise.

A plan is data: groups of stages with the steps that schedule each, and the log of what was considered. The steps are
ordinary primitives, so that applying a plan proves every one of them again, as does loading one from JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import loopir as lp

from .llvm.serial_loops import SerialLoop, serial_loops
from .plan_page import plan_page

VERSION = 2
Trace = tuple[tuple[str, tuple[object, ...], tuple[tuple[str, object], ...]], ...]
"""Steps as data: the primitive, its arguments, its keyword arguments; names are those of the group by itself."""


@dataclass(frozen=True)
class Group:
    """Stages that are scheduled together: the rule that was cheapest (`how`), its steps, and its price."""

    stages: tuple[str, ...]
    how: str
    trace: Trace
    seconds: float
    kernels: int
    bytes: float
    temp_bytes: float
    candidates: tuple[tuple[str, float], ...] = ()
    """What other rules would cost, in seconds."""
    refused: tuple[tuple[str, str], ...] = ()
    """Rules that matched and gave nothing, each with what was said."""

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        kernels = f"{self.kernels} kernel{'s' * (self.kernels != 1)}"
        return f"{' + '.join(self.stages)}: {self.seconds * 1e6:.1f} us, {kernels}, {self.how}"


@dataclass(frozen=True)
class Decision:
    """Whether two groups became one, and why: seconds before and after, or who refused."""

    kind: str
    """What they have to do with one another: "producer", "shared input", "alike", or "pin", "veto", "split"; "move",
    where nests left a group for another, or for none; "work", of no group, where planning stopped."""
    a: tuple[str, ...]
    b: tuple[str, ...]
    before_us: float
    after_us: float
    accepted: bool
    reason: str = ""
    refused: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        sign, cost = "+" if self.accepted else "-", ""
        if not self.a:
            return f"{sign} {self.kind}: {self.reason}"
        if self.after_us or self.before_us:
            cost = f" {self.before_us:.1f} -> {self.after_us:.1f} us"
        told = f" {self.reason}" if self.reason else ""
        said = "".join(f"\n      {rule}: {why}" for rule, why in self.refused)
        return f"{sign} {self.kind}: {' + '.join(self.a)} | {' + '.join(self.b)}{cost}{told}{said}"


@dataclass(frozen=True)
class Plan:
    """Groups in the order in which they run, and the log. `apply()` gives the Schedule."""

    program: lp.Schedule
    groups: tuple[Group, ...]
    decisions: tuple[Decision, ...]
    target: str
    arch: str | None
    sizes: Mapping[str, int]
    peak_bytes: float
    evaluated: int = 0
    """Groups whose candidates were scheduled and priced; alike ones count once."""
    edited: Callable[..., Plan] | None = field(default=None, compare=False, repr=False)
    """What makes another plan of this one, by `edit`."""
    is_measured: bool = False
    """Whether the seconds of its groups were measured; else they are predicted."""

    @property
    def seconds(self) -> float:
        """Seconds of all groups, launches included: predicted, unless `is_measured`."""
        return sum(g.seconds for g in self.groups)

    @property
    def kernels(self) -> int:
        return sum(g.kernels for g in self.groups)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        kernels = f"{self.kernels} kernel{'s' * (self.kernels != 1)}"
        on = self.target if self.arch is None else f"{self.target} {self.arch}"
        how = "measured" if self.is_measured else "predicted"
        head = f"{self.seconds * 1e6:.1f} us {how} on {on}, {kernels}, {self.peak_bytes / 1e6:.1f} MB between"
        return "\n".join([head, *(f"  {g}" for g in self.groups), *(f"  {x}" for x in self.serial)])

    @cached_property
    def serial(self) -> tuple[SerialLoop, ...]:
        """On a CPU, loops that run neither on threads nor by vectors, and why; of other targets none."""
        return serial_loops(self.apply()) if self.target == "llvm" else ()

    def group(self, stage: str) -> Group:
        """The group that `stage` is in; ScheduleError, with the stages there are, if it is in none."""
        found = next((g for g in self.groups if stage in g.stages), None)
        if found is None:
            known = ", ".join(x for g in self.groups for x in g.stages)
            raise lp.ScheduleError(f"there is no stage {stage!r}; there are {known}")
        return found

    def why(self, a: str, b: str | None = None) -> str:
        """Why two stages are in one group, or are not: what was decided about the groups that they were in.

        Of one stage, why it is scheduled as it is: what each rule would cost, and which were refused; on a CPU, why
        a loop of it is neither parallel nor vector.
        """
        g = self.group(a)
        if b is None:
            lines = [str(g), *(f"  {how}: {seconds * 1e6:.1f} us" for how, seconds in g.candidates)]
            lines += [f"  {how}: {said}" for how, said in g.refused]
            return "\n".join([*lines, *(f"  {x}" for x in self.serial if x.stage == a)])
        together = b in g.stages
        self.group(b)
        about = [d for d in self.decisions if (a in d.a and b in d.b) or (b in d.a and a in d.b)]
        head = f"{a} and {b} are {'in one group' if together else 'apart'}"
        if not about:
            return f"{head}: nothing was gained by asking, as they share no memory and are not alike"
        return "\n".join([head, *(f"  {d}" for d in about)])

    def diff(self, other: Plan) -> str:
        """What `other` does otherwise: groups of one and not of the other, with their prices."""
        mine, theirs = ({(g.stages, g.how): g for g in p.groups} for p in (self, other))
        lines = [f"{self.seconds * 1e6:.1f} -> {other.seconds * 1e6:.1f} us"]
        lines += [f"- {g}" for key, g in mine.items() if key not in theirs]
        lines += [f"+ {g}" for key, g in theirs.items() if key not in mine]
        return "\n".join(lines) if len(lines) > 1 else ""

    def edit(
        self,
        fuse: Sequence[Sequence[str]] = (),
        split: Sequence[Sequence[str]] = (),
        how: Mapping[str, str] | None = None,
    ) -> Plan:
        """This plan with stages fused into one group, with stages taken apart, or scheduled by a rule of that name.

        `fuse` and `split` list stages that are to be in one group, and in groups of their own; `how` says by a stage
        of a group which rule schedules it. Everything else stays. ScheduleError for what cannot be, and why.
        """
        assert self.edited is not None
        return self.edited(self, fuse, split, how or {})

    def apply(self) -> lp.Schedule:
        """The program with every group scheduled: each step is proved as it is taken."""
        return self.program.schedule_nests(*((g.stages, g.trace) for g in self.groups))

    def view(self, path: str | Path | None = None) -> Path:
        """Write the plan as one HTML page, and give its path: groups as a graph, their costs, every decision.

        Without a `path`, it is named after the program, in the current directory.
        """
        written = Path(path) if path is not None else Path(f"{self.program.func.name}_plan.html")
        written.write_text(plan_page(self), encoding="utf-8")
        return written

    def json(self) -> str:
        """The plan as JSON: the steps of each group and what was predicted; no code."""
        groups = [
            {"stages": g.stages, "how": g.how, "trace": g.trace, "seconds": g.seconds, "kernels": g.kernels,
             "bytes": g.bytes, "temp_bytes": g.temp_bytes}
            for g in self.groups
        ]  # fmt: skip
        whole = {
            "loopir plan": VERSION, "target": self.target, "arch": self.arch, "sizes": dict(self.sizes),
            "program": lp.text(self.program.func), "peak_bytes": self.peak_bytes, "measured": self.is_measured,
            "groups": groups,
        }  # fmt: skip
        return json.dumps(whole, indent=1)


def frozen(value: Any) -> Any:
    """Lists as tuples, all the way down; TypeError for what is no plain data."""
    if isinstance(value, list | tuple):
        return tuple(frozen(x) for x in value)  # pyright: ignore[reportUnknownVariableType]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{value!r} is no plain data")


def flat(trace: Sequence[Any]) -> Trace:
    """The primitives of a trace as plain data, composites by what they hold."""
    out: list[Any] = []
    for step in trace:
        if step.steps:
            out += flat(step.steps)
        else:
            out.append((step.name, frozen(step.args), frozen(step.kwargs)))
    return tuple(out)

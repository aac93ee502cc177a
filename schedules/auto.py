"""A good schedule for a target, chosen from the structure of the nest."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import loopir as lp

from .cuda.auto_gpu import gpu
from .cuda.cheapest import Choices, Observer, observing, remembering
from .cuda.steps_in_blocks import in_steps
from .forms import in_faster_form
from .greedy import MOST_WHOLE
from .llvm.auto_cpu import cpu
from .normal_form import normal_form
from .planner import Planner, least_seconds
from .rules import View, has_rules_of_users, plans_may_differ
from .tuning.lookup import find_tuned

WORTH, GAIN = 0.98, 1.0e-5
"""What part of the seconds of the program as one group a plan is to take, at most, to be worth another schedule; and
the seconds that there are to save, at least, for planning to be worth its time."""

DISTANT = 1.5
"""How many times the least seconds the program as one group takes, at least, for planning to be worth its time where
there is less than that to save."""

DISTANT_ALONE = 10.0
"""The same where that is one kernel without products, which a plan seldom betters. One of a sort and
of sums of what it gives was predicted at 3.6 ms, where apart they take 0.11."""

MOST_AT_ONCE = 16
"""Nests of a program with products, at most, that is tried as one group on a GPU before it is planned, as recipes for
chains of products take all of one, and plans begin with two nests: gradients of attention with heads that share keys
are 13. On a CPU plans of so many are faster, so it is no `MOST_WHOLE`."""

MISS = 1.5
"""How far predictions for CPUs are off, at most programs (benchmarks/results/cpu_predict.txt)."""


def auto(
    s: lp.Schedule, target: str = "auto", arch: str | None = None, *, observer: Observer | None = None
) -> lp.Schedule:
    """`s` scheduled for `target`: "cuda", "llvm", or "auto" for the one that is there; "interpret" leaves it alone.

    `arch` is the GPU's architecture, as `lp.machine` takes it ("sm_90a"; "sm_90" is the same): what is made fits it and
    uses what it has, on sm_90a products by warpgroups. Unless told, it is that of the GPU in this machine; without one,
    what is made runs on every GPU of sm_80 and later. What `tune` has found for this program on this machine is taken
    from the tuning database (`default_database`), its steps proved again; else a formula chooses. `observer` is called
    with the candidates (`schedules.Candidate`) of each comparison of recipes by price, and the one that is taken.
    Raises TargetError for a target or an architecture that there is not, and names those there are.
    """
    if not isinstance(s, lp.Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"auto takes a Schedule, as lp.Schedule(A @ B), and is given a {type(s).__name__}")
    target = lp.resolve_target(target)
    found = None if target == "interpret" else find_tuned(s, target, arch)
    with observing(observer), remembering(Choices()):
        return choose_by_formula(s, target, arch) if found is None else found[0]


def choose_by_formula(s: lp.Schedule, target: str, arch: str | None = None) -> lp.Schedule:
    """As `auto`, by formulas alone: no database is asked. `target` is none of those that stand for another."""
    match target:
        case "cuda":
            return _gpu(s, lp.machine(arch if arch is not None else lp.local_machine() or "portable"))
        case "llvm":
            made = _tried(lambda: _cpu(s))
            return s if made is None or _tried(lambda: _slower(made, s)) else made
        case _:
            return s


def _cpu(s: lp.Schedule) -> lp.Schedule:
    """The program for a CPU; as planned, where users have added rules, a product's batch lies along memory, or there
    are many nests with products: hardly one loop takes all of these, and each step on the whole takes time for all."""
    if s.trace or (s.func.sizes and not has_rules_of_users("llvm")):
        return cpu(s)
    many = len(lp.nests(s.func)) > MOST_WHOLE and bool(View(s, "llvm").products)
    return Planner(s, "llvm", None, {}).plan().apply() if many or plans_may_differ(s, "llvm") else cpu(s)


def _slower(made: lp.Schedule, s: lp.Schedule) -> bool:
    """Whether a CPU is predicted to be slower with what was made than with `s`, by more than predictions are off, on
    one thread and on as many as there are. Of programs for all sizes nothing is known that holds for each, and of
    instructions that a schedule names itself nothing at all: predictions take each for the loops that it stands for."""
    if s.func.sizes or made.instructions:
        return False
    prices = ((lp.predict(made, "llvm", threads=n), lp.predict(s, "llvm", threads=n)) for n in (1, None))
    return all(after.seconds > MISS * before.seconds for after, before in prices)


def _gpu(s: lp.Schedule, machine: lp.Machine) -> lp.Schedule:
    """The program as one group; where that is several kernels, as planned, if that is predicted to be faster.

    A plan is of programs that no step was taken on; sizes that are not known are taken for 1024 there. A program of
    more than `MOST_AT_ONCE` nests with products is planned at once, as it is hardly one kernel. What no schedule
    takes stays as written.
    """
    outputs, nests = sum(a.access != "in" for a in s.func.args), len(lp.nests(s.func))
    if s.trace or nests <= MOST_AT_ONCE or not View(s, "cuda").products:
        made = _runs_on(lambda: gpu(s, arch=machine), machine)
        small = nests < 2 or (nests == 2 and outputs == 1)
        if s.trace or (small and not plans_may_differ(s, "cuda") and (made is None or normal_form(s) is s)):
            return s if made is None else made
        if made is not None:
            return _whole_or_planned(s, made, machine, small=small)
    found = _tried(lambda: _planned(s, machine, float("inf")))
    return s if found is None else found


def _whole_or_planned(s: lp.Schedule, made: lp.Schedule, machine: lp.Machine, *, small: bool) -> lp.Schedule:
    """`made`, the program as one group, or what is planned, if there is enough to save and that is faster; what users
    have added rules for is always planned."""
    whole, nests = lp.predict(made, "cuda", arch=machine), len(lp.nests(s.func))
    least = max(least_seconds(s, machine), _seconds_in_steps(s, made, machine))
    distant = whole.seconds > DISTANT * least
    one = whole.kernels < 2 and nests <= MOST_WHOLE and not small
    best = one and (whole.seconds <= DISTANT_ALONE * least or bool(View(s, "cuda").products))
    worth = not best and (distant or whole.seconds - least >= GAIN)
    if not (worth or has_rules_of_users("cuda")):
        return made
    found = _tried(lambda: _planned(s, machine, WORTH * whole.seconds))
    return made if found is None else found


def _seconds_in_steps(s: lp.Schedule, made: lp.Schedule, machine: lp.Machine) -> float:
    """Seconds that a plan of `s` takes at least for nests in steps that wait for one another, of which it makes the
    same kernels as `made` has, if there are several; and for launching these, and what `made` has before, between and
    after them."""
    stages = {nest.stages[0] for nest in lp.nests(s.func) if nest.stages and in_steps(s, nest.stages[0])}
    if not stages:
        return 0.0
    sizes = dict.fromkeys(made.func.sizes, lp.TYPICAL_SIZE)
    kernels, nests = made.report(arch=machine.arch, **sizes).kernels, lp.nests(made.func)
    if len(kernels) != len(nests) or len(kernels) < 2:
        return 0.0
    found = [k.total for k, nest in zip(kernels, nests, strict=True) if stages.intersection(nest.stages)]
    return sum(found) + machine.launch * min(len(kernels), 2 * len(found) + 1)


def _planned(s: lp.Schedule, machine: lp.Machine, most: float) -> lp.Schedule | None:
    """`s` as planned, if that takes fewer seconds than `most`: each of its groups was lowered when it was priced, and
    kernels are lowered one by one, so that the whole need not be."""
    planner = in_faster_form(Planner(s, "cuda", machine, {}))
    if most < float("inf") and planner.program is s:  # `gpu` was tried on all of it
        planner.whole_tried = frozenset(("fused",))
    found = planner.plan()
    return found.apply() if found.seconds < most else None


def _runs_on(schedule: Callable[[], lp.Schedule | None], machine: lp.Machine) -> lp.Schedule | None:
    """What `schedule` gives, if a GPU takes it."""

    def lowered() -> lp.Schedule | None:
        made = schedule()
        with lp.scheduling_for(machine):
            if made is not None:
                lp.lower(made, "cuda")
        return made

    return _tried(lowered)


T = TypeVar("T")


def _tried(schedule: Callable[[], T]) -> T | None:
    """What `schedule` gives; None where a step is refused, and, with a warning, where a recipe fails."""
    try:
        return schedule()
    except lp.LoopirError:
        return None
    except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        told = f"schedules.auto: a recipe failed, and is left out: {type(error).__name__}: {error}"
        warnings.warn(told, RuntimeWarning, stacklevel=2)
        return None

"""What primitives refuse and accept, beside what is legal: the verdicts that a campaign counts.

Steps are drawn on random affine programs. One that is refused is taken all the same, without its checks, and both
programs are run at every small size (`loopir.testing.oracles.brute_force`): where nothing changes, a legal step was
refused. One that is accepted is run, too. Where there is nothing to take, as the step is refused for its form alone,
nothing is counted but that.
"""

from __future__ import annotations

import traceback
from dataclasses import replace

from hypothesis import strategies as st

from loopir.errors import LoopirError, ScheduleError, Undecided
from loopir.ir.grammar import FloorDiv, Func, Int, Mod, Mul
from loopir.ir.printer import text
from loopir.ir.traverse.walk import nodes, replace_loop
from loopir.schedule import Schedule
from loopir.schedule.core.find import find_loop
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.core.trace import Step
from loopir.testing.generate.draws import between
from loopir.testing.generate.families import FAMILIES, FROM_MEMORY, documented, forms
from loopir.testing.generate.gpu_families import BOXES
from loopir.testing.generate.guarded import guarded
from loopir.testing.generate.steps import EXACT, schedules
from loopir.testing.generate.strategies import funcs
from loopir.testing.oracles.brute_force import first_violation, larger_sizes, observed, runs, small_sizes, tagged
from loopir.testing.oracles.unchecked import unchecked

VERDICTS = ("accepted", "accepted, illegal", "refused", "refused, legal", "no rewrite", "crash", "slow")
BEFORE = ("split", "reorder", "fuse", "compute_at", "cache_read", "decompose_reduction", "distribute", "fuse_loops")
"""Steps that a program may have been through already."""
REPEATS = ("compute_at", "compute_inline", "split", "tile", "unroll_and_jam")
"""Steps that may let an instance run more often."""
ALGEBRAIC = ("use_partials",)
"""Steps by which values come about in another way, from the same statements."""
JUDGED = EXACT
AFFINE = tuple(name for name in FAMILIES if name not in (*FROM_MEMORY, *BOXES))


StepOutcome = Func | ScheduleError | str
"""What a step came to: a program, a refusal, or what was told of a crash."""


def verdict(func: Func, step: Step) -> tuple[str, str]:
    """One of VERDICTS on a step, and what was said or is broken. Raises a refusal by which nothing was decided."""
    after = take(func, step)
    if isinstance(after, ScheduleError) and isinstance(after.__cause__, Undecided):
        raise after
    return judge_taken(func, step, after)


def take(func: Func, step: Step) -> StepOutcome:
    """Take a step: all that loopir itself does."""
    try:
        s = Schedule(func)
        refusal = s.why(step.name, *step.args, **dict(step.kwargs))
        return s.apply(step).func if refusal is None else refusal
    except ScheduleError as error:
        return error
    except Exception:
        return traceback.format_exc()


def judge_taken(func: Func, step: Step, after: StepOutcome) -> tuple[str, str]:
    """One of VERDICTS on what a step came to, and what was said or is broken."""
    if isinstance(after, ScheduleError):
        return _on_refusal(func, step, after)
    if isinstance(after, str):
        return "crash", after
    why = first_violation(func, after, small_sizes(func), flows=step.name not in ALGEBRAIC)
    return ("accepted", "") if why is None else ("accepted, illegal", f"{why}\n{text(after)}")


def _on_refusal(func: Func, step: Step, error: ScheduleError) -> tuple[str, str]:
    """On a step that was refused: what is broken where it is taken, in the program and in one that hides nothing."""
    sizes = [*small_sizes(func, error.witness), *larger_sizes(func)]
    after = _unchecked(func, step)
    told = [error.witness.sizes] if error.witness is not None and error.witness.sizes else []
    if after is None or not runs(func, sizes) or not all(runs(func, [dict(at)]) for at in told):
        return "no rewrite", ""
    for f in (func, tagged(func)):
        new = _unchecked(f, step)
        flows = step.name not in ALGEBRAIC
        once = step.name not in REPEATS
        why = None if new is None else first_violation(f, new, sizes, once=once, writers=True, flows=flows)
        if why is not None:
            return "refused", why
    return "refused, legal", f"{error}\n{text(after)}"


def _apply_step(func: Func, step: Step) -> Func:
    return PRIMITIVES[step.name](func, *step.args, **dict(step.kwargs))


def _unchecked(func: Func, step: Step) -> Func | None:
    """What the step makes of `func` without its checks; None if there is nothing that it could make.

    A wavefront promises that the iterations of its outer loop are independent, and so that loop is parallel here. Warps
    of their own copy ahead, which pipeline puts in an order.
    """
    if step.name == "specialize_warps":
        given = dict(zip(("loop", "stages"), step.args, strict=False)) | dict(step.kwargs)
        step = Step("pipeline", (given["loop"], given.get("stages", 2)), ())
    with unchecked():
        try:
            new = _apply_step(func, step)
            if step.name != "wavefront":
                return new
            return replace_loop(new, find_loop(func, str(step.args[0])).var, lambda s: replace(s, kind="parallel"))
        except (LoopirError, ValueError, LookupError, AssertionError, StopIteration, TypeError):
            return None


@st.composite
def programs(draw: st.DrawFn, theme: str) -> Func:
    """An affine program: one that `theme` is explained with, such as people schedule, of any form, or under guards.

    In half of them every stored value tells its iteration, and mostly they are as they were written.
    """
    kind = draw(between(0, 10))
    if kind < 2:
        func = draw(documented([theme], memory=False))
    elif kind < 5:
        func = draw(forms(AFFINE))
    else:
        func = observed(draw(funcs(memory=False, families=()))) if kind < 8 else draw(guarded())
    func = tagged(func) if draw(st.booleans()) else func
    then = draw(schedules(func, most=2, primitives=BEFORE)).func if not draw(between(0, 2)) else func
    return then if affine(then) else func


def affine(func: Func) -> bool:
    """Whether no index is multiplied or divided by what is no number, as those that `fuse` makes at two sizes are."""
    pairs = (n for n in nodes(func) if isinstance(n, Mul | FloorDiv | Mod))
    return all(isinstance(n.b, Int) or (isinstance(n, Mul) and isinstance(n.a, Int)) for n in pairs)

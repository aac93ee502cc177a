"""A Schedule: a nest, and the steps that led to it. Every step gives a new one; the old one stays valid.

`@primitive` turns a pure function from Func to Func into a step: it becomes a method of Schedule under its own name.
What packages above this one do with a Schedule (build it, show it) is loaded from them when it is asked for.
"""

from __future__ import annotations

import difflib
import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, Self, cast, runtime_checkable

from loopir.analysis.cost.cost import Cost, cost
from loopir.analysis.dataflow.equivalence import Validation, validate
from loopir.analysis.dependence.depend import carries_dependence
from loopir.errors import LoopirError, ScheduleError, VerifyError
from loopir.ir.arguments import answer_arguments
from loopir.ir.folded_text import folded_text
from loopir.ir.grammar import Buffer, Func, Loop
from loopir.ir.printer import Source, text
from loopir.ir.recursion import deep
from loopir.ir.traverse.memo import memoized
from loopir.ir.traverse.walk import labels_of, loops_of
from loopir.ir.verify.verify import verify
from loopir.loading import load
from loopir.schedule.core.find import all_buffers, find_buffer, find_loop, find_stage, join_names
from loopir.schedule.core.primitive import PRIMITIVES, P, Rewrite, checked, lookup, spell_call
from loopir.schedule.core.queries import (
    StageAccess,
    instructions,
    longest,
    real_functions,
    reduced_loops,
    stage_accesses,
)
from loopir.schedule.core.trace import Step, script

if TYPE_CHECKING:
    from loopir.schedule._methods import Methods
else:
    Methods = object


@runtime_checkable
class Program(Protocol):
    """What a Schedule can be made of, besides a Func: a tensor expression."""

    def __loopir_func__(self, *others: Any) -> Func:
        """The Func that computes this object, and `others` with it, as outputs in that order."""
        ...


class Made(NamedTuple):
    """The names that a step has made, in the order of the nest: those that were not there before it."""

    loops: tuple[str, ...]
    stages: tuple[str, ...]
    buffers: tuple[str, ...]


class Built(Protocol):
    """What `Schedule.build` gives, as type checkers see it: a `loopir.runtime.call.Kernel`."""

    target: str
    source: str
    host_source: str
    resources: Any

    def __call__(self, *args: Any, out: Sequence[Any] | None = None, **named: Any) -> Any: ...
    def time(self, *args: Any, repeats: int = 7, **named: Any) -> float: ...
    def profile(self, *args: Any, repeats: int = 7, **named: Any) -> Any: ...
    def graph(self, *args: Any, out: Sequence[Any] | None = None, **named: Any) -> Any: ...
    def sizes(self, *args: Any, **named: Any) -> dict[str, int]: ...
    def export(self, folder: str | Path, name: str | None = None, *, checks: bool = True) -> Any: ...


class Schedule(Methods):
    """`Schedule(program)`: a Func, a tensor, or a list of tensors that are computed together.

    To type checkers what `@lp.func` gives is the function under it, whose annotations are no types.

    It holds the Func (`.func`), the steps taken (`.trace`) and the Schedule before the last of them, nothing else.
    It never changes: primitives are methods that return a new one, or raise a ScheduleError that says why not.
    """

    __slots__ = ("_before", "_func", "_trace")
    _func: Func
    _trace: tuple[Step, ...]
    _before: Schedule | None

    @deep(VerifyError)
    def __init__(self, program: Func | Program | Iterable[Program] | Schedule | Callable[..., None]) -> None:
        self._func = _func_of(program)
        self._trace = ()
        self._before = None
        verify(self._func, "schedule")

    def _then(self, step: Step, func: Func) -> Schedule:
        new = object.__new__(type(self))
        new._func, new._trace, new._before = func, (*self._trace, step), self
        return new

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            if name in _WRITTEN_INSTEAD:
                raise AttributeError(f"a Schedule has no {name!r}; {_WRITTEN_INSTEAD[name]}", name=name, obj=self)
            close = difflib.get_close_matches(name, [x for x in dir(type(self)) if not x.startswith("_")], n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else "docs/primitives.md lists its steps"
            raise AttributeError(f"a Schedule has no {name!r}; {hint}", name=name, obj=self)

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a Schedule is not called: s.build() compiles it to a kernel, which is: s.build()(a, b)")

    def __getitem__(self, key: object) -> NoReturn:
        raise TypeError('a Schedule has no items: steps take loops and stages by name, as s.split("i", 4)')

    # ------------------------------------------------------------ what it holds

    @property
    def func(self) -> Func:
        """The nest as it is now."""
        return self._func

    @property
    def trace(self) -> tuple[Step, ...]:
        """The steps taken, as data."""
        return self._trace

    @property
    def stages(self) -> tuple[str, ...]:
        """The labels of the statements, in textual order."""
        return labels_of(self._func)

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of the buffers: the arguments, then the allocations."""
        return tuple(b.name for b in all_buffers(self._func))

    def buffer(self, name: str) -> Buffer:
        """The buffer called `name`, with its shape, dtype, scope and layout."""
        return find_buffer(self._func, name)

    def loops(
        self, stage: str | None = None, *, like: str = "*", kind: str | None = None, carried: bool | None = None
    ) -> tuple[str, ...]:
        """The names of the loops, outer ones first: all of them, or those around `stage`.

        `like` keeps those whose name is of that form, `kind` those of that kind, such as "serial", and `carried` those
        that carry a dependence from one iteration to another, or with False those that carry none. "C.*_i" is those
        around C of the form "*_i":

            s = s.reorder(*s.loops("C", carried=False), *s.loops("C", carried=True))
        """
        if stage is not None and "." in stage:
            stage, _, like = stage.partition(".")
        if stage is None:
            every = [*loops_of(self._func).values()]
        else:
            every = [loop for place in find_stage(self._func, stage) for loop in place.loops]
        if like == "*" and kind is None and carried is None:
            return tuple(dict.fromkeys([x.var for x in every]))
        return tuple(dict.fromkeys(
            x.var for x in every
            if fnmatchcase(x.var, like) and kind in (None, x.kind)
            and (carried is None or carries_dependence(self._func, x.var) == carried)
        ))  # fmt: skip

    @property
    def last(self) -> Made:
        """The loops, stages and buffers that the last step has made, by name.

            s = s.split("i", 32)
            outer, inner = s.last.loops

        A loop, a stage or a buffer that keeps its name is none of them. A composite is one step.
        """
        if (old := self._before) is None:
            raise ScheduleError("no step has been taken, so none has made anything", suggestion="take one first")
        loops, stages, buffers = set(old.loops()), set(old.stages), set(old.buffers)
        return Made(
            tuple(x for x in self.loops() if x not in loops),
            tuple(x for x in self.stages if x not in stages),
            tuple(x for x in self.buffers if x not in buffers),
        )

    @property
    def with_loops(self) -> tuple[Self, tuple[str, ...]]:
        """This Schedule, and the loops that the last step has made: `s, (o, i) = s.split("x", 32).with_loops`."""
        return self, self.last.loops

    @property
    def with_stage(self) -> tuple[Self, str]:
        """This Schedule, and the one stage that the last step has made: `s, copy = s.cache_write(...).with_stage`.

        Raises ScheduleError where it has made several, or none.
        """
        made = self.last.stages
        if len(made) != 1:
            reason = f"the last step has made {join_names(made)}, not one stage"
            raise ScheduleError(reason, suggestion="s.last.stages, all of them")
        return self, made[0]

    def loop(self, name: str) -> Loop:
        """The loop called `name`, with its extent, kind and body."""
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a loop goes by name, not {name!r}; there are {', '.join(self.loops()) or 'none'}")
        return find_loop(self._func, name)

    def reduced(self, stage: str) -> tuple[str, ...]:
        """The names of the loops that `stage` folds over, outer ones first; none if it is no reduction."""
        return reduced_loops(self._func, stage)

    def longest(self, stage: str, loop: str) -> int | None:
        """How many iterations `loop` around `stage` has at most, such as 15 of `range(i)` inside `range(16)`; None if
        that depends on sizes, or is not known."""
        return longest(self._func, stage, loop)

    def accesses(self, stage: str) -> tuple[StageAccess, ...]:
        """What `stage` reads, then what it writes, each with the step that every loop around makes in the buffer."""
        return stage_accesses(self._func, stage)

    @property
    def real_functions(self) -> tuple[str, ...]:
        """The names of the functions of real numbers that are evaluated, such as "exp"."""
        return real_functions(self._func)

    @property
    def instructions(self) -> tuple[str, ...]:
        """The names of the instructions that nests are done by, as `tensorize` has it."""
        return instructions(self._func)

    @property
    @deep(VerifyError)
    def cost(self) -> Cost:
        """Operations, bytes moved and arithmetic intensity, as sympy formulas in the sizes."""
        return cost(self._func)

    # ------------------------------------------------------------ steps

    def apply(self, step: Step) -> Schedule:
        """Take one step that is given as data; a composite's, by the steps that it holds."""
        if not isinstance(step, Step):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f'a step is one of a trace, not {step!r}; s.split("i", 4) takes one')
        if step.steps:
            return self.grouped(step, self.replay(step.steps))
        try:
            made = lookup(step.name)(self._func, *step.args, **dict(step.kwargs))
        except ScheduleError as error:
            error.reason += self._last_seen(error.reason)
            raise
        return self._then(step, made)

    def _last_seen(self, reason: str) -> str:
        """Which step took away the loop, stage or buffer that a refusal says is not there; empty if none did."""
        missing = _MISSING.match(reason)
        if missing is None:
            return ""
        kind, name = missing.groups()
        s = self
        while s._before is not None:
            if name in _names_of(s._before.func, kind):
                return f"; {name!r} was there until {s.trace[-1]}"
            s = s._before
        return ""

    def replay(self, trace: Iterable[Step]) -> Schedule:
        """Take the steps of `trace`, which may come from another Schedule."""
        s = self
        for step in trace:
            s = s.apply(step)
        return s

    def grouped(self, step: Step, end: Schedule) -> Schedule:
        """The Schedule that `end` is, reached from this one by the one step `step`."""
        return self._then(step, end.func)

    def steps_since(self, start: Schedule) -> tuple[Step, ...] | None:
        """The steps that lead from `start` to this Schedule, or None if it does not come from there."""
        s: Schedule | None = self
        steps: list[Step] = []
        while s is not None and s is not start:
            steps[:0] = s.trace[-1:]
            s = s._before
        return None if s is None else tuple(steps)

    def why(self, primitive: str, *args: Any, **kwargs: Any) -> ScheduleError | None:
        """None if the step would be legal, else the error that it would raise.

        Who asks and then takes the step has it checked once.
        """
        if not isinstance(primitive, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f'why takes a step by name, as s.why("split", "i", 4), not {primitive!r:.60}')
        known, call = _refusals(self._func), spell_call(primitive, args, kwargs)
        if call in known:
            return known[call]
        found = None
        try:
            lookup(primitive)(self._func, *args, **kwargs)
        except ScheduleError as error:
            found = error.with_traceback(None)
            found.reason += self._last_seen(found.reason)
        fact = found is None or found.witness is not None  # of the nest, which is what it is
        if call is not None and fact:
            known[call] = found
        return found

    def undo(self) -> Schedule:
        """The Schedule before the last step."""
        if self._before is None:
            raise ScheduleError("there is no step to undo", suggestion="keep this Schedule")
        return self._before

    def bisect(self, check: Callable[[Schedule], object]) -> Schedule | None:
        """The Schedule after the first step after which `check` fails: None if it holds for this one.

        `check(s)` fails by an AssertionError or a LoopirError, or by giving False. Of what is returned, `.trace[-1]` is
        the step, `.diff()` what it changed and `.undo()` a Schedule for which the check holds. Steps are tried by
        halves, so that few are: of several such steps one is found, not always the first. ValueError if the check
        fails before any step.
        """
        if not callable(check):
            raise TypeError(f"bisect takes a function of a Schedule that says whether it holds, not {check!r}")
        past: list[Schedule] = [self]
        while (before := past[-1]._before) is not None:
            past.append(before)
        past.reverse()
        if not _passes_check(check, past[0]):
            raise ValueError("the check fails for the program itself, before any step: no step is to blame")
        if _passes_check(check, self):
            return None
        good, bad = 0, len(past) - 1
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if _passes_check(check, past[middle]) else (good, middle)
        return past[bad]

    @deep(VerifyError)
    def validate(self) -> Validation:
        """Prove with isl that the nest as it is now has the dataflow of the program that the first step was taken on.

        For all sizes that it assumes, and up to the order of the folds of each monoid. It looks at the two programs
        alone, not at the steps or their checks. What could not be proved has its reason (memory that decides,
        products of sizes); `.wrong` is an element that differs in a run, if there is one. True if all is proved.
        """
        first = self
        while first._before is not None:
            first = first._before
        return validate(first.func, self.func)

    def script(self) -> str:
        """Python source that takes the same steps on a Schedule `s` of the same program."""
        return Source(script(self._trace))

    def diff(self) -> str:
        """What the last step changed, as a unified diff of the text; empty if there was none."""
        if self._before is None:
            return Source()
        old, new = (text(f).splitlines() for f in (self._before.func, self._func))
        step = self._trace[-1]
        return Source("\n".join(difflib.unified_diff(old, new, f"before {step}", f"after {step}", n=2, lineterm="")))

    # ------------------------------------------------------------ as seen

    def __str__(self) -> str:
        return folded_text(self._func)

    def __repr__(self) -> str:
        return str(self)

    @deep(VerifyError)
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and (self._func, self._trace) == (other._func, other._trace)

    @deep(VerifyError)
    def __hash__(self) -> int:
        return hash((self._func, self._trace))

    # ------------------------------------------------------------ done by packages above this one

    @deep(LoopirError)
    def show(self, *, depth: int | None = None, **sizes: int) -> None:
        """Print the nest in colour, each loop with its trips, bytes, reuse, parallelism and occupancy; then the steps.

        A size that is not given is taken for 1024. What is printed parses to the same nest. With `depth=1` each nest
        is its outermost loop and a line that says what is in it; with 2 its two outer loops, and so on.
        """
        if not isinstance(depth, int | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"show with depth={depth!r}; it is a number of loops, as depth=2")
        load("loopir.show").show(self, depth=depth, **sizes)

    @deep(LoopirError)
    def beside(self, *others: Schedule, **sizes: int) -> Any:
        """This Schedule and others, as branches that were tried: side by side, with what each costs by estimate."""
        return load("loopir.show.comparison").compare(self, *others, **sizes)

    @deep(LoopirError)
    def explain(self, loop: str) -> Any:
        """What `loop` carries from one iteration to later ones, what it steps through, and what it may be made."""
        return load("loopir.show.explain").explain(self, loop)

    @deep(LoopirError)
    def suggest(self, n: int = 5, /, target: str | None = None, **sizes: int) -> Any:
        """The `n` legal moves from here that would win most by estimate, each with the call to paste."""
        if not isinstance(n, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"suggest takes how many moves to give, as suggest(5), not {n!r}; they are of all loops")
        return load("loopir.show.suggest").suggest(self, n, target, **sizes)

    @deep(LoopirError)
    def view(self, path: Any = None, target: str = "cuda") -> Any:
        """Write the nest beside the code it becomes as one HTML page, lines linked by loops; the path of the file."""
        if not isinstance(path, str | Path | None):
            raise TypeError(f'view takes the path of the file to write, as view("f.html"), not {path!r}')
        return load("loopir.build").view(self, path, target)

    @deep(LoopirError)
    def report(self, arch: str | None = None, **sizes: int) -> Any:
        """What it costs on a GPU at these sizes: work counted kernel by kernel, what bounds it, the time predicted.

        `arch` is the GPU's, such as "sm_89"; by default, that of `lp.machine()`.
        """
        return load("loopir.build").report(self, arch, **sizes)

    @deep(LoopirError)
    def _repr_html_(self) -> str:
        return load("loopir.show.notebook").html(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    @deep(LoopirError)
    def build(
        self,
        target: str = "auto",
        *,
        arch: str | None = None,
        fma: bool = True,
        threads: int | None = None,
        checks: bool = False,
        watch: str | Collection[str] | Callable[[Any], object] | None = None,
    ) -> Built:
        """The kernel for `target`: "cuda", "llvm", "interpret", or "auto" for CUDA if a GPU is there, else the CPU.

        `fma` lets a product and a sum be rounded once. `threads` is for "llvm": how many threads run parallel loops
        (default: LOOPIR_NUM_THREADS, or the CPUs there are). `arch` is for "cuda": the architecture, such as "sm_90a"
        (default: the GPU's). `checks` is for "llvm" and "interpret": the first nan that is stored raises NanError, the
        first subscript outside BoundsError, with the statement and the iteration; the nest runs in the order of its
        text, on one thread. `watch` is for "interpret": names of buffers whose writes are printed, or a function that
        is given each write (`.buffer`, `.at`, `.value`, `.statement`, `.loops`). Raises TargetError for a target that
        is not there or lacks room, LowerError for a schedule that it cannot run.
        """
        options = {"arch": arch, "fma": fma, "threads": threads, "checks": checks, "watch": watch}
        return load("loopir.build").build(self, target, **options)


_MISSING = re.compile(r"there is no (loop|stage|buffer) '([^']+)'")


def _names_of(func: Func, kind: str) -> Collection[str]:
    """The names of the loops, the stages or the buffers of `func`."""
    if kind == "loop":
        return loops_of(func)
    return labels_of(func) if kind == "stage" else {b.name for b in all_buffers(func)}


_WRITTEN_INSTEAD = {
    **dict.fromkeys(("get_loops", "op", "axis"), 's.loops("C") names the loops of stage C'),
    **dict.fromkeys(("get_block", "get_sblock", "get_stage"), "a stage goes by its name, and s.stages has the names"),
    **dict.fromkeys(("predict", "estimate", "cost"), 'lp.predict(s, "llvm") predicts the time'),
    **dict.fromkeys(("interpret", "simulate"), 's.build("interpret") runs it'), "gpu": 's.bind(loop, "blockIdx.x")',
    **dict.fromkeys(("vthread", "virtual_thread"), "s.unroll_and_jam(loop, 2) makes them: docs/elsewhere.md"),
    **dict.fromkeys(("inline", "compute_with"), 's.compute_inline("D") and s.fuse_loops("i", "j") are steps'),
    **dict.fromkeys(("compile", "jit", "run", "lower"), "s.build() compiles it to a kernel, which takes arrays"),
    **dict.fromkeys(("schedule", "optimize", "auto"), "schedules.auto(s) schedules it"),
    **dict.fromkeys(("print", "pprint"), "print(s) shows it"), "args": "s.func.params are its arguments",
    "stage": "s.stages names them", "code": "s.build().source is the code", "source": "s.build().source is the code",
    "time": "s.build().time(*arrays) measures it", "profile": "s.build().profile(*arrays) shows its times",
}  # fmt: skip
"""What is written in place of methods that people look for."""

if not TYPE_CHECKING:
    for _name, _method in list(vars(Schedule).items()):
        if inspect.isfunction(_method) and (not _name.startswith("_") or _name == "__init__"):
            setattr(Schedule, _name, answer_arguments(_method))

Schedule.__module__ = "loopir"
"""Its public home: one that is sent to another process brings with it what it is built and shown by."""


def primitive(f: Rewrite[P]) -> Rewrite[P]:
    """Make `f`, a pure function from a Func and arguments to a Func, a primitive: a method of Schedule.

    Its arguments are checked against their annotations and its result is verified; a ScheduleError that it
    raises is given the call as it was typed. Its docstring holds examples that the tests run; see `doc`.
    """
    name = cast("Any", f).__name__
    if name in PRIMITIVES or name in vars(Schedule):
        raise ValueError(f"Schedule has a method {name!r} already")
    rewrite = checked(f)

    @wraps(f)
    def method(self: Schedule, *args: Any, **kwargs: Any) -> Schedule:
        return self.apply(Step(name, args, tuple(kwargs.items())))

    cast("Any", method).__signature__ = _as_method(f)
    PRIMITIVES[name] = rewrite
    setattr(Schedule, name, method)
    return rewrite


def _as_method(f: Callable[..., Func]) -> inspect.Signature:
    """The signature of the primitive `f` as the method of Schedule that it becomes, for `help`."""
    hints = typing.get_type_hints(f)
    first, *others = inspect.signature(f).parameters.values()
    own = first.replace(name="self", annotation=inspect.Parameter.empty)
    typed = [p.replace(annotation=hints.get(p.name, p.annotation)) for p in others]
    return inspect.Signature([own, *typed], return_annotation=Schedule)


def _passes_check(check: Callable[[Schedule], object], s: Schedule) -> bool:
    """Whether `check` holds for `s`; one that returns nothing says what is wrong by raising it."""
    try:
        said = check(s)
    except (AssertionError, LoopirError):
        return False
    return said is None or bool(said)


@memoized
def _refusals(func: Func) -> dict[str, ScheduleError | None]:
    """By call of a primitive, why `func` refuses it, or None where it is legal, as far as was asked; which fills up."""
    return {}


def _func_of(program: object) -> Func:
    """The Func of what Schedule was given; TypeError for what is no program."""
    if isinstance(program, Schedule):
        return program.func
    if isinstance(program, Func):
        return program
    if isinstance(program, Program) and not isinstance(program, type):
        return program.__loopir_func__()
    if isinstance(program, list | tuple) and program:
        first, *others = cast("list[object]", program)
        if isinstance(first, Program) and all(isinstance(o, Program) for o in others):
            return first.__loopir_func__(*others)
    if isinstance(program, list | tuple) and program:
        odd = [o for o in cast("list[object]", program) if not isinstance(o, Program)]
        kind = "a type" if not odd else "None" if odd[0] is None else type(odd[0]).__name__
        raise TypeError(f"a Schedule is made of a list of tensors, and one of these is {kind}")
    if isinstance(program, list | tuple) and not program:
        raise TypeError("a Schedule is made of a list of tensors, and this one is empty")
    kind = "None" if program is None else type(cast("object", program)).__name__
    hint = "; a function that makes one ends with return" if program is None else ""
    raise TypeError(f"a Schedule is made of a Func, a tensor or a list of tensors, not of {kind}{hint}")

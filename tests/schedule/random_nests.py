"""Random nests as source, and the two ways in which what a step says of them is tried against brute force."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.analysis.dependence.reordering import Origin, violated_dependence
from loopir.errors import ScheduleError, Undecided, VerifyError, Witness
from loopir.ir.grammar import Func, Index, Reduce, Store, Var
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.reduction_init import explicit_init
from loopir.ir.traverse.walk import leaf_paths
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.testing.oracles.access_trace import Event, Lane, Run, crossing, digest, violated

GRID = tuple({"n": n, "m": m} for n, m in product((0, 1, 2, 3, 4), (0, 1, 3)))
Pairs = Iterable[tuple[Event, Event]]
Ask = Callable[[dict[str, int]], Pairs]
"""The pairs that a step breaks at these sizes."""
BY_VALUES = ("distribute", "retime", "unroll_and_jam")
"""The primitives that ask where values go, and not of the order of accesses alone."""


class ByValue(Run):
    """A run in which instances that store the same value are not told apart: one may stand for another.

    A copy stores what it reads, so that one more copy of an element into itself changes nothing.
    """

    def value(self, s: Store | Reduce, lane: Lane, values: Sequence[int]) -> int:
        return values[0] if isinstance(s, Store) else digest(*values)


# ---------------------------------------------------------------- random nests

AFFINE = (
    "{v}", "{w}", "{v} + 1", "{v} + 2", "{w} + 1", "n - 1 - {v}", "3 - {w}", "{v} + {w}", "{v} - {w}", "2 * {v}",
    "2 * {w} + 1", "{v} // 2", "({v} + {w}) % 3", "1", "m", "min({v}, 1)", "max({v}, {w})",
)  # fmt: skip
UNSEEN = ("ix[{v}]", "ix[{w}] + {v}", "{v} * n", "{v} % (n + 1)")
GUARDS = ("{v} < {w}", "{v} + {w} < n", "{v} != 1", "{w} == 1 or {v} == 0", "m < n and {v} % 2 == 0")
HIDDEN_GUARDS = ("flag[{v}]", "not flag[{w}] or {v} < 2", "b[{v}] < 1.0 and {w} < 2")
EXTENTS = ("n", "m", "3", "4", "n - 1", "min(n, m)", "max(n - 1, m)")
HIDDEN = ("ix[0]", "ix[2]")


@st.composite
def indices(draw: st.DrawFn, names: tuple[str, ...], forms: tuple[str, ...]) -> str:
    return draw(st.sampled_from(forms)).format(v=draw(st.sampled_from(names)), w=draw(st.sampled_from(names)))


@st.composite
def statements(draw: st.DrawFn, names: tuple[str, ...], label: str, exact: bool) -> list[str]:
    forms = AFFINE if exact else AFFINE + UNSEEN
    guards = GUARDS if exact else GUARDS + HIDDEN_GUARDS

    def element() -> str:
        dims = draw(st.sampled_from(("a", "b")))
        at = [draw(indices(names, forms)) for _ in range(2 if dims == "a" else 1)]
        return f"{dims}[{', '.join(at)}]"

    if draw(st.integers(0, 3)) == 0:
        over = draw(st.sampled_from(names))
        free = tuple(v for v in names if v != over) or ("n",)
        init = ", init=0.0" if draw(st.booleans()) else ""
        line = f'b[{draw(indices(free, AFFINE[:9]))}] = sum({element()} * 2.0, over={over}{init}, label="{label}")'
    else:
        reads = [element() for _ in range(draw(st.integers(1, 2)))]
        value = " + ".join(reads)
        if draw(st.integers(0, 4)) == 0:
            value = f"({value}) if {draw(indices(names, guards))} else 0.0"
        line = f'{element()}: "{label}" = {value}'
        if not exact and draw(st.integers(0, 4)) == 0:
            line = f'ix[{draw(indices(names, AFFINE))}]: "{label}" = int32({draw(st.sampled_from(names))})'
    if draw(st.integers(0, 3)) == 0:
        return [f"if {draw(indices(names, guards))}:", f"    {line}"]
    return [line]


HEAD = (
    'def f(n: "size", m: "size", a: "inout float32[8, 8]", b: "inout float32[8]", ix: "inout int32[8]", '
    'flag: "bool[8]"):'
)


def nest(band: tuple[tuple[str, str], ...], body: list[str]) -> str:
    lines = [f"    {'    ' * d}for {v} in range({extent}):" for d, (v, extent) in enumerate(band)]
    return "\n".join([HEAD, *lines, *(f"    {'    ' * len(band)}{line}" for line in body)])


@st.composite
def bands(draw: st.DrawFn, exact: bool = True) -> tuple[str, str, tuple[str, ...]]:
    """A perfect nest, the same with its loops in another order, and that order."""
    names = ("i", "j", "k")[: draw(st.integers(2, 3))]
    band = tuple((v, draw(st.sampled_from(EXTENTS if exact else EXTENTS + HIDDEN))) for v in names)
    body = [x for n in range(draw(st.integers(1, 2))) for x in draw(statements(names, f"s{n}", exact))]
    order = draw(st.permutations(band).filter(lambda x: tuple(x) != band))
    return nest(band, body), nest(tuple(order), body), tuple(v for v, _ in order)


@st.composite
def trees(draw: st.DrawFn, exact: bool = True, own: bool = True) -> str:
    """Nests with statements and loops side by side, if `own` perhaps around memory of their own."""
    taken = iter("jklxyz")
    labels = iter(f"s{n}" for n in range(20))

    def body(names: tuple[str, ...], depth: int) -> list[str]:
        out: list[str] = []
        for _ in range(draw(st.integers(1, 2))):
            if depth and draw(st.booleans()):
                v = next(taken)
                extent = draw(st.sampled_from((*EXTENTS, f"{names[-1]} + 1", "2", *(() if exact else HIDDEN))))
                out += [f"for {v} in range({extent}):", *(f"    {x}" for x in body((*names, v), depth - 1))]
            else:
                out += draw(statements(names, next(labels), exact))
        return out

    inner = body(("i",), 2)
    outer = (("i", draw(st.sampled_from(EXTENTS))),)
    private = ['with alloc("float32[8]") as t:', *(f"    {x}".replace("b[", "t[") for x in inner)]
    for source in (nest(outer, private), nest(outer, inner)) if own and draw(st.booleans()) else (nest(outer, inner),):
        with suppress(VerifyError):  # a reduction cannot start outside of its memory, or of loops that bound others
            explicit_init(parse(source))
            return source
    return nest(outer, inner).replace(", init=0.0", "")


# ---------------------------------------------------------------- the two ways


def key(pair: tuple[Event, Event]) -> tuple[list[int], list[int]]:
    first, second = pair
    return [v for _, v in first.env], [v for _, v in second.env]


def named(witness: Witness) -> tuple[object, ...]:
    return (witness.first_statement, witness.first, witness.second_statement, witness.second, witness.element)


def called(e: Event) -> str:
    return f"{e.label} (its init)" if e.init else e.label


def assert_broken(witness: Witness | None, broken: Ask) -> list[tuple[Event, Event]]:
    """`witness` is one of the broken pairs at its sizes: these are given back."""
    assert witness is not None
    pairs = list(broken(witness.sizes))
    assert named(witness) in [(called(e), e.at(), called(f), f.at(), e.cell) for e, f in pairs], witness
    return pairs


def assert_least(func: Func, witness: Witness | None, broken: Ask) -> None:
    """`witness` is the first of the broken pairs at its sizes, and at smaller sizes there are none."""
    about = f"{witness}\n{text(func)}"
    pairs = assert_broken(witness, broken)
    assert witness is not None
    assert (list(witness.first.values()), list(witness.second.values())) == min(map(key, pairs)), about
    for sizes in GRID:
        assert list(sizes.values()) >= list(witness.sizes.values()) or not list(broken(sizes)), f"{sizes}: {about}"


def left(name: str, run: Run) -> dict[Any, int]:
    """The cells that a run leaves; for a primitive in BY_VALUES those inside the arrays, of which every extent is 8.

    Random subscripts leave the arrays, and what is stored outside nobody looks at.
    """
    return {at: x for at, x in run.cells.items() if name not in BY_VALUES or all(0 <= i < 8 for i in at[1])}


def breaks(func: Func, after: Func, *, folds_commute: bool = True) -> Ask:
    return lambda sizes: violated(Run(func, sizes).events, Run(after, sizes).events, folds_commute=folds_commute)


def meet(func: Func, loop: str) -> Ask:
    return lambda sizes: crossing(Run(func, sizes).events, loop)


def assert_equal(func: Func, after: Func) -> None:
    for sizes in GRID:
        one, other = Run(func, sizes), Run(after, sizes)
        assert one.cells == other.cells, f"at {sizes}:\n{text(func)}\nbecame\n{text(after)}"


def assert_none(func: Func, broken: Ask) -> None:
    for sizes in GRID:
        assert not list(broken(sizes)), f"at {sizes}:\n{text(func)}"


# ---------------------------------------------------------------- steps that move iterations


@dataclass
class Moves:
    """What a primitive asked of the analysis: the nest that it would make, and where its statements came from."""

    func: Func
    new: Func | None = None
    origin: dict[str, tuple[str, dict[str, Index]]] = field(default_factory=dict)
    witness: Witness | None = None
    """The first answer: of the nest that was asked about, which may be one on the way."""
    tied: bool = False
    """Whether it was held that no dependent pair is moved apart: a shorter way to a yes, which is not taken here."""

    def shorter(self, way: Callable[..., bool]) -> Callable[..., bool]:
        def asked(*args: Any, **kwargs: Any) -> bool:
            self.tied |= way(*args, **kwargs)
            return False

        return asked

    def ask(self, func: Func, new: Func, origin: dict[str, Origin] | None = None, **asks: Any) -> Any:
        around = {p.stmt.label: [x.var for x in p.loops] for p in leaf_paths(func.body)}
        if self.new is None:
            self.func, self.new = func, new
            self.origin = {
                label: (came.label, {v: came.loops.get(v, Var(v)) for v in around[came.label]})
                for label, came in (origin or {}).items()
            }
        clash = violated_dependence(func, new, origin or {}, **asks)
        if clash is not None and func is self.func:
            self.witness = self.witness or clash.witness
        return clash

    def run(self, sizes: dict[str, int]) -> Run:
        assert self.new is not None
        return Run(self.new, sizes, origin=self.origin)

    def require_same(self, name: str, sizes: dict[str, int]) -> None:
        """What is left in all cells is the same before and after the step `name`."""
        assert self.new is not None
        run = ByValue if name in BY_VALUES else Run
        one, other = run(self.func, sizes), run(self.new, sizes, origin=self.origin)
        assert left(name, one) == left(name, other), f"at {sizes}:\n{text(self.func)}\nbecame\n{text(self.new)}"

    def broken(self, sizes: dict[str, int]) -> Iterator[tuple[Event, Event]]:
        return violated(Run(self.func, sizes).events, self.run(sizes).events)


@contextmanager
def watched(name: str, func: Func) -> Iterator[Moves]:
    """The first question that the primitive called `name` asks inside."""
    moves, room = Moves(func), sys.modules[PRIMITIVES[name].__module__]
    with ExitStack() as patched:
        patched.enter_context(patch.object(room, "violated_dependence", moves.ask))
        for way in ("permutation_invariant", "straight"):
            if hasattr(room, way):
                patched.enter_context(patch.object(room, way, moves.shorter(getattr(room, way))))
        yield moves


def assert_exact(name: str, func: Func, *args: Any, **kwargs: Any) -> ScheduleError | None:
    """A step is legal exactly if every dependent pair keeps its order; then all cells are as they were.

    A primitive in BY_VALUES lets pairs go that only values depend on that nobody looks at: of what it refuses, the
    witness is one of the pairs whose order changes.
    """
    values = name in BY_VALUES
    after = refused = None
    with watched(name, func) as moves:
        try:
            after = PRIMITIVES[name](func, *args, **kwargs)
        except ScheduleError as error:
            if isinstance(error.__cause__, Undecided):
                raise  # which names no pair
            refused = error
    if after is None:
        assert refused is not None
        assert not (moves.tied and moves.witness), f"{refused}\n{text(func)}"
        if moves.new is not None:
            witness = moves.witness or refused.witness
            if values:
                assert_broken(witness, moves.broken)
            else:
                assert_least(moves.func, witness, moves.broken)
        return refused
    assert after == moves.new
    for sizes in GRID:
        moves.require_same(name, sizes)
        assert values or not list(moves.broken(sizes)), f"at {sizes}:\n{text(func)}\nbecame\n{text(after)}"
    return None


def assert_sound(name: str, func: Func, *args: Any, **kwargs: Any) -> ScheduleError | None:
    """A step that is accepted leaves all cells as they were."""
    with watched(name, func) as moves:
        try:
            PRIMITIVES[name](func, *args, **kwargs)
        except ScheduleError as error:
            return error
    for sizes in GRID:
        moves.require_same(name, sizes)
    return None

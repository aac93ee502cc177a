"""The table of rules: how a group of stages may be scheduled, by classes of index maps, never by names.

A rule looks at a `View` of the group and gives a match, whatever its schedule needs to know, or None. All rules that
match are tried and the cheapest by prediction is taken, so that a rule never has to know the others; one that raises is
no candidate, and the plan's log says so. Ours stand in the same table as those that a user adds:

    @schedules.rule(matches=lambda view: view.only("fold along"), target="cuda")
    def my_rows(s, match):
        return s.bind(s.loops(match)[0], "blockIdx.x")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import loopir as lp

from .common.batch_outside import BatchAlong, batch_along, batch_outside, turned_first, turned_last
from .common.contraction import contraction, worth_tiling
from .common.nest_queries import argument_names, extent, free_loops, fused, if_legal, one_nest
from .common.operands import is_view, two_matrices
from .common.products import several
from .common.transpose import find_transposed_read, transpose, worth_turning
from .common.view_loops import with_views_split
from .cuda.auto_gpu import gpu
from .cuda.cheapest import cheapest
from .cuda.column_blocks import along_columns, along_few_columns, few_column_blocks
from .cuda.elementwise import elementwise
from .cuda.pair_folds import pair_fold
from .cuda.product_chains import product_chain
from .cuda.product_chains_mma import product_chain_mma
from .cuda.recipe_table import lowered
from .cuda.reduction import reduction
from .cuda.row_blocks import blocks_of_rows, crowded, row_blocks
from .cuda.row_scans import row_scans
from .cuda.stacked_parts import MOST_PARTS, part_loop, stacked_parts
from .cuda.stencil_rows import neighbours, reaches
from .cuda.tiled_products import producers_of_right
from .llvm.auto_cpu import cpu
from .plan import Trace, flat

CLASSES = ("elementwise", "transpose", "window", "fold along", "fold across", "contraction", "opaque")
"""What a stage is, by its index maps: it takes elements in their order, across it, or neighbours; it folds along memory
or across it; it multiplies what it folds and reads each operand again; or what it touches is not known."""

Match = Any
"""What a rule that matches tells its schedule; anything but None."""


@dataclass(frozen=True)
class Traits:
    """What a stage is by itself: one of CLASSES, whether it is a product of operands that are worth tiles, and whether
    it folds."""

    kind: str
    tiled: bool
    folds: bool


@dataclass(frozen=True)
class View:
    """A group of stages as rules see it: a Schedule of these alone, and the class of each."""

    schedule: lp.Schedule
    target: str
    known: Mapping[str, Traits] | None = None
    alone: Callable[[tuple[str, ...]], Trace] | None = None
    """The steps that schedule some of the stages as a program of their own, in one kernel, where these are known."""

    def part_alone(self, stages: tuple[str, ...]) -> Trace:
        """The steps that make one kernel of `stages`, a part that reads nothing of the others; else ScheduleError."""
        if self.alone is not None:
            return self.alone(stages)
        part = lp.Schedule(lp.extract(self.schedule.func, stages).func)
        steps = gpu(part, arch=lp.machine()).steps_since(part)
        assert steps is not None
        return flat(steps)

    @cached_property
    def traits(self) -> Mapping[str, Traits]:
        """What is known of each stage, by its index maps."""
        return self.known if self.known is not None else traits_by_nest(self.schedule)

    @property
    def classes(self) -> Mapping[str, str]:
        """The class of each stage, one of CLASSES."""
        return {x: t.kind for x, t in self.traits.items()}

    @property
    def products(self) -> tuple[str, ...]:
        """The stages that are products of operands used often enough to be brought near in tiles."""
        return tuple(x for x, t in self.traits.items() if t.tiled)

    @cached_property
    def readers(self) -> Mapping[str, tuple[str, ...]]:
        """For each stage, those that read what it writes."""
        s = self.schedule
        touches = {x: s.accesses(x) for x in s.stages}
        written = {x: {t.buffer for t in every if t.write} for x, every in touches.items()}
        reads = {x: {t.buffer for t in every if not t.write} for x, every in touches.items()}
        return {x: tuple(y for y in s.stages if y != x and written[x] & reads[y]) for x in s.stages}

    def only(self, *classes: str) -> str | None:
        """The stage, if there is but one and it is of one of these classes."""
        (stage, *others) = self.schedule.stages
        return stage if not others and self.classes[stage] in classes else None

    @property
    def folds(self) -> tuple[str, ...]:
        """The stages that fold."""
        return tuple(x for x, t in self.traits.items() if t.folds)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The stages that write arguments."""
        s = self.schedule
        given = {a.buffer.name for a in s.func.args if a.access != "in"}
        return tuple(x for x in s.stages if any(t.write and t.buffer in given for t in s.accesses(x)))


@dataclass(frozen=True)
class Rule:
    """A row of the table: its name, what it takes, the schedule that it gives, and the target."""

    name: str
    matches: Callable[[View], Match | None]
    schedule: Callable[[lp.Schedule, Match], lp.Schedule]
    target: str = "cuda"
    last_resort: bool = False
    """Whether it is tried only where no other rule gives anything."""
    least_kernels: Callable[[View], int] = lambda view: 1
    """How many kernels it gives at least: it is not tried where groups apart have no more."""
    subsumed: bool = False
    """Whether `gpu` or `cpu`, given a small program as a whole, makes the same of it, so that `auto` need not plan."""

    @property
    def ours(self) -> bool:
        """Whether it stands in this file, and was not added by a user."""
        return self.schedule.__module__ == __name__

    def __call__(self, s: lp.Schedule, match: Match) -> lp.Schedule:
        made = self.schedule(s, match)
        if not isinstance(made, lp.Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
            told = "a step gives a new Schedule, which a rule returns"
            raise TypeError(f"the rule {self.name!r} gives {made!r:.40} where a Schedule is wanted; {told}")
        return made


STORED_FIRST = 64
"""Rows of a product from which on what it reads is stored first, and not computed where it is read."""
RULES: list[Rule] = []
"""All rules, in the order in which they are tried."""


def rule(
    *,
    matches: Callable[[View], Match | None],
    target: str = "cuda",
    name: str | None = None,
    last_resort: bool = False,
    least_kernels: Callable[[View], int] = lambda view: 1,
    subsumed: bool = False,
) -> Callable[[Callable[[lp.Schedule, Match], lp.Schedule]], Rule]:
    """Decorator: a schedule as a row of the table, tried for every group that `matches` gives a match for."""

    def add(f: Callable[[lp.Schedule, Match], lp.Schedule]) -> Rule:
        made = Rule(name or f.__name__.replace("_", " "), matches, f, target, last_resort, least_kernels, subsumed)
        RULES.append(made)
        return made

    return add


_subsumed = partial(rule, subsumed=True)


def has_rules_of_users(target: str) -> bool:
    """Whether users have added rules for `target`, which only a plan tries."""
    return any(r.target == target and not r.ours for r in RULES)


def plans_may_differ(s: lp.Schedule, target: str) -> bool:
    """Whether a plan of the small program `s` may hold what `gpu` or `cpu` does not make of it: users have added rules,
    or one of ours that is not subsumed takes the whole."""
    rules, view = [r for r in RULES if r.target == target and not r.subsumed], View(s, target)
    return has_rules_of_users(target) or any(r.matches(view) for r in rules)


def traits(s: lp.Schedule, stage: str) -> Traits:
    """What `stage` is by itself, in a program that no step was taken on."""
    c, folds = contraction(s, stage), bool(s.reduced(stage))
    if folds and c is None and (made := two_matrices(s, stage)) is not None:  # of operands that are made first
        tiled = (c := contraction(made, stage)) is not None and worth_tiling(made, c, STORED_FIRST)
    else:
        tiled = several(s, stage) if c is None else worth_tiling(s, c, STORED_FIRST)
    return Traits(classify(s, stage), tiled, folds)


def traits_by_nest(s: lp.Schedule) -> Mapping[str, Traits]:
    """What each stage is in a program that no step was taken on, asked of its nest alone, once for all alike."""
    known: dict[str, dict[str, Traits]] = {}
    try:
        parts = [lp.extract(s.func, nest.stages) for nest in lp.nests(s.func) if nest.stages]
    except lp.ScheduleError:  # nests that share memory of a kernel
        return {x: traits(s, x) for x in s.stages}
    found = {x: kind for part in parts for x, kind in traits_of(part, lp.text(part.func), known).items()}
    return {x: found[x] for x in s.stages}


def traits_of(part: lp.Part, text: str, known: dict[str, dict[str, Traits]]) -> dict[str, Traits]:
    """What the stages of a part are, by their names in its program; `known`, which fills up, has by their `text` what
    those of others are."""
    if text not in known:
        alone = lp.Schedule(part.func)
        known[text] = {x: traits(alone, x) for x in alone.stages}
    return {part.labels[x]: kind for x, kind in known[text].items()}


def classify(s: lp.Schedule, stage: str) -> str:
    """The class of a stage of a program that no step was taken on."""
    if any(t.buffer and None in t.strides.values() for t in s.accesses(stage)):
        return "opaque"
    if s.reduced(stage):
        if contraction(s, stage) is not None or several(s, stage):
            return "contraction"
        inner = s.reduced(stage)[-1]
        reads = [t for t in s.accesses(stage) if not t.write and not t.invariant(inner)]
        return "fold along" if any(t.contiguous(inner) for t in reads) else "fold across"
    if not one_nest(s, stage):
        return "opaque"
    t = find_transposed_read(s, stage)
    if t is not None:
        return "transpose"
    return "window" if reaches(s, stage) else "elementwise"


# ---------------------------------------------------------------- GPUs


@_subsumed(matches=lambda v: v.only("elementwise"), name="elementwise")
def _elementwise(s: lp.Schedule, stage: str) -> lp.Schedule:
    return elementwise(s, stage)


@_subsumed(matches=lambda v: v.only("transpose"), name="transpose")
def _transpose(s: lp.Schedule, stage: str) -> lp.Schedule:
    t = find_transposed_read(s, stage)
    if t is None or not worth_turning(s, t):
        raise lp.ScheduleError(f"{stage} is too small for tiles")
    return transpose(s, stage)


@_subsumed(matches=lambda v: v.only("window"), name="neighbours")
def _neighbours(s: lp.Schedule, stage: str) -> lp.Schedule:
    return neighbours(s, stage)


@_subsumed(matches=lambda v: v.only("fold along", "fold across"), name="reduction")
def _reduction(s: lp.Schedule, stage: str) -> lp.Schedule:
    return reduction(s, stage)


def _crowded(view: View) -> View | None:
    folds = len(view.traits) > 1 and view.folds and not view.products
    return view if folds and crowded(view.schedule) else None


@_subsumed(matches=_crowded, name="rows")
def _rows(s: lp.Schedule, match: Match) -> lp.Schedule:
    """Stages along the same rows, one launch whose blocks take rows."""
    return row_blocks(s)


def _scanned_rows(view: View) -> View | None:
    alone = len(view.traits) < 2 or view.products
    return None if alone or not row_scans(view.schedule, view.schedule.stages) else view


@rule(matches=_scanned_rows, name="rows with running folds")
def _rows_with_scans(s: lp.Schedule, match: Match) -> lp.Schedule:
    """Stages along the same rows, of which some are running folds, one launch whose blocks take a row each."""
    return row_blocks(s)


def _along_few_columns(view: View) -> View | None:
    folds = len(view.traits) > 1 and view.folds and not view.products
    return view if folds and along_few_columns(view.schedule) else None


@_subsumed(matches=_along_few_columns, name="few columns")
def _few_columns(s: lp.Schedule, match: Match) -> lp.Schedule:
    """Stages along the same columns, one launch, where that is a block for some of the processors alone."""
    return few_column_blocks(s)


def _stacked(view: View) -> str | None:
    """The last stage, if it is put together of parts along a short loop, and others fold few elements at most."""
    s, last = view.schedule, view.schedule.stages[-1]
    folded = [extent(s, x) or MOST_PARTS + 1 for stage in view.folds for x in s.reduced(stage)]
    if view.products or view.outputs != (last,) or max(folded, default=0) > MOST_PARTS:
        return None
    return last if part_loop(s, last) is not None else None


@rule(matches=_stacked, name="stacked parts")
def _stacked_parts(s: lp.Schedule, stage: str) -> lp.Schedule:
    """All parts of a stack, and what they have in common, in one thread."""
    return stacked_parts(s, stage, producers=[x for x in s.stages if x != stage])


def _same_lengths(view: View) -> tuple[str, ...] | None:
    """The stages, if there are several, none folds, and all have loops of the same lengths."""
    s = view.schedule
    lengths = {tuple(lp.text(s.loop(x).extent) for x in s.loops(stage)) for stage in s.stages}
    return s.stages if len(s.stages) > 1 and not view.folds and len(lengths) == 1 else None


@_subsumed(matches=_same_lengths, name="one space")
def _one_space(s: lp.Schedule, stages: tuple[str, ...]) -> lp.Schedule:
    """Several outputs over the same elements: each iteration makes its element of all of them."""
    s = s.merge(*(s.loops(x)[0] for x in stages))
    return gpu(s, arch=lp.machine())


@_subsumed(matches=lambda v: v.outputs if len(v.outputs) > 1 and v.folds and not v.products else None,
      name="rows of several")  # fmt: skip
def _rows_of_several(s: lp.Schedule, outputs: tuple[str, ...]) -> lp.Schedule:
    """Several outputs along the same rows, folds among them: each block takes a row of all.

    What is no output is computed where its last reader has a row; the nests of the outputs become one along rows.
    """
    s, row = fused(s, s.loops(s.stages[-1])[:1])
    for x in reversed([x for x in s.stages if x not in outputs]):
        s = if_legal(s, "compute_at", x, row)
    first, *others = dict.fromkeys(s.loops(x)[0] for x in s.stages)
    for loop in others:
        s = s.fuse_loops(first, loop)
    return blocks_of_rows(s, first, argument_names(s), None, None, keep=True)


MOST_PRODUCTS = 4
"""Products that are tried as blocks of one launch, at most."""


def unrelated_parts(view: View) -> set[frozenset[str]]:
    """The stages in parts none of which reads from another."""
    part = {x: {x} for x in view.traits}
    for x, readers in view.readers.items():
        for y in readers:
            both = part[x] | part[y]
            part |= dict.fromkeys(both, both)
    return {frozenset(p) for p in part.values()}


def _unrelated(view: View) -> View | None:
    """Parts none of which reads from another, if there are several, and each has one output."""
    parts = unrelated_parts(view)
    outputs = [len(p.intersection(view.outputs)) for p in parts]
    products = [x for x, kind in view.classes.items() if kind == "contraction"]
    single = all(len(p) == 1 for p in parts) or bool(products)
    if len(parts) < 2 or not single or any(n != 1 for n in outputs) or len(products) > MOST_PRODUCTS:
        return None
    return view


def _binds_block(step: tuple[str, tuple[object, ...], object]) -> bool:
    """Whether a step of a trace binds a loop to blocks."""
    name, args, _ = step
    return name == "bind" and str(args[1]).startswith("blockIdx.")


@_subsumed(matches=_unrelated, name="side by side")
def _side_by_side(s: lp.Schedule, view: View) -> lp.Schedule:
    """Outputs that have nothing to do with one another as blocks of one launch, each part scheduled as if alone."""
    parts = [tuple(x for x in s.stages if x in p) for p in unrelated_parts(view)]
    parts.sort(key=lambda p: s.stages.index(p[0]))
    steps = [view.part_alone(p) for p in parts]
    several = [sum(map(_binds_block, x)) > 1 for x in steps]
    plain = [tuple(y for y in x if not (cut and _binds_block(y))) for x, cut in zip(steps, several, strict=True)]
    s = s.schedule_nests(*zip(parts, plain, strict=True))
    grids = list(dict.fromkeys(s.loops(stage)[0] for stage in s.stages))
    if len(grids) == len(parts):
        for n in (n for n, cut in enumerate(several) if cut):  # one loop of blocks instead of an axis for each
            first = next(x for x in s.stages if s.loops(x)[0] == grids[n])
            s, grids[n] = fused(s, s.loops(first)[: sum(map(_binds_block, steps[n]))])
            s = s.bind(grids[n], "blockIdx.x")
    if len(grids) != len(parts) or any(s.loop(x).kind != "blockIdx.x" for x in grids):
        raise lp.ScheduleError(
            f"some of the {len(parts)} unrelated parts are no single kernel, so that they cannot share a launch"
        )
    return s.merge(*grids, side_by_side=True)


NOTHING_TO_WIN = 1 << 30
"""More kernels than any groups apart have."""


def made_in_tiles(view: View, product: str) -> set[str]:
    """The stages whose results may be made where tiles of `product` are copied: all that a convolution reads, and the
    right operand of few rows."""
    if several(view.schedule, product):
        return {x for x in view.traits if product in view.readers[x] and not view.traits[x].folds}
    return set(producers_of_right(view.schedule, product))


def _made_of_pairs(view: View) -> set[str]:
    """The products that folds over pairs compute in registers."""
    found = [pair_fold(view.schedule, x) for x in view.folds if view.products and x not in view.products]
    return {x for pairs in found if pairs is not None for x in pairs.made}


def least_launches(view: View) -> int:
    """How many kernels there are at least where products in tiles are kernels, and folds run before or after them.

    Folds are apart if different numbers of products come before them; what a product reads is stored first, but for
    what is made where its tiles are copied. Parts that read nothing of one another are apart, but for statistics of the
    same columns: with products among them there is nothing to win over each part by itself.
    """
    products, depth, parts = set(view.products) - _made_of_pairs(view), dict[str, int](), len(unrelated_parts(view))
    if not products:
        return 1 if parts > 1 and along_columns(view.schedule) else parts
    if parts > 1:
        return NOTHING_TO_WIN
    for x in view.traits:
        depth[x] = max((depth[y] + (y in products) for y in depth if x in view.readers[y]), default=0)
    read = {x for x in view.traits if depth[x] == 0 and products.intersection(view.readers[x])}
    stored = {x for x in read if not all(x in made_in_tiles(view, y) for y in products.intersection(view.readers[x]))}
    return len(products) + len({depth[x] for x in stored.union(view.folds) - products})


def _chained(view: View) -> View | None:
    folds = set(view.folds) - set(view.products)
    return view if len(view.products) == 2 and folds else None


@_subsumed(matches=_chained, name="product chain")
def _product_chain(s: lp.Schedule, match: Match) -> lp.Schedule:
    """Two products with folds between them in one kernel, which keeps no row of the first."""
    for chain in (product_chain, product_chain_mma) if lp.machine().has("wgmma") else (product_chain_mma,):
        if (made := with_views_split(s, partial(lowered, schedule=chain))) is not None:
            return made
    raise lp.ScheduleError("the stages are no chain of two products along the same rows")


def _views_between(view: View) -> tuple[str, ...] | None:
    """The stages that store elements of an array as they are, in another order or shape, for others of a group of which
    none folds."""
    found = () if view.folds else view.traits
    return tuple(x for x in found if view.readers[x] and x not in view.outputs and is_view(view.schedule, x)) or None


@_subsumed(matches=_views_between, name="views in place")
def _views_in_place(s: lp.Schedule, match: Match) -> lp.Schedule:
    """What reads views reads the arrays, however often, as a diagonal that all rows of a matrix need."""
    for stage in match:
        s = s.compute_inline(stage)
    return gpu(s, arch=lp.machine())


@_subsumed(matches=lambda v: None if v.only("elementwise") else v, name="fused", least_kernels=least_launches)
def _fused(s: lp.Schedule, match: Match) -> lp.Schedule:
    """What is cheap inlined, products in tiles, folds along rows together."""
    return gpu(s, arch=lp.machine())


@rule(matches=lambda v: batch_along(v.schedule), name="batch outside")
def _batch_outside(s: lp.Schedule, match: BatchAlong) -> lp.Schedule:
    """A product whose batch lies along memory, of copies that have it outside."""
    s = turned_first(batch_outside(s, match))
    made = cheapest(s, [_in_one_group, lambda t: _in_one_group(turned_last(t))])
    if made is None:
        raise lp.ScheduleError(f"no recipe takes {match.stage} with its batch outside")
    return made


def _in_one_group(s: lp.Schedule) -> lp.Schedule:
    return gpu(s, arch=lp.machine())


@_subsumed(matches=lambda v: True, name="plain", last_resort=True)
def _plain(s: lp.Schedule, match: Match) -> lp.Schedule:
    """Each stage by itself: independent iterations spread over threads, else one thread."""
    for stage in s.stages:
        if stage not in s.stages or not free_loops(s, stage):
            continue
        try:
            t = elementwise(s, stage)
            lp.lower(t, "cuda")
            s = t
        except (lp.ScheduleError, lp.LowerError, lp.TargetError):
            continue  # it stays on one thread, which is right
    return s


# ---------------------------------------------------------------- CPUs


def least_loops(view: View) -> int:
    """More loops than groups apart have where a product has nothing to do with the others: each runs by itself in any
    case, and of two, with what is between them, a fold makes one loop (`product_chain`)."""
    products, linked = set(view.products), set[str]()
    for product in products:
        for fold in _followers(view, product).intersection(view.folds) - products:
            others = products & _followers(view, fold)
            linked |= {product, *others} if others else set()
    return 1 if len(products) < 2 or linked == products else NOTHING_TO_WIN


def _followers(view: View, stage: str) -> set[str]:
    """The stages that read `stage`, directly or through others that are no products."""
    found = set(view.readers[stage])
    for x in view.traits:
        found |= set(view.readers[x]) if x in found and x not in view.products else set()
    return found


@_subsumed(matches=lambda v: True, target="llvm", name="fused", least_kernels=least_loops)
def _cpu(s: lp.Schedule, match: Match) -> lp.Schedule:
    """Stages along the same rows or windows together, products in register tiles, vectors along memory."""
    return cpu(s)


@rule(matches=lambda v: batch_along(v.schedule), target="llvm", name="batch outside", least_kernels=least_loops)
def _batch_outside_cpu(s: lp.Schedule, match: BatchAlong) -> lp.Schedule:
    """A product whose batch lies along memory, of copies that have it outside."""
    return cpu(batch_outside(s, match))


@_subsumed(matches=_same_lengths, target="llvm", name="one space")
def _one_space_cpu(s: lp.Schedule, stages: tuple[str, ...]) -> lp.Schedule:
    """Several outputs over the same elements in one loop."""
    return cpu(s.merge(*(s.loops(x)[0] for x in stages)))


@_subsumed(matches=lambda v: True, target="llvm", name="plain", last_resort=True)
def _plain_cpu(s: lp.Schedule, match: Match) -> lp.Schedule:
    """As it is written."""
    return s

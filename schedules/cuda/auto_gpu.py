"""A GPU schedule for any nest: a table of recipes, from what a program is made ready by to what takes single stages.

Recipes match the structure of a nest alone. What is cheap is inlined first; then come recipes for a whole program, then
those for its stages, the most specific first. Whatever nothing else takes runs by one thread of a grid for each
independent iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import loopir as lp

from ..common.contraction import separate_operands
from ..common.direct_conv import direct_gpu
from ..common.fusion import epilogue, index_stages_inlined, inlined
from ..common.narrow_sums import narrow_sums
from ..common.nest_queries import free_loops, iterations, one_nest, reader
from ..common.normalize_nests import distributed, normalized, rectangular, without_idle_stages
from ..common.products import pooled, several
from ..common.transpose import find_transposed_read, transpose, worth_turning
from ..common.view_loops import join_views, over_folds, over_products, with_views_split
from .batched_scan import batched_scan, is_recurrence, is_scan, recurrence
from .carried_loops import carried_loops
from .chains_in_parts import chain_of_few_rows
from .chains_in_place import chains_in_place, is_chain
from .cheapest import cheapest
from .column_blocks import along_columns, column_blocks
from .conv import conv_of_floats, conv_on_tensor_cores, conv_on_warpgroups
from .deep_contraction import parts_of
from .diagonal_tiles import diagonal_tiles, has_diagonals
from .elementwise import elementwise
from .gathered_products import gathered_operands, gathered_product, gathers_of
from .pair_folds import folds_pairs, pair_folds
from .product_chains import product_chain
from .product_chains_mma import product_chain_mma
from .recipe_table import Phase, Recipe, apply_phases, is_lowered, lowered
from .recomputed_products import with_recomputed_products
from .reduction import reduction, streams
from .row_blocks import crowded, few_row_blocks, has_few_rows, row_blocks
from .short_folds import folds_in_steps, has_steps, short_fold, short_folds
from .stacked_parts import part_loop, stacked_parts
from .state_columns import columns_of_state, has_state
from .stencil_rows import neighbours, reaches
from .steps_in_blocks import cheapest_steps, in_steps, leads_steps, own_intermediates
from .tiled_products import (
    contraction_in_parts,
    deep_product,
    has_copied_operands,
    has_few_results,
    has_flat_operand,
    has_plain_copies,
    is_product,
    is_tiled,
    multiply,
    multiply_copies,
    producers_of_right,
    product_of_copies,
    product_of_views,
    product_without_copies,
    stored_operands,
    tensor_product,
    views_of,
)
from .wider_operands import chain_of_wider_operands

DEFAULT_THREADS = 256
"""Of a block, of a stage that no recipe takes: eight warps."""


def gpu(s: lp.Schedule, threads: int = DEFAULT_THREADS, arch: str | lp.Machine | None = None) -> lp.Schedule:
    """`s` with cheap stages inlined, and the independent outer loops of each stage spread over blocks of `threads`.

    Stages along the same rows become one kernel, and threads fold reductions that read their data once together. Any
    other stage without an independent outer loop runs on one thread: right, and slow. What only some GPUs have is used
    if `arch`, as `lp.machine` takes it, says that it is there; without it, what all GPUs of sm_80 and later have.
    """
    with lp.scheduling_for(lp.machine("portable" if arch is None else arch)):
        is_new = not s.trace
        s = index_stages_inlined(without_idle_stages(s) if is_new else s)
        s = narrow_sums(s) if is_new else s
        chains = (chain_of_few_rows, product_chain, product_chain_mma)
        for chain in chains if lp.machine().has("wgmma") else (chains[0], chains[2]):
            if chained := with_views_split(s, partial(lowered, schedule=chain)):
                return chained
        others = partial(_by_table, threads, is_new=is_new)
        for chain in (product_chain, product_chain_mma):
            if made := lowered(s, chain_of_wider_operands, chain, others):
                return made
        again = lowered(s, with_recomputed_products, others=others) if lp.machine().has("wgmma") else None
        return again or _cheapest_form(s, others)


def _cheapest_form(s: lp.Schedule, schedule: Callable[[lp.Schedule], lp.Schedule]) -> lp.Schedule:
    """What `schedule` makes of `s` as it is written, or with its updates as reductions, or its statements in nests of
    their own, where it is written otherwise: the cheapest."""
    if s.trace:
        return schedule(s)
    firsts = [nest.stages[0] for nest in lp.nests(s.func) if nest.stages]
    plain = all(one_nest(s, x) or in_steps(s, x) for x in firsts)
    if plain and all(s.why("fold_into_reduce", x) is not None for x in s.stages):
        return schedule(s)
    folds = normalized(s)
    forms = [s, folds, rectangular(folds)]
    if not all(one_nest(folds, x) for x in folds.stages):
        forms.append(distributed(s))
    made = cheapest(s, [partial(_of_form, form=x, schedule=schedule) for x in dict.fromkeys(forms)])
    return schedule(s) if made is None else made


def _of_form(_: lp.Schedule, form: lp.Schedule, schedule: Callable[[lp.Schedule], lp.Schedule]) -> lp.Schedule:
    return schedule(form)


def _by_table(threads: int, s: lp.Schedule, *, is_new: bool) -> lp.Schedule:
    """`s` by the recipes of `table`."""
    s = join_views(over_folds(over_products(s))) if is_new else s
    phases = table(threads)
    made = apply_phases(s, phases)
    # where memory that threads write decides what they run, or they read it, each recipe is lowered by itself
    return made if is_lowered(made) else apply_phases(s, phases, checked=True)


def table(threads: int = DEFAULT_THREADS) -> tuple[Phase, ...]:
    """What `gpu` does, in order; of the rows of a phase, the first that gives something has the stage."""
    return (
        Phase([Recipe("rows of intermediates for steps", leads_steps, own_intermediates, checked=False)]),
        Phase(
            [Recipe("inline what is read once", _always, lambda s, _: over_folds(inlined(s)), checked=False)],
            whole=True,
        ),
        Phase([Recipe("folds over pairs", folds_pairs, pair_folds)]),
        Phase([Recipe("copy one of two equal operands", _has_reduction, _separated, checked=False)]),
        Phase(
            [
                Recipe("store computed operands", _has_reduction, stored_operands, checked=False),
                Recipe("store gathered operands", _has_reduction, gathered_operands, checked=False),
            ]
        ),
        Phase(
            [
                Recipe("product of few results and many terms", has_few_results, deep_product, checked=False),
                Recipe("split the reduction of a deep product", _is_deep, _in_parts, checked=False),
            ]
        ),
        Phase([Recipe("statistics of columns", _is_along_columns, _columns, ends="program")], whole=True),
        Phase([Recipe("folds in registers", short_fold, short_folds)]),
        Phase(
            [
                Recipe("scan", is_scan, batched_scan),
                Recipe("recurrence", is_recurrence, recurrence),
                Recipe("columns of a state", has_state, columns_of_state),
                Recipe("steps of rows in blocks", leads_steps, partial(cheapest_steps, threads)),
            ]
        ),
        Phase(
            [
                Recipe("few rows of blocks", _has_few_rows, lambda s, _: few_row_blocks(s), ends="program"),
                Recipe("rows of blocks", _is_along_rows, lambda s, _: row_blocks(s), ends="program"),
                Recipe("rows read again", _is_along_rows, lambda s, _: row_blocks(s, keep=False), ends="program"),
            ],
            whole=True,
        ),
        Phase(  # what includes the stages that it reads, before these get kernels of their own
            [
                Recipe("convolution by warpgroups", _is_convolution_for_warpgroups, conv_on_warpgroups),
                Recipe("convolution on tensor cores", _is_convolution, conv_on_tensor_cores),
                Recipe("convolution of float32 in tiles", _is_convolution_of_floats, conv_of_floats),
                Recipe("direct convolution", _is_convolution, direct_gpu),
                Recipe("product of copies of float32", has_copied_operands, product_of_copies),
                Recipe("product of one array", has_plain_copies, product_without_copies),
                Recipe("product of views", _has_views, product_of_views),
                Recipe("product of gathered rows", _has_gathers, gathered_product),
                Recipe("product of few rows with its operand", _has_own_producers, tensor_product),
            ]
        ),
        Phase(
            [
                Recipe("product in tiles", _is_free_product, multiply, checked=False),
                Recipe("product of copies of views", _is_free_product, multiply_copies),
                Recipe("rows after a product", _starts_rows, _rows_after, ends="program"),
                Recipe("reduction in steps", _streams_in_steps, _cheapest_of_steps),
                Recipe("reduction", _streams, reduction, ends="row"),
                Recipe("fold into one", _is_one_fold, _by_several),
                Recipe("chains in place", is_chain, lambda s, x: chains_in_place(s, x, threads=threads)),
                Recipe("sweep by diagonals", has_diagonals, lambda s, x: diagonal_tiles(s, x, threads=threads)),
                Recipe("loop with carried dependences", _has_no_free_loop, partial(_carried, threads), checked=False),
                Recipe("transpose", _is_transposed, transpose),
                Recipe("neighbours", _has_neighbours, neighbours),
                Recipe("fold by a thread or by several", _is_known_fold, partial(_cheapest_fold, threads)),
                Recipe("parts of a stack", part_loop, partial(_stack_or_elements, threads)),
                Recipe("elementwise", one_nest, partial(_spread, threads), checked=False),
                Recipe("elementwise beside others", _always, partial(_spread, threads)),
            ]
        ),
    )


def _always(s: lp.Schedule, stage: str) -> bool:
    return True


def _has_reduction(s: lp.Schedule, stage: str) -> bool:
    return bool(s.reduced(stage))


def _separated(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A copy of one operand of `A @ A.T`, where tiles are worth it."""
    made = separate_operands(s, stage)
    if made is s or not is_product(made, stage):
        raise lp.ScheduleError(f"{stage} is no product of two uses of one array")
    return made


def _is_deep(s: lp.Schedule, stage: str) -> bool:
    return parts_of(s, stage) > 1


def _in_parts(s: lp.Schedule, stage: str) -> lp.Schedule:
    return contraction_in_parts(s, stage, parts_of(s, stage))


def _is_along_columns(s: lp.Schedule, _: str) -> bool:
    return not any(is_product(s, x) for x in s.stages) and along_columns(s)


def _columns(s: lp.Schedule, _: str) -> lp.Schedule:
    return column_blocks(s)


def _is_along_rows(s: lp.Schedule, _: str) -> bool:
    return crowded(s) and not any(is_product(s, x) for x in s.stages)


def _has_few_rows(s: lp.Schedule, stage: str) -> bool:
    return _is_along_rows(s, stage) and has_few_rows(s)


def _is_convolution(s: lp.Schedule, stage: str) -> bool:
    return not is_tiled(s, stage) and several(s, stage) and one_nest(s, stage)


def _is_convolution_for_warpgroups(s: lp.Schedule, stage: str) -> bool:
    return lp.machine().has("wgmma") and _is_convolution(s, stage)


def _is_convolution_of_floats(s: lp.Schedule, stage: str) -> bool:
    """Whether it is one of float32, of whose results no pool follows, which `direct_gpu` takes with it."""
    if not _is_convolution(s, stage) or any(t.dtype.name != "float32" for t in s.accesses(stage)):
        return False
    after = reader(s, stage)
    return pooled(s, stage) is None and (after is None or pooled(s, after) is None)


def _has_own_producers(s: lp.Schedule, stage: str) -> bool:
    return not _is_convolution(s, stage) and bool(producers_of_right(s, stage))


def _has_gathers(s: lp.Schedule, stage: str) -> bool:
    return is_tiled(s, stage) and bool(gathers_of(s, stage))


def _has_views(s: lp.Schedule, stage: str) -> bool:
    return _is_free_product(s, stage) and (has_flat_operand(s, stage) or bool(views_of(s, stage)))


def _is_free_product(s: lp.Schedule, stage: str) -> bool:
    return is_tiled(s, stage) and one_nest(s, stage) and bool(free_loops(s, stage))


def _starts_rows(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` and all after it run along rows of what products gave, and are no products themselves."""
    before = s.stages[: s.stages.index(stage)]
    return bool(before) and crowded(s, before) and not any(is_product(s, x) for x in s.stages[len(before) :])


def _rows_after(s: lp.Schedule, stage: str) -> lp.Schedule:
    return row_blocks(s, after=s.stages[: s.stages.index(stage)])


def _streams(s: lp.Schedule, stage: str) -> bool:
    return streams(s, stage) and one_nest(s, stage)


def _streams_in_steps(s: lp.Schedule, stage: str) -> bool:
    return _streams(s, stage) and has_steps(s, stage)


def _cheapest_of_steps(s: lp.Schedule, stage: str) -> lp.Schedule:
    """A vector of results by a thread, where that takes less time than threads that fold together."""
    together, steps = partial(reduction, stage=stage), partial(folds_in_steps, stage=stage)
    made = cheapest(s, (together, steps), part=(stage,))
    if made is None or made.trace[-1].name != folds_in_steps.__name__:
        raise lp.ScheduleError(f"{stage} is folded by several threads")
    return made


def _has_no_free_loop(s: lp.Schedule, stage: str) -> bool:
    return not free_loops(s, stage)


def _carried(threads: int, s: lp.Schedule, stage: str) -> lp.Schedule:
    """The loops inside a carried one, spread over threads; else the stage as it is: it has the grid, or one thread."""
    return lowered(s, carried_loops, stage, threads=threads) or s


def _is_transposed(s: lp.Schedule, stage: str) -> bool:
    t = find_transposed_read(s, stage) if one_nest(s, stage) else None
    return t is not None and worth_turning(s, t)


def _has_neighbours(s: lp.Schedule, stage: str) -> bool:
    return one_nest(s, stage) and bool(reaches(s, stage)) and not _is_transposed(s, stage)


def _is_one_fold(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` folds over all of its loops."""
    return bool(s.reduced(stage)) and one_nest(s, stage) and set(s.reduced(stage)) == set(s.loops(stage))


def _is_known_fold(s: lp.Schedule, stage: str) -> bool:
    """Whether `stage` folds in loops of known lengths."""
    return bool(s.reduced(stage)) and one_nest(s, stage) and bool(iterations(s, s.loops(stage)))


def _cheapest_fold(threads: int, s: lp.Schedule, stage: str) -> lp.Schedule:
    """Each result by a thread, which waits for one load after the other, or by several, or a vector of results by a
    thread; the cheapest of these."""
    recipes = [partial(_by_thread, stage=stage, threads=threads), partial(_by_several, stage=stage)]
    recipes += [partial(folds_in_steps, stage=stage, threads=threads)] if has_steps(s, stage) else []
    if (made := cheapest(s, recipes, part=(stage,))) is None:
        raise lp.ScheduleError(f"{stage} is folded by no threads")
    return made


def _by_thread(s: lp.Schedule, stage: str, threads: int) -> lp.Schedule:
    return _spread(threads, s, stage)


def _by_several(s: lp.Schedule, stage: str) -> lp.Schedule:
    return epilogue(reduction(s, stage), stage)


def _stack_or_elements(threads: int, s: lp.Schedule, stage: str) -> lp.Schedule:
    recipes = [partial(_by_thread, stage=stage, threads=threads), partial(stacked_parts, stage=stage)]
    if (made := cheapest(s, recipes, part=(stage,))) is None:
        raise lp.ScheduleError(f"{stage} is made by no threads")
    return made


def _spread(threads: int, s: lp.Schedule, stage: str) -> lp.Schedule:
    """Every independent iteration by a thread."""
    return elementwise(s, stage, threads=threads)

"""The primitives as methods of Schedule, for editors and type checkers alone. Generated: do not edit.

`python -m loopir.schedule.stubs` writes it again.
"""

from __future__ import annotations

from typing import Literal, Self


class Methods:
    __slots__ = ()

    def align_dim(self, buffer: str, dim: int, multiple: int) -> Self:
        """Round the size of dimension `dim` of the intermediate `buffer` up to a multiple of `multiple`."""
        raise NotImplementedError

    def alternate(self, *loops: str) -> Self:
        """Run `loops`, bound to warpgroups, in turns: by one warpgroup after another."""
        raise NotImplementedError

    def atomic(self, stage: str) -> Self:
        """Make every fold of the reduction `stage` one step, which no other thread comes between."""
        raise NotImplementedError

    def bind(self, loop: str, axis: str) -> Self:
        """Give each iteration of `loop` to one index of `axis`: of blocks, of threads, or of what lies between."""
        raise NotImplementedError

    def cache_inplace(self, buffer: str, scope: str, at: str, *, name: str | None = None) -> Self:
        """Copy what one iteration of loop `at` touches of `buffer` into memory of `scope`, update it there, and copy
        it back."""
        raise NotImplementedError

    def cache_read(
        self,
        stage: str | tuple[str, ...],
        buffer: str,
        scope: str,
        at: str | None = None,
        *,
        name: str | None = None,
        dtype: str | None = None,
        element: str | None = None,
    ) -> Self:
        """Copy what `stage` reads of `buffer` in one iteration of loop `at` into memory of `scope`, and read it
        there."""
        raise NotImplementedError

    def cache_write(self, stage: str, scope: str, at: str | None = None, *, name: str | None = None) -> Self:
        """Let `stage` write into memory of `scope`, and copy that out at the end of each iteration of loop `at`."""
        raise NotImplementedError

    def clone(self, stage: str, *readers: str) -> Self:
        """Compute `stage` a second time, right after it, into memory of its own, which `readers` read instead."""
        raise NotImplementedError

    def compute_at(self, stage: str, loop: str, *, store: str | None = None) -> Self:
        """Compute `stage` in `loop`, at its start: in each iteration what the iteration reads of it, over its own
        loops."""
        raise NotImplementedError

    def compute_inline(self, stage: str) -> Self:
        """Compute `stage` wherever it is read, instead of storing it. It has to be one plain store."""
        raise NotImplementedError

    def compute_once(self, stage: str, reader: str) -> Self:
        """Read in `reader` the elements that `stage` stores, in place of each value that is computed as they are."""
        raise NotImplementedError

    def compute_root(self, stage: str) -> Self:
        """Compute all of `stage` in a nest of its own, before that of what reads it, whose loops keep their names."""
        raise NotImplementedError

    def decompose_reduction(self, stage: str, loop: str | None = None) -> Self:
        """Store the `init` of the reduction `stage` in a nest of its own, `stage_init`, before `loop`."""
        raise NotImplementedError

    def defer_scale(self, stage: str) -> Self:
        """Leave a positive constant that `stage` multiplies by to the statements that read its intermediate."""
        raise NotImplementedError

    def distribute(self, loop: str, *after: str, names: tuple[str, ...] | None = None) -> Self:
        """Cut the body of `loop` after the stages named in `after`, or after every statement, and loop over each
        part."""
        raise NotImplementedError

    def double_buffer(self, buffer: str, loop: str) -> Self:
        """Give the copy `buffer`, which each iteration of `loop` fills and uses, two halves: one is filled for the
        next."""
        raise NotImplementedError

    def factor_out(self, stage: str) -> Self:
        """Multiply the sum `stage` by the factors that all its terms have in common, and no term any more."""
        raise NotImplementedError

    def fold_into_reduce(self, stage: str) -> Self:
        """Turn the update of `stage`, such as `x = x + e` or `x = max(x, e)`, into a reduction."""
        raise NotImplementedError

    def fold_storage(self, buffer: str, dim: int, factor: int) -> Self:
        """Keep only `factor` rows of dimension `dim` of the intermediate `buffer`: row x lies where row x % factor
        does."""
        raise NotImplementedError

    def fuse(self, outer: str, inner: str, *, name: str | None = None) -> Self:
        """Fuse `outer` and `inner`, the only statement in it, into one loop called `name`. The order stays."""
        raise NotImplementedError

    def fuse_dims(self, buffer: str, first: int, count: int = 2) -> Self:
        """Make `count` dimensions of the intermediate `buffer`, from dimension `first` on, one dimension of all of
        them."""
        raise NotImplementedError

    def fuse_loops(
        self,
        first: str,
        second: str,
        *,
        shift: int | tuple[int, ...] = 0,
        tail: Literal["exact", "guard"] = "exact",
        names: tuple[str, ...] | None = None,
    ) -> Self:
        """Fuse the nests of `first` and `second`, which stand one right after the other, into one. Two guards of one
        test that are around them become one, and memory that is there for the end of the first is for the second,
        too."""
        raise NotImplementedError

    def hoist(self, stage: str, loop: str) -> Self:
        """Move `stage` out of `loop`, where it does the same in every iteration; else those of its values that do."""
        raise NotImplementedError

    def merge(self, *loops: str, side_by_side: bool = False, name: str | None = None) -> Self:
        """Merge the nests of `loops`, which stand one after the other, into one."""
        raise NotImplementedError

    def merge_reduction(self, stage: str) -> Self:
        """Make the number that is stored just before the reduction `stage` its `init`."""
        raise NotImplementedError

    def multicast(self, loop: str) -> Self:
        """Let each block of a cluster do one iteration of `loop`, a copy to shared memory, for all of its blocks."""
        raise NotImplementedError

    def narrow_functions(self, stage: str) -> Self:
        """Compute functions of `stage`, such as `exp`, by those for results of 16 bits, such as `exp_16`."""
        raise NotImplementedError

    def narrow_sum(self, stage: str, dtype: str = "int32") -> Self:
        """Add up the sum `stage` of integers in `dtype`, where the types of its terms, and how many there are, prove
        that this type holds it. Those that read the sum widen it."""
        raise NotImplementedError

    def pad(self, stage: str, *loops: str, value: float | int = 0.0) -> Self:
        """Run `stage` without the guards that speak of `loops`, or without any where none is named."""
        raise NotImplementedError

    def parallel(self, loop: str) -> Self:
        """Run the iterations of `loop` in any order and at once, on the threads of the CPU."""
        raise NotImplementedError

    def partition(self, loop: str) -> Self:
        """Cut `loop` into an interior without the guards that depend on it, and the iterations before it and after
        it."""
        raise NotImplementedError

    def peel(self, loop: str, *, first: int | str = 0, last: int = 0) -> Self:
        """Give the `first` iterations of `loop`, and the `last` ones, loops of their own: `i_first` and `i_last`."""
        raise NotImplementedError

    def pipeline(self, loop: str, *, stages: int, ahead: int | None = None, among: str | None = None) -> Self:
        """Let `loop` run ahead with its copies: those for iteration i are made in iteration i - `ahead`."""
        raise NotImplementedError

    def prefetch(self, stage: str, buffer: str, loop: str, ahead: int = 1, *, over: str | None = None) -> Self:
        """Have each iteration of `loop` ask for what `stage` uses of `buffer` in the one `ahead` later, a line at a
        time."""
        raise NotImplementedError

    def privatize(self, buffer: str, loop: str) -> Self:
        """Allocate the intermediate `buffer` anew in each iteration of `loop`, which can then run in parallel."""
        raise NotImplementedError

    def privatize_reduction(self, stage: str, at: str, scope: str = "local", *, name: str | None = None) -> Self:
        """Fold what `stage` folds in one iteration of loop `at` into a buffer of its own, and that into the result
        once."""
        raise NotImplementedError

    def rectangularize(self, loop: str, *, skewed: str | None = None) -> Self:
        """Run `loop` as often as it runs at most, whatever the loops around it, and skip by a guard what is too
        much."""
        raise NotImplementedError

    def reindex(
        self,
        stage: str,
        buffer: str | tuple[str, ...],
        *loops: str,
        at: str | None = None,
        name: str | None = None,
        dtype: str | None = None,
        argument_of: str | None = None,
    ) -> Self:
        """Keep what `stage` makes of `buffer` alone in memory with one dimension for each of `loops`, and read it
        there."""
        raise NotImplementedError

    def rename(self, old: str, new: str) -> Self:
        """Call `old` by the name `new`: a loop ("i" or "C.i"), a buffer, a stage, or a buffer and its stage
        together."""
        raise NotImplementedError

    def reorder(self, *loops: str) -> Self:
        """Put `loops`, which are nested perfectly, in the order given; loops of the nest not named keep their
        places."""
        raise NotImplementedError

    def reorder_dims(self, buffer: str, *order: int) -> Self:
        """Put the dimensions of the intermediate `buffer` in the order in which `order` names those that there are."""
        raise NotImplementedError

    def retime(self, loop: str, *late: str, by: int = 1, before: str | None = None) -> Self:
        """Run the stages `late` of each iteration of `loop` `by` iterations later, beside the others of that
        iteration."""
        raise NotImplementedError

    def reuse(self, buffer: str, old: str) -> Self:
        """Keep `buffer` in the memory of `old`, an intermediate of its type that is as large, and needed at other
        times."""
        raise NotImplementedError

    def reverse(self, loop: str) -> Self:
        """Run the iterations of `loop` from the last one to the first."""
        raise NotImplementedError

    def reverse_compute_at(self, stage: str, loop: str) -> Self:
        """Compute `stage` at the end of `loop`, which computes what it reads: in each iteration what that has
        finished."""
        raise NotImplementedError

    def reverse_compute_inline(self, stage: str) -> Self:
        """Compute `stage` in the store of what it reads, instead of that: the intermediate is no more."""
        raise NotImplementedError

    def rfactor(self, stage: str, loop: str) -> Self:
        """Fold each iteration of `loop`, over which `stage` reduces, into an element of its own; then fold these."""
        raise NotImplementedError

    def rolling_update(self, stages: tuple[str, ...], loop: str) -> Self:
        """Compute `stages`, whose nests follow that of `loop`, in `loop`, block by block, though they need folds
        that are done only when `loop` ends."""
        raise NotImplementedError

    def scan_blocks(self, loop: str, factor: int, *, names: tuple[str, str] | None = None) -> Self:
        """Run `loop`, which stores a running fold, in blocks of `factor` iterations that do not wait for one
        another."""
        raise NotImplementedError

    def schedule_nests(
        self,
        *groups: tuple[tuple[str, ...], tuple[tuple[str, tuple[object, ...], tuple[tuple[str, object], ...]], ...]],
    ) -> Self:
        """Take steps on some nests alone. Each group names stages, whose nests come to stand side by side, and
        steps."""
        raise NotImplementedError

    def set_layout(self, buffer: str, layout: str) -> Self:
        """Lay the elements of the intermediate `buffer` out by `layout`, a mapping of indices written as a lambda."""
        raise NotImplementedError

    def set_scope(self, buffer: str, scope: str) -> Self:
        """Keep the intermediate `buffer` in memory of `scope`: "global", "shared" (a block's), "local" (a thread's),
        or "fragment" (tiles that the lanes of a warp hold together, in registers, as an instruction wants them)."""
        raise NotImplementedError

    def simplify(self, loop: str | None = None, *, drop_unit_loops: bool = False) -> Self:
        """Simplify each index and guard where it stands, in `loop` or everywhere; what never runs goes."""
        raise NotImplementedError

    def skew(self, outer: str, inner: str, factor: int = 1) -> Self:
        """Start `inner` later by `factor` with each iteration of `outer`: what was iteration j is j + factor * i."""
        raise NotImplementedError

    def specialize(self, loop: str, when: str | None = None) -> Self:
        """Make a version of `loop` for where `when` holds, and keep the loop as it is for where it does not."""
        raise NotImplementedError

    def specialize_warps(
        self, loop: str, *, stages: int, registers: tuple[int, int] = (40, 232), once: tuple[str, ...] = ()
    ) -> Self:
        """Let warps of their own make the copies of `loop`, up to `stages` iterations ahead of the rest."""
        raise NotImplementedError

    def split(
        self,
        loop: str,
        factor: int,
        *,
        tail: Literal["guard", "exact", "shift_inwards", "round_up", "peel"] = "guard",
        names: tuple[str, str] | None = None,
    ) -> Self:
        """Split `loop` into an outer loop over tiles and an inner one of `factor` iterations; `names` are theirs."""
        raise NotImplementedError

    def split_dim(self, buffer: str, dim: int, factor: int) -> Self:
        """Make dimension `dim` of the intermediate `buffer` two: one of its parts of `factor` elements, and one of
        these."""
        raise NotImplementedError

    def split_sum(self, stage: str) -> Self:
        """Fold the two parts of each term of the sum `stage` one after the other: the second by a stage of its own."""
        raise NotImplementedError

    def stream_k(self, stage: str, outer: str, inner: str, parts: int) -> Self:
        """Deal the iterations of `outer` and of `inner` in it, over which `stage` reduces, to `parts` parts of one
        length."""
        raise NotImplementedError

    def tensorize(self, loop: str, instruction: str) -> Self:
        """Have the nest of `loop` done by `instruction`, whose meaning it has to be: the same fold or store of the
        same value, in loops of the same extents, whatever their names and order, of operands whose elements follow
        one another."""
        raise NotImplementedError

    def tile(
        self,
        *loops_and_factors: str | int,
        tail: Literal["guard", "exact", "shift_inwards", "round_up", "peel"] = "guard",
    ) -> Self:
        """Split each loop by its factor and reorder: the loops over tiles, then the loops inside a tile."""
        raise NotImplementedError

    def trim(self, loop: str) -> Self:
        """Skip the first and last iterations of `loop` in which a condition, such as that of a mask, leaves no
        effect."""
        raise NotImplementedError

    def unroll(self, loop: str) -> Self:
        """Unroll `loop`, whose extent has to be a constant. The order of its iterations stays, so it is always
        legal."""
        raise NotImplementedError

    def unroll_and_jam(self, loop: str, factor: int, *, tail: Literal["peel", "guard", "exact"] = "peel") -> Self:
        """Split `loop` by `factor`, and run the iterations of a tile together in the innermost statements, unrolled."""
        raise NotImplementedError

    def unwrap(self, stage: str) -> Self:
        """Read each element of `stage` whose subscript is `e % n`, with e less than n away from the period, by a
        test."""
        raise NotImplementedError

    def use_exp2(self, stage: str) -> Self:
        """Compute each exponential of a difference in `stage`, `exp_16(x * c - y * c)`, as a power of 2."""
        raise NotImplementedError

    def use_partials(self, stage: str, fold: str) -> Self:
        """Let the partial results that `stage` folds read those that `fold` folds, in place of what these come to."""
        raise NotImplementedError

    def vectorize(self, loop: str) -> Self:
        """Run all iterations of `loop` together, statement by statement: each reads in all lanes before it writes in
        any."""
        raise NotImplementedError

    def wavefront(self, outer: str, inner: str, factor: int | None = None) -> Self:
        """Skew `inner` by `factor` and put it outside `outer`, whose iterations are independent then."""
        raise NotImplementedError

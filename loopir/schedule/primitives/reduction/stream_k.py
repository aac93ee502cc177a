"""stream_k: the folds of all elements are dealt out in parts of one length, which end in the midst of an element's.

Where there are few more elements, or tiles of them, than processors, whole ones leave most processors idle in the end.
After Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU"
(2023); what the parts of an element gave is folded in order, by a nest that follows, so results do not vary.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from loopir.analysis.regions.retile import Retiling
from loopir.arith.poly import expand_index, to_index
from loopir.arith.simplify import Context
from loopir.arith.simplify_func import Known
from loopir.arith.upper_bound import max_trip_count
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    Alloc,
    Body,
    Buffer,
    Cond,
    Func,
    Index,
    InstrRegion,
    Int,
    Load,
    Loop,
    Reduce,
    Stmt,
    Var,
    maximum,
    minimum,
)
from loopir.ir.printer import text
from loopir.ir.traverse.walk import fresh_name, leaf_paths, replace, replace_stmt, rewrite, taken_names
from loopir.schedule.core.facts import known_at
from loopir.schedule.core.find import find_serial, join_names
from loopir.schedule.core.naming import new_names
from loopir.schedule.legality.reductions import (
    Fold,
    find_reduce,
    nested,
    require_delay,
    require_folded,
    require_inside,
    require_outlived,
    with_new_loops,
)
from loopir.schedule.legality.widening import require_apart_at_once
from loopir.schedule.schedule import primitive


@primitive
def stream_k(func: Func, stage: str, outer: str, inner: str, parts: int) -> Func:
    """Deal the iterations of `outer` and of `inner` in it, over which `stage` reduces, to `parts` parts of one length.

    Each part folds its iterations in order: the rest of an iteration of `outer`, whole ones, and the beginning of one,
    its pieces. What a piece gives is the stage `stage_sk`; `stage` folds these in a nest that follows. It is legal for
    every monoid, as these are associative; floats are rounded in another order. The parts are independent: bind them
    to blocks. Both loops have constant lengths; there are fewer parts if so many are not needed.

    before:
        def rows(A: "float32[3, 4]", S: "out float32[3]"):
            for i in range(3):
                for k in range(4):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    call:    stream_k("S", "i", "k", 2)
    after:
        def rows(A: "float32[3, 4]", S: "out float32[3]"):
            with alloc("float32[2, 2]") as S_sk:
                for part in range(2):
                    for piece in range(2):
                        for k in range(min(part * 6 - part * 3 // 2 * 4 - piece * 4 + 6, 4)
                                - max(part * 6 - part * 3 // 2 * 4 - piece * 4, 0)):
                            S_sk[part, piece] = sum(A[part * 3 // 2 + piece,
                                    min(k + max(part * 6 - part * 3 // 2 * 4 - piece * 4, 0), 3)], over=k, init=0.0)
                for i_1 in range(3):
                    for part_1 in range((i_1 * 2 + 1) // 3 - i_1 * 2 // 3 + 1):
                        S[i_1] = sum(S_sk[i_1 * 2 // 3 + part_1, i_1 - (i_1 * 2 // 3 * 3 + part_1 * 3) // 2], over=part_1,
                                init=0.0)
    refuses: stream_k("S", "k", "i", 2)  # S does not reduce over 'i'
    refuses: stream_k("S", "i", "k", 0)  # 0 parts

    before:
        def both(A: "float32[3, 4]", S: "out float32[3]", B: "out float32[3, 4]"):
            for i in range(3):
                for k in range(4):
                    S[i] = sum(A[i, k], over=k, init=0.0)
                    B[i, k] = A[i, k]
    refuses: stream_k("S", "i", "k", 2)  # holds B, too

    before:
        def many(n: "size", A: "float32[n, 4]", S: "out float32[n]"):
            for i in range(n):
                for k in range(4):
                    S[i] = sum(A[i, k], over=k, init=0.0)
    refuses: stream_k("S", "i", "k", 2)  # 'i' runs n times, and parts of one length need a number of them
    """  # noqa: E501
    fold, tile, target = find_reduce(func, stage), find_serial(func, outer), find_serial(func, inner)
    require_folded(fold, target)
    if parts < 1:
        raise ScheduleError(f"{parts} parts are none", loop=tile.var, suggestion="as many as there are processors")
    if tile.body != (target,) or tile.var in fold.over or fold.start is not target:
        reason = f"{target.var!r} is not directly inside {tile.var!r}, as the first of the loops that it reduces over"
        raise ScheduleError(reason, loop=target.var, suggestion="reorder the loops")
    done = next((s for s in fold.place.around if isinstance(s, InstrRegion)), None)
    if done is not None:
        reason = f"{done.fn.name} folds into {fold.reduce.label}, and pieces would be in other memory"
        raise ScheduleError(reason, loop=target.var, suggestion="tensorize afterwards")
    if others := sorted({p.stmt.label for p in leaf_paths(tile.body)} - {fold.reduce.label}):
        raise ScheduleError(f"{tile.var!r} holds {join_names(others)}, too", loop=tile.var, suggestion="distribute it")
    whole = Fold(fold.place, fold.reduce, tile, (tile, *fold.shells), fold.over)
    dealt = _PartitionedNest.of(func, whole, target, parts)
    require_delay(func, whole, dealt.again, tile.var, f"{fold.reduce.label} would be folded after its loops")
    if fold.reduce.init is None:
        require_inside(func, whole, dealt.again, tile.var)
    new = replace_stmt(func, tile, dealt.nest())
    if fold.reduce.init is None:
        label = fold.reduce.label
        require_apart_at_once(func, new, label, {}, f"{label} would be folded, where it is not now,")
    return new


@dataclass(frozen=True, slots=True)
class _Part:
    """`pieces` of a part, each of `extent` iterations, from `begin` on, of iteration `tile` of the outer loop."""

    pieces: Index
    tile: Index
    begin: Index
    extent: Index


@dataclass(frozen=True, slots=True)
class _PartitionedNest:
    """The nest of `fold`, which begins at the outer loop; `again` is what the fold of pieces has around it."""

    func: Func
    fold: Fold
    loop: Loop
    again: tuple[Loop | Cond, ...]
    times: int
    """Iterations of the outer loop."""
    length: int
    """Iterations of `loop`."""
    share: int
    """Iterations of both that a part has."""

    @staticmethod
    def of(func: Func, fold: Fold, loop: Loop, parts: int) -> _PartitionedNest:
        tile = fold.shells[0]
        assert isinstance(tile, Loop)
        times, length = (_constant(x) for x in (tile, loop))
        over = set(fold.over)
        again = fold.without(over)
        require_outlived(again, over, loop.var)
        return _PartitionedNest(func, fold, loop, again, times, length, max(1, -(-times * length // parts)))

    @property
    def per(self) -> int:
        """The parts of an iteration of the outer loop, where each part lies within one; 0 if there are others."""
        return -(-self.length // self.share) if self.times == 1 or self.length % self.share == 0 else 0

    @property
    def total(self) -> int:
        return self.times * self.length

    @property
    def parts(self) -> int:
        return -(-self.total // self.share)

    def begun(self, part: int) -> int:
        """In which iteration of the outer loop `part` begins."""
        return part * self.share // self.length

    def pieces(self, part: int) -> int:
        """Of how many iterations of the outer loop `part` has some."""
        return (min((part + 1) * self.share, self.total) - 1) // self.length - self.begun(part) + 1

    def reduced(self) -> tuple[int, int]:
        """`share` and `length` without what divides both."""
        common = gcd(self.share, self.length)
        return self.share // common, self.length // common

    def nest(self) -> Alloc:
        """The pieces, in memory of their own, and the fold of them."""
        reduce, taken = self.fold.reduce, taken_names(self.func)
        inner = [s for s in self.again[1:] if isinstance(s, Loop)]
        most = max((self.pieces(n) for n in range(self.parts)), default=1)
        shape = (Int(max(1, self.parts)), Int(most), *map(self.size, inner))
        memory: list[Buffer] = []
        for b in reduce.buffers:
            memory.append(Buffer(fresh_name(f"{b.name}_sk", taken), shape, b.dtype))
            taken.add(memory[-1].name)
        part, piece = new_names(self.func, ("part", "piece"), None, made=[b.name for b in memory])
        own = tuple(Var(s.var) for s in inner)
        first = self.dealt(tuple(memory), (Var(part), Var(piece), *own), part, piece)
        second, _ = with_new_loops(
            self.func, self.folded(tuple(memory), own, part), [part, piece, *(b.name for b in memory)]
        )
        body: Body = (first, *second)
        for b in reversed(memory[1:]):
            body = (Alloc(b, body),)
        return Alloc(memory[0], body)

    def part(self, part: Var, piece: Var) -> _Part:
        """The parts, each index in its shortest form: none is decided by what is known where they stand."""
        share, length = self.share, self.length
        begin, end = part * share, part * share + share
        exact = self.parts * share == self.total
        end = end if exact else minimum(end, Int(self.total))
        if self.per:
            tile, turn = (part // self.per, part % self.per) if self.times > 1 else (Int(0), part)
            return _Part(Int(1), tile, turn * share, Int(share) if exact else end - begin)
        if share % length == 0:
            each = share // length
            first = part * each
            pieces = Int(each) if exact else minimum(first + each, Int(self.times)) - first
            return _Part(pieces, first + piece, Int(0), Int(length))
        by, over = self.reduced()
        first = _quotient(part, by, 0, over)
        ended = _quotient(part, by, by - 1 + over, over) if exact else (end + (length - 1)) // length
        pieces, tile = _sum(ended - first), first + piece
        # least values that say no more than what is so, but are seen at once
        if not isinstance(pieces, Int) or self.begun(self.parts - 1) + pieces.value > self.times:
            tile = minimum(tile, Int(self.times - 1))
        skipped = maximum(_sum(begin - tile * length), Int(0))
        return _Part(pieces, tile, skipped, minimum(_sum(end - tile * length), Int(length)) - skipped)

    def dealt(self, memory: tuple[Buffer, ...], at: tuple[Index, ...], part: str, piece: str) -> Stmt:
        """Each part's iterations, piece by piece, folded into `memory`."""
        reduce, x = self.fold.reduce, self.part(Var(part), Var(piece))
        made = Reduce(memory[0].name, memory, at, reduce.monoid, reduce.values, self.fold.over, reduce.monoid.identity)
        inside = Var(self.loop.var) + x.begin
        if not self.per and x.begin != Int(0):
            inside = minimum(inside, Int(self.length - 1))
        tiles = self.fold.shells[0]
        assert isinstance(tiles, Loop)

        def known() -> Context:
            outside = known_at(self.func, tiles).here.loop(part, Int(self.parts)).loop(piece, x.pieces)
            return outside.loop(self.loop.var, x.extent)

        body = rewrite(self.loop.body, lambda s: made if s is reduce else None)
        body = Retiling({tiles.var: x.tile, self.loop.var: inside}, {}).body(body, Known(frozenset(), known))
        whole = Loop(self.loop.var, x.extent, self.loop.kind, body)
        return Loop(part, Int(self.parts), "serial", (Loop(piece, x.pieces, "serial", (whole,)),))

    def pieced(self, tile: Var, part: Var) -> tuple[Index, Index, Index]:
        """How many parts have some of iteration `tile` of the outer loop; of the one that is `part` of these, its
        number, and which of its pieces that is."""
        if self.per:
            return Int(self.per), tile * self.per + part, Int(0)
        if self.share % self.length == 0:
            each = self.share // self.length
            return Int(1), tile // each if self.parts > 1 else Int(0), tile % each if self.parts > 1 else tile
        over, by = self.reduced()
        first = _quotient(tile, by, 0, over)
        place = first + part
        return _sum(_quotient(tile, by, by - 1 + over, over) - first), place, tile - _sum(place * over) // by

    def folded(self, memory: tuple[Buffer, ...], own: tuple[Index, ...], part: str) -> Body:
        """The pieces of each element, folded into it."""
        tile, *inner = self.again
        assert isinstance(tile, Loop)
        parts, place, piece = self.pieced(Var(tile.var), Var(part))
        total = replace(self.fold.reduce, values=tuple(Load(b, (place, piece, *own)) for b in memory), over=(part,))
        return nested((tile, Loop(part, parts, "serial", ()), *inner), (total,))

    def size(self, loop: Loop) -> Index:
        """The most iterations that `loop` has, which the memory has room for."""
        around = {x.var: x.extent for x in (*self.fold.outer, *self.fold.loops()) if x is not loop}
        size = max_trip_count(loop, around)
        if size is None:
            reason = f"{loop.var!r} runs {text(loop.extent)} times, and how much memory that needs is not known"
            raise ScheduleError(reason, loop=loop.var, suggestion=f'split("{loop.var}", 32)')
        return size


def _constant(loop: Loop) -> int:
    if isinstance(loop.extent, Int) and loop.extent.value > 0:
        return loop.extent.value
    reason = f"{loop.var!r} runs {text(loop.extent)} times, and parts of one length need a number of them"
    raise ScheduleError(reason, loop=loop.var, suggestion="a constant size")


def _quotient(v: Var, by: int, more: int, over: int) -> Index:
    """`(v * by + more) // over`, whole ones taken out."""
    return (v * by + more % over) // over + more // over


def _sum(ix: Index) -> Index:
    """`ix` with its terms added up."""
    return to_index(expand_index(ix))

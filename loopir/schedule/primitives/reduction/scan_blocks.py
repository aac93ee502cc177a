"""scan_blocks: a running fold goes on block by block, each from where those before it end, which is known before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from loopir.arith.poly import coefficient, const_of, to_index
from loopir.arith.simplify import poly, simplify_cond
from loopir.arith.upper_bound import upper_bound
from loopir.errors import ScheduleError
from loopir.ir.grammar import (
    FALSE,
    TRUE,
    Alloc,
    Body,
    Buffer,
    Cmp,
    Cond,
    Func,
    If,
    Index,
    Int,
    Load,
    Loop,
    Monoid,
    Not,
    Op,
    Reduce,
    Select,
    Stmt,
    Store,
    Value,
    Var,
    ceildiv,
    conj,
    conjuncts,
    maximum,
)
from loopir.ir.layout.layouts import reads_only
from loopir.ir.ops import MONOIDS, Intrinsic
from loopir.ir.printer import text
from loopir.ir.traverse.walk import free_vars, loaded_buffers, nodes, path_to, path_within, replace, rewrite, substitute
from loopir.schedule.core.facts import Facts, known_at, known_in, rewrite_loop
from loopir.schedule.core.find import find_serial, find_stage
from loopir.schedule.core.naming import UsedNames, new_names
from loopir.schedule.legality.effects import require_stable_extent
from loopir.schedule.legality.refusal import refusal
from loopir.schedule.schedule import primitive
from loopir.schedule.transform.caches import CacheSite, accesses_of, clash_in
from loopir.schedule.transform.split_range import with_values

FOLDS = ("sum", "prod", "min", "max", "any", "all")


@primitive
def scan_blocks(func: Func, loop: str, factor: int, *, names: tuple[str, str] | None = None) -> Func:
    """Run `loop`, which stores a running fold, in blocks of `factor` iterations that do not wait for one another.

    Its only statement stores what the iteration before stored, folded by a monoid (sum, prod, min, max, any or all)
    with another value: `S[i + 1] = S[i] + A[i]`, or `S[i + 1] += S[i]`. First each block but the last is folded on its
    own; these folds are scanned in a row, which tells where each block ends; then each block goes on from where the one
    before it ends. The values are computed twice, and no block waits for another; the loop over blocks and the one
    inside it are called `names`. What the first iteration goes on from stands before the loop, or in it:
    `select(1 <= i, S[i - 1], 0.0) + A[i]`. Floats are rounded in another order, as by `rfactor`. The row of ends, and
    each block, can be cut again.

    before:
        def sums(A: "int32[96]", S: "out int32[96]"):
            for i in range(96):
                S[i] = select(1 <= i, S[i - 1], 0) + A[i]
    call:    scan_blocks("i", 8, names=("b", "k"))
    after:
        def sums(A: "int32[96]", S: "out int32[96]"):
            with alloc("int32[12]") as S_sums, alloc("int32[12]") as S_ends:
                for i_o in range(11):
                    for i_i in range(8):
                        S_sums[i_o] = sum(A[i_o * 8 + i_i], over=i_i, init=0)
                for i_o_1 in range(11):
                    S_ends[i_o_1] = select(1 <= i_o_1, S_ends[i_o_1 - 1], 0) + S_sums[i_o_1]
                for b in range(12):
                    for k in range(8):
                        S[b * 8 + k] = select(1 <= k, S[b * 8 + k - 1], select(1 <= b, S_ends[b - 1], 0)) + A[b * 8 + k]
    refuses: scan_blocks("i", 0)  # a block has 1 iteration at least

    before:
        def powers(n: "size", A: "float32[1]", S: "out float32[n + 1]"):
            S[0]: "S_init" = 1.0
            for i in range(n):
                S[i + 1] = S[i] * A[0]
    call:    scan_blocks("i", 8, names=("b", "k"))
    after:
        def powers(n: "size", A: "float32[1]", S: "out float32[n + 1]"):
            S[0]: "S_init" = 1.0
            with alloc("float32[(n + 7) // 8]") as S_sums, alloc("float32[(n + 7) // 8]") as S_ends:
                for i_o in range((n + 7) // 8 - 1):
                    for i_i in range(8):
                        S_sums[i_o] = prod(A[0], over=i_i, init=1.0)
                for i_o_1 in range((n + 7) // 8 - 1):
                    S_ends[i_o_1] = select(1 <= i_o_1, S_ends[i_o_1 - 1], S[0]) * S_sums[i_o_1]
                for b in range((n + 7) // 8):
                    for k in range(8):
                        if b * 8 + k < n:
                            S[b * 8 + k + 1] = select(1 <= k, S[b * 8 + k], select(1 <= b, S_ends[b - 1], S[0])) * A[0]

    before:
        def g(n: "size", A: "float32[n]", S: "inout float32[n + 2]", T: "inout float32[n + 1]"):
            for i in range(n):
                S[i + 2] = S[i + 1] + S[i] * A[i]
            for j in range(n):
                T[j + 1] = T[j] * 2.0 + A[j]
            for r in range(n):
                for k in range(n):
                    S[k] = S[k] + A[r]
    refuses: scan_blocks("i", 4)  # S at (i=0) writes S[2], which S at (i=2) reads later
    refuses: scan_blocks("j", 4)  # T does not fold T[j], which the iteration before stored
    refuses: scan_blocks("r", 4)  # 'r' holds another loop
    """
    target = find_serial(func, loop)
    stored = rewrite(target.body, _as_store)
    if stored is not target.body:
        func = rewrite_loop(func, target, lambda: replace(target, body=stored))
        target = find_serial(func, target.var)
    if factor < 1:
        raise ScheduleError(
            f"a block has 1 iteration at least, not {factor}", loop=target.var, suggestion="a factor of 1 or more"
        )
    require_stable_extent(target)
    scan = _Scan.of(func, target)
    if not Facts.at(func, target).at_least(factor - target.extent, 0):  # else one block, folded nowhere
        _require_blocks(scan)
    chosen = new_names(func, (f"{target.var}_o", f"{target.var}_i"), names, freed=(target.var,))
    return rewrite_loop(func, target, lambda: scan.blocks(factor, chosen))


@dataclass(frozen=True, slots=True)
class _Scan:
    """`store` in `loop`, under `guard`: what the iteration before stored, `before`, folded by `monoid` with `rest`.

    `first` is what the first iteration has in its place.
    """

    func: Func
    loop: Loop
    guard: Cond
    store: Store
    monoid: Monoid
    before: Value
    previous: Load
    first: Value
    rest: Value

    @staticmethod
    def of(func: Func, loop: Loop) -> _Scan:
        guard, s = _guarded_statement(func, loop)
        at = _before(func, s, loop)
        for fn, monoid in _monoids(s.value):
            terms = [*_operands(s.value, fn)]
            for n, x in enumerate(terms):
                others = [t for k, t in enumerate(terms) if k != n]
                if others and (found := _goes_on(func, x, s, at, loop)) is not None:
                    rest = reduce(lambda p, q, fn=fn: Op(fn, (p, q)), others)
                    return _Scan(func, loop, guard, s, monoid, x, *found, rest)
        past = text(Load(s.buffer, at))
        raise ScheduleError(
            f"{s.label} does not fold {past}, which the iteration before stored, with another value", loop=loop.var,
            suggestion=f"{past} once, in a sum, a product, a minimum or a maximum",
        )  # fmt: skip

    def blocks(self, factor: int, chosen: list[str]) -> Stmt:
        """The folds of the blocks, where each block ends, and the blocks."""
        v, extent, taken = self.loop.var, self.loop.extent, UsedNames.of(self.func)
        taken.names |= {*chosen}
        count, full = ceildiv(extent, factor), (extent - 1) // factor
        size = self.size(factor)
        name, t = self.store.buffer.name, self.store.buffer.dtype
        sums, ends = (Buffer(taken.name(f"{name}_{part}"), (size,), t) for part in ("sums", "ends"))
        b, k, c = (taken.name(f"{v}{x}") for x in ("_o", "_i", "_o"))
        identity, label = self.monoid.identity, taken.label(sums.name)
        fold = Reduce(label, (sums,), (Var(b),), self.monoid, (self.rest,), (k,), identity)
        folded = substitute(If(self.guard, (fold,)), {v: Var(b) * factor + Var(k)})
        onward = self.combined(self.start(ends, c), Load(sums, (Var(c),)))
        scanned = Loop(c, full, "serial", (Store(taken.label(ends.name), ends, (Var(c),), onward),))
        body: Body = (
            Loop(b, full, "serial", (Loop(k, Int(factor), "serial", (folded,)),)),
            If(substitute(self.guard, {v: Int(0)}), (scanned,)),
            Loop(chosen[0], count, "serial", (self.block(ends, factor, *chosen),)),
        )
        return Alloc(sums, (Alloc(ends, body),))

    def start(self, ends: Buffer, block: str) -> Value:
        """What `block` goes on from."""
        return Select(Cmp("<=", Int(1), Var(block)), Load(ends, (Var(block) - 1,)), self.first)

    def block(self, ends: Buffer, factor: int, d: str, k: str) -> Stmt:
        """The iterations of block `d`."""
        now = {self.loop.var: Var(d) * factor + Var(k)}
        begun = Select(Cmp("<=", Int(1), Var(k)), self.previous, self.start(ends, d))
        store = with_values(self.store, {self.before: begun})
        inside = conj(Cmp("<", now[self.loop.var], self.loop.extent), substitute(self.guard, now))
        return Loop(k, Int(factor), "serial", (If(inside, (substitute(store, now),)),))

    def combined(self, a: Value, b: Value) -> Value:
        assert isinstance(self.store.value, Op)
        return Op(self.store.value.fn, (a, b))

    def size(self, factor: int) -> Index:
        """How many blocks there are at most."""
        outer = [s for s in path_within(self.func.body, self.loop)[:-1] if isinstance(s, Loop)]
        most = upper_bound(self.loop.extent, {s.var: s.extent for s in outer})
        if most is None or not reads_only(most, frozenset(self.func.sizes)):
            times = f"{self.loop.var!r} runs {text(self.loop.extent)} times"
            reason = f"{times}, and how many blocks that is at most is not known"
            raise ScheduleError(reason, loop=self.loop.var, suggestion="a bound by sizes: range(min(..., n))")
        known = Facts.at(self.func, self.loop)
        return ceildiv(most if known.at_least(most, 0) else maximum(most, Int(0)), factor)


def _guarded_statement(func: Func, loop: Loop) -> tuple[Cond, Store]:
    """The only statement of the loop and its guard, which no iteration passes after one that does not."""
    (s, *more), guard = loop.body or (None,), TRUE
    if isinstance(s, If) and not s.orelse and len(s.then) == 1:
        (s,), guard = s.then, s.cond
    if more or not isinstance(s, Store):
        held = "several statements" if more else "a fold" if isinstance(s, Reduce) else "another loop or nothing"
        suggestion = "a loop around one store, perhaps under a guard; distribute, or decompose_reduction, before"
        raise ScheduleError(f"{loop.var!r} holds {held}", loop=loop.var, suggestion=suggestion)
    known = known_in(func, loop).here
    for c in conjuncts(guard):
        split = coefficient(poly(c.b - c.a, known), Var(loop.var)) if isinstance(c, Cmp) else None
        less = isinstance(c, Cmp) and c.op in ("<", "<=") and split is not None and (const_of(split[0]) or 0) <= 0
        end = less and split is not None and loop.var not in free_vars(to_index(split[1]))
        if (loop.var in free_vars(c) and not end) or s.buffer.name in loaded_buffers(c):
            reason = f"{s.label} runs only if {text(c)}, which may fail in one iteration of {loop.var!r} and hold later"
            raise ScheduleError(reason, loop=loop.var, suggestion=f"a guard that is an end of {loop.var!r}")
    return guard, s


def _as_store(s: Stmt) -> Stmt | None:
    """A fold into what is there by an operation, `S[i + 1] += S[i]`, as what it stores; None for all else."""
    if not isinstance(s, Reduce) or s.init is not None or s.over or s.atomic or len(s.buffers) != 1:
        return None
    if not isinstance(s.monoid.combine[0], Op):
        return None
    (buffer,), (value,) = s.buffers, s.values
    return Store(s.label, buffer, s.at, replace(s.monoid.combine[0], args=(Load(buffer, s.at), value)))


def _before(func: Func, s: Store, loop: Loop) -> tuple[Index, ...]:
    """The element stored by the previous iteration: one less along the only dimension that depends on `loop`."""
    known = known_in(func, loop).here
    along = [n for n, x in enumerate(s.at) if loop.var in free_vars(x)]
    split = coefficient(poly(s.at[along[0]], known), Var(loop.var)) if len(along) == 1 else None
    if split is None or const_of(split[0]) != 1 or loop.var in free_vars(to_index(split[1])):
        raise ScheduleError(
            f"{s.label} does not store elements of {s.buffer.name} one after the other along {loop.var!r}",
            loop=loop.var, suggestion=f"a loop of step 1 through one dimension of {s.buffer.name}",
        )  # fmt: skip
    return tuple(x - 1 if n == along[0] else x for n, x in enumerate(s.at))


def _monoids(value: Value) -> Iterator[tuple[Intrinsic, Monoid]]:
    """What `value` may be a fold by: the monoids that combine by its operation."""
    for name in FOLDS if isinstance(value, Op) else ():
        monoid = MONOIDS[name]((value.dtype,))
        (combine,) = monoid.combine
        if isinstance(combine, Op) and isinstance(value, Op) and combine.fn == value.fn:
            yield value.fn, monoid


def _operands(value: Value, fn: Intrinsic) -> Iterator[Value]:
    """What `fn` is applied to, one after the other."""
    if isinstance(value, Op) and value.fn == fn:
        for x in value.args:
            yield from _operands(x, fn)
    else:
        yield value


def _goes_on(func: Func, x: Value, s: Store, at: Sequence[Index], loop: Loop) -> tuple[Load, Value] | None:
    """What `x` is in all iterations but the first, if that is element `at`, and what it is in the first."""
    if isinstance(x, Select):
        known, v = known_in(func, loop).here, loop.var
        later = known.given(Cmp("<=", Int(1), Var(v)))
        for inner, other, cond in ((x.a, x.b, x.cond), (x.b, x.a, Not(x.cond))):
            if simplify_cond(cond, later) == TRUE and (found := _goes_on(func, inner, s, at, loop)) is not None:
                goes = simplify_cond(substitute(cond, {v: Int(0)}), known)
                first = substitute(other, {v: Int(0)})
                return found[0], first if goes == FALSE else Select(goes, found[1], first)
        return None
    facts = Facts.at(func, s)
    if not isinstance(x, Load) or x.buffer != s.buffer or not all(map(facts.equal, x.at, at)):
        return None
    return x, substitute(x, {loop.var: Int(0)})


def _require_blocks(scan: _Scan) -> None:
    """Refuse if what is folded is read from an element that an iteration before has stored."""
    func, loop = scan.func, scan.loop
    around = path_to(func, loop)[:-1]
    site = CacheSite(func, find_stage(func, scan.store.label), around, (loop,), known_at(func, loop))
    ats = {n.at for n in nodes(scan.rest) if isinstance(n, Load) and n.buffer == scan.store.buffer}
    done = accesses_of(site, scan.store.buffer.name)
    read = [(s, a) for s, a in done if not a.write and (a.at in ats or (ats and None in a.at))]
    clash = clash_in(site, [(s, a) for s, a in done if a.write], read)
    if clash is not None:
        reason = f"what {scan.store.label} folds is read from what {loop.var!r} stored before"
        raise refusal(clash, reason, loop.var, f"keep {loop.var!r} as it is")

"""Translation validation: a proof that two Funcs have the same dataflow, whatever lies between them.

From every element of an output backwards, the two values are compared: the same operation of the same arguments; a
read is replaced by what was written there, in either program by itself, so copies, inlining, layouts and other orders
do not matter. What is to be equal is a relation between instances, for all sizes at once. Folds of one monoid may come
in any order and in parts: then one has to be found for each, exactly. Values that depend on themselves further back
are equal if assuming it shows it, as every read goes back in time. After Verdoolaege, Janssens and Bruynooghe,
"Equivalence checking of static affine programs using widening to handle recurrences", TOPLAS 34(3), 2012.

Nothing here knows of primitives, or of the legality checks of the steps; only the first and the last program count.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportMissingTypeArgument=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from threading import local

from loopir.analysis.dataflow.counterexample import Counterexample, counterexample
from loopir.analysis.dataflow.delinearize import delinearize
from loopir.analysis.dataflow.fold_matching import any_of, require_one_to_one, same_parts, telling
from loopir.analysis.dataflow.prefix_folds import Part, addends, counted_once, folds_disjoint, running_monoid
from loopir.analysis.dataflow.same_sources import same_sources
from loopir.analysis.dataflow.undefined import least_sizes, undefined_uses
from loopir.analysis.dataflow.value_flow import (
    Expr,
    Flow,
    FoldedValue,
    InputValue,
    NotEqual,
    Site,
    Term,
    Unanalyzable,
    UnwrittenValue,
)
from loopir.analysis.presburger.solver import ALGEBRA, PROOF, isl, question, read_map, renew
from loopir.errors import Undecided, page
from loopir.ir.grammar import (
    Buffer,
    Cast,
    Cond,
    Const,
    Func,
    Index,
    IndexToValue,
    Int,
    Load,
    Monoid,
    Op,
    Reduce,
    Select,
    Size,
    Value,
    Var,
)
from loopir.ir.printer import text
from loopir.ir.traverse.walk import loops

MAX_WIDENINGS, MAX_TERM_CHARS = 6, 40
"""How often what is assumed of two values may grow before it is taken to hold on the whole affine hull; and of an input
and something else, which is no rule over time, before it is given up."""
LONG = 60
"""Characters of a value that are told."""
GAVE_UP = "the integer solver would take too long"
IN_ORDER = ("serial", "unroll", "vectorize")
"""Kinds of loops whose iterations run one after the other, or statement by statement."""
MAX_FOLD_READ_DEPTH = 6
"""How many reads in a row are looked through to tell which fold is which."""


@dataclass(frozen=True)
class Validation:
    """Of the outputs: `proved` has names, `unproved` names with reasons; `wrong` is a counterexample, if one is met."""

    proved: tuple[str, ...]
    unproved: tuple[tuple[str, str], ...]
    wrong: Counterexample | None = None

    def __bool__(self) -> bool:
        return not self.unproved and self.wrong is None

    def __str__(self) -> str:
        lines = [f"proved: {', '.join(self.proved)}"] if self.proved else []
        lines += [f"not proved: {name}: {why}" for name, why in self.unproved]
        lines += [f"wrong: {self.wrong}"] if self.wrong is not None else []
        return "\n".join(lines) or "nothing to prove"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return page(str(self))


def validate(before: Func, after: Func) -> Validation:
    """Compare the outputs of `after` with those of `before`, for all sizes that `before` assumes."""
    proved: list[str] = []
    unproved: list[tuple[str, str]] = []
    sizes: list[dict[str, int]] = []
    try:
        with question(PROOF):
            proof, reason = _Proof(Flow(delinearize(before), "F"), Flow(delinearize(after), "G")), None
            if (other := _other_arguments(proof)) is not None:
                return Validation((), tuple((b.name, other) for b in before.outputs()))
            reason = proof.other.outside() or proof.undefined()
    except Unanalyzable as unseen:
        proof, reason = None, str(unseen)
    except Undecided:
        proof, reason = None, GAVE_UP
    found = {b.name: b for b in after.outputs()}
    for one in before.outputs():
        if proof is None or reason is not None:
            unproved.append((one.name, str(reason)))
            continue
        try:
            with question(PROOF):
                proof.output(one, found[one.name])
            proved.append(one.name)
        except (Unanalyzable, NotEqual) as why:
            unproved.append((one.name, str(why)))
            sizes += _suspected(before, why)
        except Undecided:
            unproved.append((one.name, GAVE_UP))
    return Validation(tuple(proved), tuple(unproved), counterexample(before, after, sizes) if unproved else None)


def same_values(before: Func, after: Func) -> bool:
    """Whether every output of `after` is shown to be what it is of `before`, for a step that only moves what is done.

    What is stored has to be made by the same operations in the same order; folds, those of the identity too, come in
    any order, as they do in the rules of the steps. Loops whose iterations may run at once are not looked into: then
    nothing is shown.
    """
    if any(x.kind not in IN_ORDER for f in (before, after) for x in loops(f.body)):
        return False
    return _asked_of_both(before, after, same_sources) or _asked_of_both(before, after, _proved)


class _Latest(local):
    """A thread's dataflow of the two programs that `same_values` was asked about last: several steps of one program
    are often tried, such as rings of one row, two and three."""

    known: tuple[tuple[Func, Flow], ...] = ()

    def flow(self, func: Func, prefix: str) -> Flow:
        """The dataflow of `func`."""
        found = next((f for x, f in self.known if x is func and f.prefix == prefix), None)
        if found is None:
            found = Flow(delinearize(func), prefix)
            self.known = (*(x for x in self.known if x[1].prefix != prefix), (func, found))
        return found


_LATEST = _Latest()


def _asked_of_both(before: Func, after: Func, asked: Callable[[Flow, Flow], bool]) -> bool:
    """What is `asked` of the dataflow of two programs; False where the solver would take too long."""
    try:
        with question(times=ALGEBRA):
            try:
                return asked(_LATEST.flow(before, "F"), _LATEST.flow(after, "G"))
            except (Unanalyzable, NotEqual):
                return False
    except Undecided:
        _LATEST.known = ()  # once a budget is spent, what was found since may be nonsense
        return False


def _proved(one: Flow, other: Flow) -> bool:
    """Whether every output is shown to be the same."""
    proof = _Proof(one, other, regrouping=False)
    if _other_arguments(proof) is not None:
        return False
    found = {b.name: b for b in other.func.outputs()}
    for b in one.func.outputs():  # most that are not the same are found here, and the rest takes as long again
        proof.output(b, found[b.name])
    return not other.outside() and not proof.undefined()


def _suspected(func: Func, why: Exception) -> list[dict[str, int]]:
    """The least sizes at which two values are not shown to be equal."""
    if not isinstance(why, NotEqual) or why.sizes is None:
        return []
    try:
        with question(PROOF):
            least = least_sizes(why.sizes)
    except Undecided:
        return []
    return [{n: least[n] for n in func.sizes}]


def _other_arguments(proof: _Proof) -> str | None:
    """In words, what `after` takes that is not what `before` does: then the two are not called alike."""
    told = [
        [(p.name,) if isinstance(p, Size) else (p.buffer.name, p.access, p.buffer.dtype) for p in f.func.params]
        for f in (proof.one, proof.other)
    ]
    if told[0] != told[1]:
        return "the arguments are others"
    for a, b in zip(proof.one.func.args, proof.other.func.args, strict=True):
        if len(a.buffer.shape) != len(b.buffer.shape) or not proof.one.shape(a.buffer).is_equal(
            proof.other.shape(b.buffer)
        ):
            return f"{a.buffer.name} has another shape"
    return None


@dataclass(eq=False)
class _Proof:
    one: Flow
    other: Flow
    regrouping: bool = True
    """Whether a value that a statement makes of its own last one may be told as a fold, whose parts come in any order,
    and folds of the identity as none."""
    assumed: dict[tuple[object, ...], isl.Map] = field(default_factory=dict[tuple[object, ...], isl.Map])
    grown: dict[tuple[object, ...], int] = field(default_factory=dict[tuple[object, ...], int])
    flattening: list[Site] = field(default_factory=list[Site])
    """The folds whose partial results are being looked for, each one in the values of that before it."""

    def undefined(self) -> str | None:
        """A use of memory that nothing has written, in words, at sizes at which the first program has none."""
        uses = undefined_uses(self.other)
        if not uses:
            return None
        meaningless = [x.sizes for x in undefined_uses(self.one)]
        for x in uses:
            if not x.sizes.is_subset(reduce(isl.Set.union, meaningless, x.sizes.subtract(x.sizes))):
                return x.described(self.other)
        return None

    def output(self, one: Buffer, other: Buffer) -> None:
        """Show that the two are equal. What is assumed on the way is shown, too, or else taken back."""
        before = dict(self.assumed), dict(self.grown)
        try:
            self.whole(one, other)
        except (Unanalyzable, NotEqual, isl.Error):
            self.assumed, self.grown = before
            raise

    def whole(self, one: Buffer, other: Buffer) -> None:
        """Show that the two are equal, element by element."""
        a, b = self.one.output(one), self.other.output(other)
        same = isl.Map.identity(
            isl.Space.map_from_domain_and_range(a.site.domain.get_space(), a.site.domain.get_space())
        )
        same = same.set_tuple_name(isl.dim_type.out, b.site.name)
        relation = same.intersect_domain(a.site.domain)
        if not relation.range().is_equal(b.site.domain):
            raise NotEqual(f"{one.name} has another shape")
        self.same(a, b, relation)

    # ------------------------------------------------------------ two values

    def same(self, a: Term, b: Term, pairs: isl.Map) -> None:
        """Show that `a` and `b` are equal for each of `pairs`, instances or elements of `a` and of `b`."""
        renew()
        if pairs.is_empty() or isinstance(a, UnwrittenValue):
            return
        try:
            self.shown(a, b, pairs)
        except NotEqual as apart:
            if apart.sizes is None:
                apart.sizes = pairs.params()
            raise

    def shown(self, a: Term, b: Term, pairs: isl.Map) -> None:
        """Show that `a` and `b` are equal for some `pairs`, by what they are."""
        if any(isinstance(x, Expr) and isinstance(x.node, Load) for x in (a, b)):
            widen = MAX_TERM_CHARS if isinstance(a, InputValue) or isinstance(b, InputValue) else MAX_WIDENINGS
            if (more := self.assume((_key(a), _key(b)), pairs, *self.ranges(a, b, pairs), widen)) is not None:
                self.read(a, b, more)
        elif isinstance(a, Expr) and isinstance(a.node, Select):
            held = self.one.where(a.site, a.node.cond)
            self.same(Expr(a.site, a.node.a), b, pairs.intersect_domain(held))
            self.same(Expr(a.site, a.node.b), b, pairs.subtract_domain(held))
        elif isinstance(b, Expr) and isinstance(b.node, Select):
            held = self.other.where(b.site, b.node.cond)
            self.same(a, Expr(b.site, b.node.a), pairs.intersect_range(held))
            self.same(a, Expr(b.site, b.node.b), pairs.subtract_range(held))
        else:
            self.leaf(a, b, pairs)

    def read(self, a: Term, b: Term, pairs: isl.Map) -> None:
        """One of the two is a read: of what was written there."""
        if isinstance(a, Expr) and isinstance(a.node, Load):
            for term, back in self.one.pieces(a.site, a.node):
                self.same(term, b, back.reverse().apply_range(pairs))
        elif isinstance(b, Expr) and isinstance(b.node, Load):
            for term, back in self.other.pieces(b.site, b.node):
                self.same(a, term, pairs.apply_range(back))

    def leaf(self, a: Term, b: Term, pairs: isl.Map) -> None:
        if isinstance(a, InputValue) and isinstance(b, InputValue):
            space = pairs.get_space()
            if a.name != b.name or not pairs.is_subset(isl.Map.identity(space)):
                raise NotEqual(f"{a.name}{_example(pairs)} is read where it was {b.name}{_example(pairs.reverse())}")
        elif isinstance(a, Expr | FoldedValue) and isinstance(b, Expr | FoldedValue):
            if (more := self.assume((_key(a), _key(b)), pairs, *self.ranges(a, b, pairs))) is not None:
                self.made(a, b, more)
        else:
            raise NotEqual(f"{_describe_term(a)} has become {_describe_term(b)}")

    def made(self, a: Expr | FoldedValue, b: Expr | FoldedValue, pairs: isl.Map) -> None:
        """Both are made of something, in the same way; or one is a running fold, of the same values as the other."""
        before = dict(self.assumed), dict(self.grown)
        try:
            if isinstance(a, Expr) and isinstance(b, Expr):
                self.operation(a, b, pairs)
            elif isinstance(a, FoldedValue) and isinstance(b, FoldedValue):
                self.folds(a, b, pairs)
            else:
                raise NotEqual(f"{_describe_term(a)} has become {_describe_term(b)}")
        except (NotEqual, Unanalyzable):
            monoid = (running_monoid(a) or running_monoid(b)) if self.regrouping else None
            if monoid is None:
                raise
            self.assumed, self.grown = before
            self.values(_label(a), monoid, pairs, addends(self.one, a, monoid), addends(self.other, b, monoid))

    def ranges(self, a: Term, b: Term, pairs: isl.Map) -> tuple[isl.Set, isl.Set]:
        """All instances of the two terms."""
        return _instances(a, pairs.domain()), _instances(b, pairs.range())

    def assume(
        self, key: tuple[object, ...], pairs: isl.Map, left: isl.Set, right: isl.Set, widen: int = MAX_WIDENINGS
    ) -> isl.Map | None:
        """Take it that `pairs` are equal; those, maybe with more, that are still to be shown, None if none are.

        Growing more often than `widen`, it is taken for all that is on the affine hull, in `left` and `right`.
        """
        known = self.assumed.get(key)
        if known is not None and pairs.is_subset(known):
            return None
        self.grown[key] = self.grown.get(key, 0) + 1
        total = (pairs if known is None else known.union(pairs)).coalesce()  # else pieces of pieces of it come back
        if self.grown[key] >= widen and known is not None:
            if self.grown[key] > widen + 2 or widen == MAX_TERM_CHARS:
                raise Unanalyzable("how far values depend on earlier ones follows no affine rule")
            total = _hull(total).intersect_domain(left).intersect_range(right)
        self.assumed[key] = total
        return total if known is None else total.subtract(known)

    def operation(self, a: Expr, b: Expr, pairs: isl.Map) -> None:
        match a.node, b.node:
            case Const(), Const() if a.node == b.node:
                pass
            case Op(f, xs), Op(g, ys) if f == g:
                if f.lane is not None:
                    raise Unanalyzable(f"{f} takes the value of another thread")
                for x, y in zip(xs, ys, strict=True):
                    self.same(Expr(a.site, x), Expr(b.site, y), pairs)
            case Cast(x, t), Cast(y, u) if t == u:
                self.same(Expr(a.site, x), Expr(b.site, y), pairs)
            case IndexToValue(Index() as x, t), IndexToValue(Index() as y, u) if t == u:
                if not pairs.apply_range(self.other.number(b.site, y)).is_subset(self.one.number(a.site, x)):
                    raise NotEqual(f"{text(x)} in {a.site.label} has become {text(y)} in {b.site.label}")
            case IndexToValue(Cond() as x, t), IndexToValue(Cond() as y, u) if t == u:
                one, other = self.one.where(a.site, x), self.other.where(b.site, y)
                held = pairs.intersect_domain(one)
                if not (
                    held.subtract_range(other).is_empty() and pairs.subtract(held).intersect_range(other).is_empty()
                ):
                    raise NotEqual(f"{text(x)} in {a.site.label} has become {text(y)} in {b.site.label}")
            case _:
                raise NotEqual(f"{_describe_term(a)} has become {_describe_term(b)}")

    # ------------------------------------------------------------ folds

    def folds(self, a: FoldedValue, b: FoldedValue, pairs: isl.Map) -> None:
        """Both fold by one monoid, from equal first values, values of which each has its equal in the other."""
        if (a.monoid, a.component) != (b.monoid, b.component):
            raise NotEqual(f"{_describe_term(a)} has become {_describe_term(b)}")
        for mine, theirs in zip((a.base, *a.beside), (b.base, *b.beside), strict=True):
            for one, back in mine:
                for other, forth in theirs:
                    self.same(one, other, back.reverse().apply_range(pairs).apply_range(forth))
        self.values(_label(a), a.monoid, pairs, self.parts(self.one, a), self.parts(self.other, b))

    def values(self, label: str, monoid: Monoid, pairs: isl.Map, left: list[Part], right: list[Part]) -> None:
        """What is folded in is the same, each value of the one being one of the other."""
        try:
            chosen = self.matched(label, pairs, counted_once(left), counted_once(right))
        except (Unanalyzable, NotEqual):  # but those that fold nothing in
            if not self.regrouping:
                raise
            left, right = telling(self.one, monoid, left), telling(self.other, monoid, right)
            chosen = self.matched(label, pairs, counted_once(left), counted_once(right))
        for x, y, m in chosen:
            met = m.intersect(x[2].reverse().apply_range(pairs).apply_range(y[2]))
            for v, w in zip(x[1], y[1], strict=True):
                self.same(Expr(x[0], v), Expr(y[0], w), met)

    def matched(
        self, label: str, pairs: isl.Map, left: list[Part], right: list[Part]
    ) -> list[tuple[Part, Part, isl.Map]]:
        """Which fold of the one is which of the other."""
        if not left or not right:
            counted = [pairs.domain().intersect(m.domain()) for _, _, m in left]
            counted += [pairs.range().intersect(m.domain()) for _, _, m in right]
            if all(x.is_empty() for x in counted):
                return []
            raise NotEqual(f"{label} does not fold the same values")
        chosen = [(x, y, self.alike(x, y)) for x in left for y in right]
        try:
            require_one_to_one(label, pairs, left, right, [m for _, _, m in chosen])
        except Unanalyzable:  # values that are all the same: go by the names of the loops
            chosen = [(x, y, m.intersect(self.named(x[0], y[0]))) for x, y, m in chosen]
            require_one_to_one(label, pairs, left, right, [m for _, _, m in chosen])
        return chosen

    def parts(self, flow: Flow, f: FoldedValue) -> list[Part]:
        """The folds, those of partial results being the folds that gave these."""
        out: list[Part] = []
        for site, stmt, seen in f.parts:
            inner = self.partial(flow, f, site, stmt)
            if inner is None:
                out.append((site, stmt.values, seen))
                continue
            for deeper, below, counted in inner:
                whole = seen.apply_range(counted)
                if not folds_disjoint(seen, counted):
                    raise Unanalyzable(f"{stmt.label} folds a partial result more than once")
                out.append((deeper, below, whole))
        return out

    def partial(self, flow: Flow, f: FoldedValue, site: Site, stmt: Reduce) -> list[Part] | None:
        """The folds behind the values of `stmt`, if all of these are results of the same monoid from its identity.

        Of several components each is that of one and the same fold. A fold of its own earlier results has no end of
        partial ones: within itself they are values.
        """
        if site in self.flattening:
            return None
        self.flattening.append(site)
        try:
            found = [self.results(flow, f.monoid, n, site, v) for n, v in enumerate(stmt.values)]
        finally:
            self.flattening.pop()
        mine = found[f.component]
        if mine is None or not all(x is not None and same_parts(mine, x) for x in found):
            return None
        return mine

    def results(self, flow: Flow, monoid: Monoid, component: int, site: Site, value: Value) -> list[Part] | None:
        """The folds behind `value`, if it is component `component` of what `monoid` folded from its identity."""
        if not isinstance(value, Load):
            return None
        out: list[Part] = []
        identity = monoid.identity
        for term, back in flow.pieces(site, value):
            while isinstance(term, Expr) and isinstance(term.node, Load):  # a copy
                inner = flow.pieces(term.site, term.node)
                if len(inner) != 1:
                    return None
                term, back = inner[0][0], back.apply_range(inner[0][1])
            if isinstance(term, Expr) and term.node == identity[component]:
                continue  # no folds behind it
            if not isinstance(term, FoldedValue) or (term.monoid, term.component) != (monoid, component):
                return None
            rest = [x for n, x in enumerate(identity) if n != component]
            for none, base in zip((identity[component], *rest), (term.base, *term.beside), strict=True):
                if not all(isinstance(x, Expr) and x.node == none for x, _ in base):
                    return None
            out += [(s, r, back.apply_range(m)) for s, r, m in self.parts(flow, term)]
        return out

    # ------------------------------------------------------------ which fold is which

    def alike(self, x: Part, y: Part) -> isl.Map:
        """The pairs of folds whose values read the same: a guess, shown to be right later."""
        whole = isl.Map.from_domain_and_range(x[0].domain, y[0].domain)
        for v, w in zip(x[1], y[1], strict=True):
            found = self.guess(Expr(x[0], v), Expr(y[0], w), MAX_FOLD_READ_DEPTH)
            whole = whole if found is None else whole.intersect(found)
        return whole

    def named(self, x: Site, y: Site) -> isl.Map:
        """The pairs of instances whose loops say so: a loop of the same name, or one that was split into two."""
        whole = isl.Map.from_domain_and_range(x.domain, y.domain)
        for v in x.loops:
            was = self.one.number(x, Var(v))
            extents = {s.var: s.extent for s in y.statement.loops} if y.statement is not None else {}
            inner = extents.get(f"{v}_i")
            if v in y.loops:
                whole = whole.intersect(was.apply_range(self.other.number(y, Var(v)).reverse()))
            elif f"{v}_o" in y.loops and isinstance(inner, Int):
                now = Var(f"{v}_o") * inner.value + Var(f"{v}_i")
                whole = whole.intersect(was.apply_range(self.other.number(y, now).reverse()))
        return whole

    def guess(self, a: Term, b: Term, deep: int) -> isl.Map | None:
        """Instances of `a` and `b` that read the same elements of the inputs; None where nothing tells."""
        if deep == 0:
            return None
        for kind in (Load, Select):
            if isinstance(a, Expr) and isinstance(a.node, kind):
                return self._guess_left(a, b, deep)
            if isinstance(b, Expr) and isinstance(b.node, kind):
                return self._guess_right(a, b, deep)
        match a, b:
            case InputValue(), InputValue():
                return None if a.name != b.name else self.elements(a.name)
            case (InputValue(name), Expr(site, Const())) | (Expr(site, Const()), InputValue(name)):  # padding
                read = self.elements(name).domain()
                pair = (read, site.domain) if isinstance(a, InputValue) else (site.domain, read)
                whole = isl.Map.from_domain_and_range(*pair)
                return whole.subtract(whole)
            case Expr(_, Op(f, xs)), Expr(_, Op(g, ys)) if f == g:
                found = (self.guess(Expr(a.site, u), Expr(b.site, v), deep) for u, v in zip(xs, ys, strict=True))
                return reduce(isl.Map.intersect, known) if (known := [m for m in found if m is not None]) else None
            case Expr(_, Cast(u)), Expr(_, Cast(v)):
                return self.guess(Expr(a.site, u), Expr(b.site, v), deep)
            case Expr(_, IndexToValue(Index() as u)), Expr(_, IndexToValue(Index() as v)):
                return self.one.number(a.site, u).apply_range(self.other.number(b.site, v).reverse())
            case _:
                return None

    def _guess_left(self, a: Expr, b: Term, deep: int) -> isl.Map | None:
        """`guess` where `a` is a load, and so one of the values stored there, or a choice of two values."""
        if isinstance(a.node, Load):
            back = [(m, self.guess(t, b, deep - 1)) for t, m in self.one.pieces(a.site, a.node)]
            return any_of(back, left=True)
        assert isinstance(a.node, Select)
        held = self.one.where(a.site, a.node.cond)
        yes, no = (self.guess(Expr(a.site, x), b, deep) for x in (a.node.a, a.node.b))
        return None if yes is None or no is None else yes.intersect_domain(held).union(no.subtract_domain(held))

    def _guess_right(self, a: Term, b: Expr, deep: int) -> isl.Map | None:
        """`_guess_left` of the other side."""
        if isinstance(b.node, Load):
            back = [(m, self.guess(a, t, deep - 1)) for t, m in self.other.pieces(b.site, b.node)]
            return any_of(back, left=False)
        assert isinstance(b.node, Select)
        held = self.other.where(b.site, b.node.cond)
        yes, no = (self.guess(a, Expr(b.site, x), deep) for x in (b.node.a, b.node.b))
        return None if yes is None or no is None else yes.intersect_range(held).union(no.subtract_range(held))

    def elements(self, name: str) -> isl.Map:
        rank = next(len(x.buffer.shape) for x in self.one.func.args if x.buffer.name == name)
        at = f"{name}[{', '.join(f'i{n}' for n in range(rank))}]"
        return read_map(f"{self.one.params} -> {{ {at} -> {at} }}")


def _hull(m: isl.Map) -> isl.Map:
    """The affine hull of `m`; also that of what is left of it without quotients, as isl aligns these and loses some."""
    plain = isl.Map.from_basic_map(m.coalesce().remove_divs().affine_hull())
    return isl.Map.from_basic_map(m.affine_hull()).intersect(plain)


def _key(t: Term) -> object:
    return (t.site.name, t.node) if isinstance(t, Expr) else t.key if isinstance(t, FoldedValue) else t


def _instances(t: Term, seen: isl.Set) -> isl.Set:
    match t:
        case Expr(site):
            return site.domain
        case FoldedValue(readers=readers):
            return readers
        case _:
            return isl.Set.universe(seen.get_space())


def _label(t: Expr | FoldedValue) -> str:
    return t.site.label if isinstance(t, Expr) else t.parts[0][0].label


def _example(pairs: isl.Map) -> str:
    point = pairs.domain().sample_point()
    count = pairs.dim(isl.dim_type.in_)
    return f"[{', '.join(str(point.get_coordinate_val(isl.dim_type.set, n)) for n in range(count))}]"


def _describe_term(t: Term) -> str:
    match t:
        case Expr(site, node):
            told = text(node)
            return f"{told if len(told) <= LONG else told[: LONG - 4] + ' ...'} in {site.label}"
        case InputValue(name):
            return f"the input {name}"
        case FoldedValue(parts=parts, monoid=monoid):
            return f"a {monoid.name} by {parts[0][0].label}"
        case _:
            return "memory that nothing has written"

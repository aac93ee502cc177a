"""What is legal at each stage, as rules over nodes; run after every primitive and every pass.

One walk over the Func: statements keep the names in scope; what is legal of expressions stands in `verify_expr`.
Stages differ in three rules: kernels and barriers exist from `lowered` on, and in `flat` every access has one index.
An expression that stands in several places of one scope is checked once, and so is a nest that a step leaves as it
was: what it was found to need of its surroundings is kept with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopir.errors import NestingError
from loopir.ir.dtypes import BY_NAME
from loopir.ir.grammar import (
    AXES,
    KINDS,
    SCOPES,
    Alloc,
    Arg,
    Body,
    Buffer,
    Fragment,
    Func,
    If,
    InstrCall,
    InstrRegion,
    Int,
    InTurn,
    Kernel,
    Load,
    Loop,
    Mapped,
    Monoid,
    Op,
    Prefetch,
    Reduce,
    Stmt,
    Store,
    Strided,
    Sync,
    Turn,
    WarpSpecialized,
    conjuncts,
)
from loopir.ir.instr.match_nest import match
from loopir.ir.layout.layouts import evaluate as evaluate, is_injective, reads_only
from loopir.ir.ops import MEMORIES, MONOIDS, REGISTRY
from loopir.ir.traverse.labels import has_cache_hint, labels_in
from loopir.ir.traverse.memo import cache_of, memoized, seed_memo
from loopir.ir.traverse.queries import loaded_buffers
from loopir.ir.traverse.walk import accessed_buffers, declared_names, free_vars, is_affine_visible, nodes, statements
from loopir.ir.verify.scope import (
    RESERVED as RESERVED,
    Stage as Stage,
    VerifiedNest,
    VerifyContext,
    declare_name,
    fail,
    require_usable,
)
from loopir.ir.verify.verify_expr import access, arguments, expr, in_scope, value


def verify(func: Func, stage: Stage = "schedule") -> None:
    """Raise VerifyError, naming the node and the rule, unless `func` is legal at `stage`."""
    here = VerifyContext(stage)
    require_usable(func.name)
    for p in func.params:
        name = p.buffer.name if isinstance(p, Arg) else p.name
        declare_name(name, here)
        if isinstance(p, Arg):
            here.buffers[name] = p.buffer
            here.level[name] = 0
            if p.access == "in":
                here.readonly.add(name)
        else:
            here.bound.add(name)
    sizes = frozenset(here.bound)
    for p in func.args:
        _buffer(p.buffer, sizes, stage)
        if p.buffer.scope != "global" and stage != "meaning":
            fail(f"argument {p.buffer.name} has scope {p.buffer.scope}; arguments are global")
    for c in func.assumes:
        if not free_vars(c) <= sizes:
            fail(f"the assumption {c} speaks of {sorted(free_vars(c) - sizes)}, which are no sizes")
    _body(func.body, here, sizes)


# ---------------------------------------------------------------- statements


def _body(body: Body, here: VerifyContext, sizes: frozenset[str]) -> None:
    chained = here.loops and len(body) == 1
    for s in body:  # the commonest by their types, which is faster than a match
        if isinstance(s, Loop):
            _loop(s, here, sizes) if chained else _check_nest(s, here, sizes)
        elif isinstance(s, Store):
            _store(s, here)
        elif isinstance(s, Reduce):
            _reduce(s, here)
        elif isinstance(s, Alloc):
            name = s.buffer.name
            declare_name(name, here)
            _buffer(s.buffer, sizes)
            here.buffers[name] = s.buffer
            here.level[name] = len(here.loops)
            _body(s.body, here, sizes)
            del here.buffers[name]
            here.seen.clear()  # a value was checked with this memory in scope
        elif isinstance(s, If):
            expr(s.cond, here)
            guards, depth = here.guards, len(here.loops)
            here.guards = (*guards, (depth, conjuncts(s.cond)))
            _body(s.then, here, sizes)
            here.guards = (*guards, (depth, (s.cond,)))
            _body(s.orelse, here, sizes)
            here.guards = guards
        else:
            _other(s, here, sizes)


def _other(s: Stmt, here: VerifyContext, sizes: frozenset[str]) -> None:
    match s:
        case InstrRegion(_, inner, ring):
            if ring is not None:
                expr(ring, here)
            _body(inner, here, sizes)
            match(s, lowered=here.stage != "schedule")
        case Prefetch(element):
            here.hints = True
            expr(element, here)
        case WarpSpecialized(_, inner):
            _body(inner, here, sizes)
        case InTurn(inner):
            _require_no_turns(inner)
            _body(inner, here, sizes)
        case InstrCall(fn, operands):
            if here.kernel is None or len(operands) != len(fn.meaning.args):
                fail(f"{fn.name} is issued outside a kernel, or with other operands than it has")
            for x in (*operands, *(y for b in s.boxes for y in b.at), *((s.ring,) if s.ring else ())):
                expr(x, here)
        case Kernel(name, inner):
            if here.stage == "schedule" or here.kernel is not None:
                fail(f"kernel {name!r} is not at the top; kernels are made by lowering, side by side")
            declare_name(name, here)
            here.kernel = name
            _body(inner, here, sizes)
            here.kernel = None
        case Sync():
            _sync(s, here)
        case _:
            fail(f"{type(s).__name__} is no statement of the language")


def _require_no_turns(body: Body) -> None:
    if any(isinstance(x, InTurn) for x in statements(body)):
        reason = "turns stand in turns, for which warpgroups would wait while they have one"
        raise NestingError(reason, "take turns with loops that neither hold others nor stand in them")


def _sync(s: Sync, here: VerifyContext) -> None:
    if isinstance(s, Turn):
        expr(s.group, here)
    if here.kernel is None:
        fail(f"a {type(s).__name__.lower()} stands outside a kernel; lowering places these, never a person")


def _check_nest(s: Loop, here: VerifyContext, sizes: frozenset[str]) -> None:
    """A loop with none around it, or with others beside it: checked as it stands once, then against its surroundings.

    It is checked again wherever it stands if a reduction inside folds over a loop around it. Of guards around it that
    do not stand in it either, a reduction that starts inside needs nothing.
    """
    known, key = cache_of(s), (verify, here.stage, here.kernel is None)
    found: VerifiedNest | None = known.get(key)
    if found is None or not found.bound <= here.bound:
        alone = VerifyContext(
            here.stage, here.bound, here.buffers, here.level, here.readonly, here.loops, here.guards, here.axes,
            here.kernel,
        )  # fmt: skip
        _loop(s, alone, sizes)
        found = _described(alone)
        if alone.outermost_fold >= len(here.loops):
            known[key] = found
        here.outermost_fold = min(here.outermost_fold, alone.outermost_fold)
        seed_memo(accessed_buffers, s, frozenset(alone.used))
        seed_memo(declared_names, s, frozenset(alone.names | alone.labels))
        seed_memo(labels_in, s, frozenset(alone.labels))
        seed_memo(has_cache_hint, s, alone.hints)
    _check_surroundings(found, here)


def _described(alone: VerifyContext) -> VerifiedNest:
    """What was met in a nest that was checked in a context of its own."""
    used, own, names = alone.used, dict[str, Buffer](), alone.names
    if not names.isdisjoint(used):
        own = {name: b for name, b in used.items() if name in names}
        used = {name: b for name, b in used.items() if name not in names}
    return VerifiedNest(
        frozenset(alone.bound), names, alone.labels, alone.monoids, used, own, alone.written, alone.hints,
        alone.bindings,
    )  # fmt: skip


def _check_surroundings(found: VerifiedNest, here: VerifyContext) -> None:
    """What a legal nest needs of its surroundings is there, and what it declares is declared here alone."""
    if not here.names.isdisjoint(found.names):
        declare_name(min(found.names & here.names), here)
    if not here.labels.isdisjoint(found.labels):
        _label(min(found.labels & here.labels), here)
    if found.monoids:
        for name, m in found.monoids.items():
            if here.monoids.get(name) is not m:
                _monoid_name(m, here)
    buffers = here.buffers
    for name, b in found.used.items():
        if buffers.get(name) is not b:
            in_scope(b, here)
    if not here.readonly.isdisjoint(found.written):
        name = min(here.readonly & found.written.keys())
        _writable(found.written[name], name, here)
    if found.bindings:
        for kind, var in found.bindings.items():
            _unbound(var, kind, here)
        here.bindings.update(found.bindings)
    here.names |= found.names
    here.labels |= found.labels
    here.used.update(found.used)
    here.used.update(found.own)
    here.written.update(found.written)
    here.hints = here.hints or found.hints


def _unbound(var: str, kind: str, here: VerifyContext) -> None:
    """No loop around is bound to the axis `kind`, as the loop `var` is."""
    if kind in here.axes:
        fail(f"loop {var} is bound to {kind}, and a loop around it is, too")


def _loop(s: Loop, here: VerifyContext, sizes: frozenset[str]) -> None:
    declare_name(s.var, here)
    if s.kind not in KINDS:
        fail(f"loop {s.var} has kind {s.kind!r}; there are {', '.join(KINDS)}")
    if s.kind in ("vectorize", "unroll") and not isinstance(s.extent, Int):
        fail(f"loop {s.var} is {s.kind}d, so its extent has to be a constant")
    _unbound(s.var, s.kind, here)
    expr(s.extent, here)
    loops, axes = here.loops, here.axes
    here.bound.add(s.var)
    here.loops = (*loops, s)
    if s.kind in AXES:
        here.axes = axes | {s.kind}
        here.bindings[s.kind] = s.var
    _body(s.body, here, sizes)
    here.bound.discard(s.var)
    here.loops, here.axes = loops, axes
    here.seen.clear()  # a value was checked with this loop's variable in scope


def _label(label: str, here: VerifyContext) -> None:
    if label in here.labels:
        fail(f"two statements have the label {label!r}")
    if not label or not label.isprintable() or '"' in label or "\\" in label:
        fail(f"{label!r} is no usable label: printable characters but quotes and backslashes")
    here.labels.add(label)


def _check_unless_known(s: Store | Reduce, here: VerifyContext, check: Callable[[Any, VerifyContext], None]) -> None:
    """`check` what `s` accesses and computes, unless that was done where all that was in scope and matters is here."""
    known, key = cache_of(s), (check, here.stage, here.kernel is None)
    found: tuple[frozenset[str], dict[str, Buffer]] | None = known.get(key)
    if found is None or not found[0] <= here.bound or any(here.buffers.get(n) is not b for n, b in found[1].items()):
        around, here.used = here.used, {}
        check(s, here)
        known[key] = found = frozenset(here.bound), here.used
        here.used = around
    here.used.update(found[1])


def _writable(label: str, buffer: str, here: VerifyContext) -> None:
    here.written[buffer] = label
    if buffer in here.readonly:
        fail(f"statement {label} writes {buffer}, which is an input")


def _store(s: Store, here: VerifyContext) -> None:
    _label(s.label, here)
    _check_unless_known(s, here, _stored)
    _writable(s.label, s.buffer.name, here)


def _stored(s: Store, here: VerifyContext) -> None:
    access(s.buffer, s.at, here)
    if isinstance(s.value, Op) and s.value.fn.lane is not None and here.kernel is not None:
        found = arguments(s.value, here, None)  # here alone an exchange between lanes may stand
    else:
        found = value(s.value, here)
    if found != s.buffer.dtype:
        fail(f"statement {s.label} stores {found} in {s.buffer.name}, which holds {s.buffer.dtype}")


def _reduce(s: Reduce, here: VerifyContext) -> None:
    _label(s.label, here)
    width = len(s.monoid.left)
    if not (len(s.buffers) == len(s.values) == width) or (s.init is not None and len(s.init) != width):
        fail(f"statement {s.label} folds {len(s.values)} values into {len(s.buffers)} buffers by a monoid of {width}")
    _monoid(s.monoid, here)
    _check_unless_known(s, here, _folded)
    for b in s.buffers:
        _writable(s.label, b.name, here)
    if len({b.name for b in s.buffers}) != len(s.buffers):
        fail(f"statement {s.label} folds twice into one buffer")
    if s.atomic and len(s.buffers) > 1:
        fail(f"statement {s.label} is atomic and folds into {len(s.buffers)} buffers, which no step updates")
    if s.over:
        _over(s, here)


def _folded(s: Reduce, here: VerifyContext) -> None:
    for b in s.buffers:
        access(b, s.at, here)
    for values in (s.values, s.init or ()):
        for v, b, p in zip(values, s.buffers, s.monoid.left, strict=bool(values)):
            found = value(v, here)
            if not found == b.dtype == p.type:
                fail(f"statement {s.label} folds {found} into {b.name} of {b.dtype} by a monoid on {p.type}")


def _over(s: Reduce, here: VerifyContext) -> None:
    """The loops that a reduction folds over are around it; its element, and how it starts, is known outside them."""
    around = [x.var for x in here.loops]
    for name in s.over:
        if name not in around:
            fail(f"statement {s.label} reduces over {name}, which is no loop around it")
        if any(name in free_vars(x) for x in s.at):
            fail(f"statement {s.label} reduces over {name}, and its element depends on {name}")
    if len(set(s.over)) != len(s.over):
        fail(f"statement {s.label} reduces twice over one loop")
    start = min(map(around.index, s.over))
    here.outermost_fold = min(here.outermost_fold, start)
    if s.init is not None:
        _start(s, here, around[start], start)


def _start(s: Reduce, here: VerifyContext, loop: str, start: int) -> None:
    """What `s` starts from is known outside `loop`, `start` loops deep, the outermost of those that it folds over."""
    if any(here.level[b.name] > start for b in s.buffers):
        reason = f"statement {s.label} reduces over {loop} into memory that is new in every iteration of it"
        raise NestingError(reason, f"decompose_reduction({s.label!r}) first")
    over = frozenset(s.over)
    kept = [x.extent for x in here.loops[start:] if x.var not in over]
    tests = [t for depth, terms in here.guards if depth > start for t in terms if over.isdisjoint(free_vars(t))]
    for part in (*s.at, *(s.init or ()), *kept, *tests):
        inner = free_vars(part) & over
        if not is_affine_visible(part):
            inner |= {n.buffer.name for n in nodes(part) if isinstance(n, Load) and here.level[n.buffer.name] > start}
        if inner:
            reason = f"statement {s.label} starts outside loop {loop}, and that depends on {min(inner)} inside"
            raise NestingError(reason, f"decompose_reduction({s.label!r}) first")


def _monoid(m: Monoid, here: VerifyContext) -> None:
    if id(m) in here.seen:
        return
    here.seen.add(id(m))
    _monoid_name(m, here)
    if m.name in REGISTRY or m.name in BY_NAME or not m.name.isidentifier():
        fail(f"a monoid has the name {m.name!r}, which means something else")
    known = cache_of(m)
    if _monoid not in known:
        _check_components(m, here)
        if _closed(m):
            known[_monoid] = True


def _check_components(m: Monoid, here: VerifyContext) -> None:
    params = {p.name: p.type for p in (*m.left, *m.right)}
    if not len(m.left) == len(m.right) == len(m.combine) == len(m.identity) or len(params) != 2 * len(m.left):
        fail(f"monoid {m.name} needs as many left, right and combined components as identities, all named apart")
    for part, v in zip(m.left, m.combine, strict=True):
        expr(v, here, params)
        if v.dtype != part.type:
            fail(f"monoid {m.name} combines {part.name} of {part.type} to {v.dtype}")
    if any(c.type != p.type or r.type != p.type for c, p, r in zip(m.identity, m.left, m.right, strict=True)):
        fail(f"monoid {m.name} has sides or an identity of another type than its components")


@memoized
def _closed(m: Monoid) -> bool:
    """Whether what `m` combines speaks of its components alone, so that it is right anywhere if it is somewhere."""
    return not any(free_vars(v) or loaded_buffers(v) for v in m.combine)


def _monoid_name(m: Monoid, here: VerifyContext) -> None:
    known = here.monoids.setdefault(m.name, m)
    if known is not m and known != m and m.name not in MONOIDS:
        fail(f"two monoids have the name {m.name}")


# ---------------------------------------------------------------- buffers


def _buffer(b: Buffer, sizes: frozenset[str], stage: Stage = "schedule") -> None:
    known = cache_of(b)
    if (found := known.get((_buffer, stage))) is None or not found <= sizes:
        _checked_buffer(b, sizes, stage)
        known[_buffer, stage] = sizes


def _checked_buffer(b: Buffer, sizes: frozenset[str], stage: Stage) -> None:
    if b.scope not in SCOPES and b.scope not in MEMORIES and (b.scope, stage) != ("any", "meaning"):
        fail(f"buffer {b.name} has scope {b.scope!r}; there are {', '.join((*SCOPES, *MEMORIES))}")
    for d in b.shape:
        if not (isinstance(d, Int) or reads_only(d, sizes)):
            fail(f"the shape of {b.name} is not made of sizes and integers only")
        if isinstance(d, Int) and d.value < 0:
            fail(f"buffer {b.name} has a dimension of {d.value}")
    match b.layout:
        case Strided(strides):
            count, free, parts = len(strides), sizes, strides
        case Mapped(dims, at):
            count, free, parts = len(set(dims)), sizes | set(dims), (at,)
        case Fragment(_, _, dims, at):
            if b.scope != "fragment" or len(set(dims)) != 2:
                fail(f"{b.name} has the layout of a fragment; then its scope is fragment")
            count, free, parts = len(b.shape), frozenset(dims), at
        case _:
            return
    if count != len(b.shape):
        fail(f"buffer {b.name} has {len(b.shape)} dimensions and a layout of {count}")
    if not all(reads_only(x, free) for x in parts):
        fail(f"the layout of {b.name} speaks of what is no size and no dimension")
    for x in parts:
        expr(x, VerifyContext("schedule", set(free)))
    if not is_injective(b):
        fail(f"the layout of {b.name} is not known to put every element in a place of its own, from 0 up")

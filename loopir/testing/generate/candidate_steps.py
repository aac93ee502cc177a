"""List the candidate steps of a primitive on a small nest: neighbours, odd factors, all tails.

`steps` draws arguments for primitives that it does not know, and most such steps are refused. Where a rule is to be
tried hard in few examples, this says which loops, stages and buffers the arguments of each primitive are about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import pairwise, product
from typing import Any

from hypothesis import strategies as st

from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Func, If, Load, Loop, Op, Reduce, Stmt, Store, Value
from loopir.ir.traverse.walk import accessed_buffers, bodies, leaf_paths, loaded_buffers, loops, nodes, statements
from loopir.schedule import Schedule
from loopir.schedule.core.trace import Step
from loopir.testing.generate.steps import LAYOUTS, Crash

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
FACTORS = (2, 3)
TAILS = ("guard", "peel", "shift_inwards", "round_up")


def candidate_steps(func: Func, primitive: str) -> list[Step]:
    """The steps of `primitive` that are worth trying on `func`, legal or not."""
    return [Step(primitive, args, tuple(kwargs.items())) for args, kwargs in TABLE[primitive](func)]


@st.composite
def random_candidate_steps(
    draw: st.DrawFn,
    func: Func,
    primitives: Collection[str],
    *,
    most: int = 2,
    tries: int = 5,
    told: Mapping[str, object] | None = None,
    refused: Callable[[Func, Step, ScheduleError], None] = lambda func, step, error: None,
) -> Schedule:
    """`func` after one to `most` plausible steps; each is drawn up to `tries` times until one is legal.

    Only those are drawn that have what is `told` of their arguments by name."""
    wanted = frozenset((told or {}).items())
    s = Schedule(func)
    for _ in range(draw(st.integers(1, most))):
        listed = {
            name: found
            for name in primitives
            if (found := [x for x in candidate_steps(s.func, name) if wanted <= {*x.kwargs}])
        }
        for _ in range(tries if listed else 0):
            step = draw(st.sampled_from(listed[draw(st.sampled_from(sorted(listed)))]))
            try:
                s = s.apply(step)
                break
            except ScheduleError as error:
                refused(s.func, step, error)
            except Exception as error:
                raise Crash(s, step, error) from error
    return s


# ---------------------------------------------------------------- what stands where


def _loops(func: Func) -> list[str]:
    return [x.var for x in loops(func.body)]


def _stage_names(func: Func, kind: type = object) -> list[str]:
    return [p.stmt.label for p in leaf_paths(func.body) if isinstance(p.stmt, kind)]


def _own_allocs(func: Func) -> list[str]:
    return [s.buffer.name for s in statements(func.body) if isinstance(s, Alloc)]


def _neighbours(func: Func) -> Iterator[tuple[str, str]]:
    """Loops that stand one right after the other."""
    for body in (func.body, *(b for s in statements(func.body) for b in bodies(s))):
        yield from ((a.var, b.var) for a, b in pairwise(body) if isinstance(a, Loop) and isinstance(b, Loop))


def _nested(func: Func, *, perfect: bool = True) -> Iterator[tuple[str, str]]:
    """A loop and one right inside it, through guards; the only statement in it if `perfect`."""
    for outer in loops(func.body):
        body = outer.body
        while len(body) == 1 and isinstance(only := body[0], If) and not only.orelse:
            body = only.then
        if perfect:
            yield from ((outer.var, s.var) for s in body[:1] if len(body) == 1 and isinstance(s, Loop))
        else:
            yield from ((outer.var, x.var) for x in loops(outer.body))


def _around(func: Func, stage: str) -> list[str]:
    return [x.var for p in leaf_paths(func.body) if p.stmt.label == stage for x in p.loops]


def _nests(func: Func, stage: str) -> Iterator[str]:
    """The loops that `stage` does not stand in."""
    yield from (x for x in _loops(func) if x not in _around(func, stage))


def _touched(func: Func, stage: str) -> list[str]:
    return sorted(b for p in leaf_paths(func.body) if p.stmt.label == stage for b in accessed_buffers(p.stmt))


def _cuts(s: Stmt) -> Iterator[str]:
    """The stages that a loop may be cut after."""
    found = [p.stmt.label for p in leaf_paths(s.body if isinstance(s, Loop) else ())]
    yield from found[:-1]


# ---------------------------------------------------------------- the table


def _plain(*parts: Any) -> Arguments:
    return parts, {}


def _each_loop(func: Func) -> Iterator[Arguments]:
    yield from (_plain(x) for x in _loops(func))


def _each_stage(func: Func) -> Iterator[Arguments]:
    yield from (_plain(x) for x in _stage_names(func))


def _split(func: Func) -> Iterator[Arguments]:
    yield from (((x, f), {"tail": t}) for x, f, t in product(_loops(func), FACTORS, TAILS))


def _jam(func: Func) -> Iterator[Arguments]:
    outer = dict.fromkeys(a for a, _ in _nested(func, perfect=False))
    yield from (((x, f), {"tail": t}) for x, f, t in product(outer, FACTORS, ("peel", "guard")))


def _fuse_loops(func: Func) -> Iterator[Arguments]:
    shifts: tuple[int | tuple[int, int], ...] = (0, 1, -1, 2, (1, 1), (0, 1))
    yield from ((pair, {"shift": d, "tail": "guard"}) for pair, d in product(_neighbours(func), shifts))


def _rolling_update(func: Func) -> Iterator[Arguments]:
    """All nests after a loop that are as long, and each of them alone."""
    for body in (func.body, *(s.body for s in statements(func.body) if isinstance(s, Loop | Alloc))):
        for n, x in enumerate(body):
            if isinstance(x, Loop):
                after = [y for y in body[n + 1 :] if isinstance(y, Loop) and y.extent == x.extent]
                labels = [tuple(dict.fromkeys(p.stmt.label for p in leaf_paths((y,)))) for y in after]
                every = tuple(label for some in labels for label in some)
                yield from (_plain(some, x.var) for some in dict.fromkeys([every, *labels]) if some)


def _use_partials(func: Func) -> Iterator[Arguments]:
    """Folds of what is read alone, two and two."""
    folds = [p.stmt for p in leaf_paths(func.body) if isinstance(p.stmt, Reduce) and isinstance(p.stmt.values[0], Load)]
    yield from (_plain(a.label, b.label) for a, b in product(folds, folds))


def _factor_out(func: Func) -> Iterator[Arguments]:
    """Sums over loops of what is, or is read from what is, multiplied or divided."""
    for s in (p.stmt for p in leaf_paths(func.body)):
        if isinstance(s, Reduce) and s.over and s.monoid.name == "sum" and _is_product(s.values[0]):
            yield _plain(s.label)


def _is_product(v: Value) -> bool:
    return isinstance(v, Load) or (isinstance(v, Op) and v.fn.name in ("mul", "div"))


def _merge(func: Func) -> Iterator[Arguments]:
    yield from ((pair, {"side_by_side": row}) for pair, row in product(_neighbours(func), (False, True)))


def _distribute(func: Func) -> Iterator[Arguments]:
    yield from (_plain(x.var, cut) for x in loops(func.body) for cut in _cuts(x))


def _retime(func: Func) -> Iterator[Arguments]:
    for x in loops(func.body):
        stages = [p.stmt.label for p in leaf_paths(x.body)]
        for late, by in product(stages, (1, 2)):
            others = [n for n in stages if n != late]
            yield from (((x.var, late), {"by": by, "before": before}) for before in (None, *others) if others)


def _alternate(func: Func) -> Iterator[Arguments]:
    """Each loop bound to warpgroups, and each two of them."""
    bound = [x.var for x in loops(func.body) if x.kind == "warpgroup"]
    yield from (_plain(*dict.fromkeys(pair)) for pair in product(bound, bound))


def _bind(func: Func) -> Iterator[Arguments]:
    yield from (_plain(x, a) for x, a in product(_loops(func), ("threadIdx.x", "blockIdx.x", "threadIdx.y")))


def _stage_nests(func: Func) -> Iterator[Arguments]:
    yield from (_plain(stage, x) for stage in _stage_names(func) for x in _nests(func, stage))


def _compute_at(func: Func) -> Iterator[Arguments]:
    for args, _ in _stage_nests(func):
        yield from ((args, store) for store in ({}, {"store": "root"}))


def _plain_steps(func: Func, kind: type = object) -> Iterator[Arguments]:
    yield from (_plain(stage, x) for stage in _stage_names(func, kind) for x in _around(func, stage))


def _cache_read(func: Func) -> Iterator[Arguments]:
    for stage in _stage_names(func):
        for b, x in product(_touched(func, stage), (*_around(func, stage), None)):
            yield (stage, b, "local"), {"at": x}


def _cache_write(func: Func) -> Iterator[Arguments]:
    yield from (((s, "local"), {"at": x}) for s in _stage_names(func) for x in (*_around(func, s), None))


def _cache_inplace(func: Func) -> Iterator[Arguments]:
    found = (_plain(b, "local", x) for s in _stage_names(func) for b in _touched(func, s) for x in _around(func, s))
    yield from {repr(x): x for x in found}.values()


def _fold_storage(func: Func) -> Iterator[Arguments]:
    yield from (_plain(b, 0, f) for b, f in product(_own_allocs(func), (1, 2, 3, 4)))


def _pad(func: Func) -> Iterator[Arguments]:
    yield from (_plain(s) for s in _stage_names(func))
    yield from (_plain(s, x) for s in _stage_names(func) for x in _around(func, s))


def _peel(func: Func) -> Iterator[Arguments]:
    yield from (((x,), {"first": f, "last": k}) for x, f, k in product(_loops(func), (0, 1, 2), (0, 1)) if f or k)
    for outer, x in _nested(func, perfect=False):
        yield from (((x,), {"first": f"{outer}{by}", "last": k}) for by, k in product((" - 1", "", " + 2"), (0, 1)))
    yield from (((x,), {"first": f"{n} - 2", "last": k}) for x, n, k in product(_loops(func), func.sizes, (0, 1)))


def _specialize(func: Func) -> Iterator[Arguments]:
    for x in loops(func.body):
        outer = [a for a, b in _nested(func, perfect=False) if b == x.var]
        for v in (*outer, *func.sizes):
            yield from (_plain(x.var, when.format(v=v)) for when in ("{v} % 2 == 0", "{v} < 2", "{v} == 1"))


def _set_layout(func: Func) -> Iterator[Arguments]:
    ranks = {s.buffer.name: len(s.buffer.shape) for s in statements(func.body) if isinstance(s, Alloc)}
    for b, rank in ranks.items():
        yield from (_plain(b, layout) for layout in LAYOUTS.get(rank, ())[:2])


def _two_buffers(func: Func) -> Iterator[Arguments]:
    yield from (_plain(a, b) for a, b in product(_own_allocs(func), _own_allocs(func)) if a != b)


def _compute_once(func: Func) -> Iterator[Arguments]:
    """Stores of what is computed, and statements that compute something by the same operation."""
    found = [p.stmt for p in leaf_paths(func.body)]
    every = [(s.label, s.value if isinstance(s, Store) else s.values[0]) for s in found]
    for (s, v), (other, w) in product(every, every):
        if s != other and isinstance(v, Op) and any(isinstance(n, Op) and n.fn is v.fn for n in nodes(w)):
            yield _plain(s, other)


def _clone(func: Func) -> Iterator[Arguments]:
    """Stages that make an intermediate, with each that reads it, and with all of these."""
    leaves, own = [p.stmt for p in leaf_paths(func.body)], {*_own_allocs(func)}
    for s in leaves:
        made = {b.name for b in s.buffers} & own
        readers = [x.label for x in leaves if x is not s and not made.isdisjoint(loaded_buffers(x))]
        yield from (_plain(s.label, *chosen) for chosen in dict.fromkeys([*((x,) for x in readers), (*readers,)]))


TABLE: dict[str, Callable[[Func], Iterator[Arguments]]] = {
    **dict.fromkeys(("parallel", "vectorize", "unroll", "partition", "reverse", "trim"), _each_loop),
    **dict.fromkeys(("compute_inline", "reverse_compute_inline", "compute_root", "atomic"), _each_stage),
    "split": _split,
    "unroll_and_jam": _jam,
    "fuse": lambda func: (_plain(*x) for x in _nested(func)),
    "reorder": lambda func: (_plain(b, a) for a, b in _nested(func)),
    "skew": lambda func: (_plain(*pair, f) for pair, f in product(_nested(func), (1, -1, 2))),
    "wavefront": lambda func: (_plain(*x) for x in _nested(func)),
    "tile": lambda func: (_plain(a, b, 2, 2) for a, b in _nested(func)),
    "fuse_loops": _fuse_loops,
    "merge": _merge,
    "distribute": _distribute,
    "retime": _retime,
    "alternate": _alternate,
    "bind": _bind,
    "compute_at": _compute_at,
    "reverse_compute_at": _stage_nests,
    "hoist": _plain_steps,
    "rfactor": lambda func: _plain_steps(func, Reduce),
    "rolling_update": _rolling_update,
    "use_partials": _use_partials,
    "clone": _clone,
    "compute_once": _compute_once,
    "factor_out": _factor_out,
    "decompose_reduction": lambda func: _plain_steps(func, Reduce),
    "cache_read": _cache_read,
    "cache_write": _cache_write,
    "cache_inplace": _cache_inplace,
    "fold_storage": _fold_storage,
    "pad": _pad,
    "peel": _peel,
    "specialize": _specialize,
    "set_layout": _set_layout,
    "reuse": _two_buffers,
    "privatize": lambda func: (_plain(b, x) for b, x in product(_own_allocs(func), _loops(func))),
    "double_buffer": lambda func: (_plain(b, x) for b, x in product(_own_allocs(func), _loops(func))),
    "simplify": lambda func: (((), {"drop_unit_loops": drop}) for drop in (False, True)),
}
"""By primitive, the arguments worth trying."""

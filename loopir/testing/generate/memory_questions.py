"""Questions about memory, its dimensions, and several loops: the rest of
`loopir.testing.generate.argument_questions`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from loopir.ir.grammar import Buffer, Loop
from loopir.ir.traverse.walk import bodies, loops, statements
from loopir.testing.generate.argument_questions import Chosen, Nest, about

# ---------------------------------------------------------------- of memory


@about("buffer", "old")
def own(nest: Nest, buffer: Any, chosen: Chosen) -> bool:
    return buffer in nest.allocs


@about("buffer", beside="first")
def of_dimensions(nest: Nest, buffer: Any, chosen: Chosen) -> bool:
    """Has two dimensions or more."""
    return buffer in nest.allocs and len(nest.allocs[buffer].buffer.shape) > 1


@about("buffer", beside="old")
def after_another(nest: Nest, buffer: Any, chosen: Chosen) -> bool:
    """There is other memory that it could be kept in."""
    return any(_same_type_and_shape(nest, buffer, old) and _over_before(nest, buffer, old) for old in nest.allocs)


@about("old")
def room(nest: Nest, old: Any, chosen: Chosen) -> bool:
    """Is such memory for the buffer that is chosen."""
    buffer = str(chosen.get("buffer"))
    return _same_type_and_shape(nest, buffer, old) and _over_before(nest, buffer, old)


def _same_type_and_shape(nest: Nest, one: Any, other: Any) -> bool:
    """Whether two are memory of one type and shape."""
    if one == other or one not in nest.allocs or other not in nest.allocs:
        return False
    a, b = nest.allocs[one].buffer, nest.allocs[other].buffer

    def form(x: Buffer) -> tuple[object, ...]:
        return x.shape, x.dtype, x.scope, x.layout

    return form(a) == form(b)


def _over_before(nest: Nest, buffer: str, old: str) -> bool:
    """Whether `old` is there before `buffer`, and nothing touches it after the first that touches `buffer`."""
    rows = (nest.func.body, *(b for s in statements(nest.func.body) for b in bodies(s)))
    one, other = nest.allocs[buffer], nest.allocs[old]
    there = any(s is one for s in statements(other.body)) or any(
        other in row and one in row and row.index(other) < row.index(one) for row in rows
    )
    first = [nest.places.index(p) for p in nest.touching(buffer)]
    last = [nest.places.index(p) for p in nest.touching(old)]
    return there and bool(first) and max(last, default=-1) <= min(first)


@about("loop", beside="buffer")
def anew(nest: Nest, loop: Any, chosen: Chosen) -> bool:
    """Each iteration has the buffer anew."""
    alloc = nest.allocs.get(str(chosen.get("buffer")))
    return alloc is not None and loop in nest.loops and any(s is alloc for s in statements(nest.loops[loop].body))


@about("loop", beside="buffer")
def only_user(nest: Nest, loop: Any, chosen: Chosen) -> bool:
    """The buffer is allocated outside of the loop and touched in it alone."""
    alloc = nest.allocs.get(str(chosen.get("buffer")))
    users = nest.touching(str(chosen.get("buffer")))
    if alloc is None or not users or anew(nest, loop, chosen):
        return False
    return all(any(x.var == loop for x in p.loops) for p in users)


@about("buffer", beside="loop")
def used_in_a_loop(nest: Nest, buffer: Any, chosen: Chosen) -> bool:
    """Some loop inside of its allocation holds all that touches it."""
    return any(only_user(nest, v, {"buffer": buffer}) for v in nest.loops)


@about("buffer", beside="loop")
def made_in_a_loop(nest: Nest, buffer: Any, chosen: Chosen) -> bool:
    """It is allocated in a loop."""
    return any(anew(nest, v, {"buffer": buffer}) for v in nest.loops)


# ---------------------------------------------------------------- of several loops


@about("loops")
def nested(nest: Nest, names: Any, chosen: Chosen) -> bool:
    found = [nest.loops[v] for v in names if v in nest.loops]
    return any(y.var in names for x in found for y in loops(x.body))


@about("loops")
def side_by_side(nest: Nest, names: Any, chosen: Chosen) -> bool:
    rows = {(a.var, b.var) for a, b in nest.pairs}
    return len(names) > 1 and all(pair in rows for pair in pairwise(names))


@about("second")
def right_after(nest: Nest, name: Any, chosen: Chosen) -> bool:
    return any((a.var, b.var) == (chosen.get("first"), name) for a, b in nest.pairs)


@about("first")
def before_another(nest: Nest, name: Any, chosen: Chosen) -> bool:
    return any(a.var == name for a, _ in nest.pairs)


@about("outer")
def has_one_inside(nest: Nest, name: Any, chosen: Chosen) -> bool:
    return name in nest.loops and any(isinstance(s, Loop) for s in nest.loops[name].body)


@about("inner")
def just_inside(nest: Nest, name: Any, chosen: Chosen) -> bool:
    """The one statement of the outer loop."""
    outer = nest.loops.get(str(chosen.get("outer")))
    return outer is not None and len(outer.body) == 1 and isinstance(x := outer.body[0], Loop) and x.var == name


# ---------------------------------------------------------------- of dimensions


@about("first")
def followed(nest: Nest, dim: Any, chosen: Chosen) -> bool:
    """Is a dimension of the buffer that is chosen, and not the last."""
    alloc = nest.allocs.get(str(chosen.get("buffer")))
    return alloc is not None and isinstance(dim, int) and dim + 1 < len(alloc.buffer.shape)


@about("dim")
def there(nest: Nest, dim: Any, chosen: Chosen) -> bool:
    alloc = nest.allocs.get(str(chosen.get("buffer")))
    return alloc is not None and dim < len(alloc.buffer.shape)

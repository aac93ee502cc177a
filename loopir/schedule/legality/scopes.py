"""Which memory a buffer may lie in where it is allocated: shared memory belongs to a block, local memory to a thread.

Accesses are not looked at here: lowering proves that no thread needs what another has in local memory.
"""

from __future__ import annotations

from loopir.errors import ScheduleError
from loopir.ir.grammar import BLOCK_AXES, SCOPES, THREAD_AXES, Alloc, Buffer, Func, InstrRegion, Loop, Scope, Stmt
from loopir.ir.layout.layouts import is_injective
from loopir.ir.ops import MEMORIES
from loopir.ir.traverse.walk import accessed_buffers, alloc_of, bodies, is_filled_by_role, loops, path_to, statements
from loopir.schedule.core.find import close_names, find_buffer, join_names


def scope_called(scope: str) -> Scope:
    """`scope`, if there is such memory."""
    if scope in SCOPES or scope in MEMORIES:
        return scope
    raise ScheduleError(
        f"there is no scope {scope!r}; the scopes are {join_names((*SCOPES, *MEMORIES))}",
        suggestion=close_names(scope, (*SCOPES, *MEMORIES)),
    )


def find_alloc(func: Func, buffer: str) -> Alloc:
    """The allocation of `buffer`."""
    found = alloc_of(func, buffer)
    if found is None:
        find_buffer(func, buffer)
        raise ScheduleError(
            f"{buffer} is an argument of {func.name!r}, and its memory is the caller's",
            suggestion=f"a copy of it: cache_read or cache_write of {buffer}",
        )
    return found


def require_no_operand(alloc: Alloc) -> None:
    """Refuse to change the dimensions of what an instruction has as an operand."""
    name = alloc.buffer.name
    for s in statements(alloc.body):
        if isinstance(s, InstrRegion) and name in accessed_buffers(s):
            reason = f"{s.fn.name} has {name} as an operand, with dimensions in its own order"
            raise ScheduleError(reason, suggestion="the step before tensorize")


def require_places(func: Func, loop: Loop) -> None:
    """Refuse if shared or local memory around `loop`, or inside it, is no longer one memory."""

    def visit(body: tuple[Stmt, ...], around: tuple[Stmt, ...]) -> None:
        for s in body:
            require(s, around)
            for inner in bodies(s):
                visit(inner, (*around, s))

    def require(s: Stmt, around: tuple[Stmt, ...]) -> None:
        if isinstance(s, Alloc):
            require_place(s.buffer.name, s.buffer.scope, around, s.body)

    way = path_to(func, loop)
    for n, s in enumerate(way):
        require(s, way[:n])
    visit(loop.body, way)


def require_place(name: str, scope: Scope, around: tuple[Stmt, ...], body: tuple[Stmt, ...]) -> None:
    """Refuse memory of `scope` for `name`, allocated inside `around` for `body`, if it would not be one memory.

    Shared memory stands inside a block's loops and outside its threads'; local memory inside the blocks' loops.
    """
    if scope == "global":
        return
    inside = next((x for x in loops(body) if x.kind in BLOCK_AXES), None)
    if inside is not None:
        raise ScheduleError(
            f"{name} would be {scope} memory around {inside.var!r}, which is bound to {inside.kind}, and no block sees "
            f"another's {scope} memory",
            loop=inside.var, suggestion='scope "global", or a place inside the loops that are bound to blocks',
        )  # fmt: skip
    thread = next((x for x in around if isinstance(x, Loop) and x.kind in THREAD_AXES), None)
    if scope == "shared" and thread is not None and not (thread.kind == "warpgroup" and is_filled_by_role(name, body)):
        raise ScheduleError(
            f"{name} would be shared memory inside {thread.var!r}, which is bound to {thread.kind}, so that each "
            f"thread would have its own",
            loop=thread.var, suggestion=f'scope "local", or a place outside {thread.var!r}',
        )  # fmt: skip


def require_places_apart(larger: Buffer, b: Buffer) -> None:
    """Refuse if the layout of `larger`, several of `b` in a row, is not known to keep all elements apart."""
    if larger.layout is not None and not is_injective(larger):
        reason = f"several {b.name}, one after the other, are not known to lie apart in its layout"
        raise ScheduleError(reason, suggestion="take this step before set_layout")

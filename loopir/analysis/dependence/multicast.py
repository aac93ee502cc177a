"""Multicast: is an iteration of a loop identical in every block of a cluster, so that one block can run it for all?"""

from __future__ import annotations

from loopir.ir.grammar import Alloc, Body, If, Loop, Reduce, Store
from loopir.ir.printer import text
from loopir.ir.traverse.walk import free_vars, leaf_paths, loaded_buffers, path_within, stored_buffers


def multicast_obstacle(body: Body, loop: Loop, cluster: str) -> str | None:
    """Why the iterations of `loop`, in `body`, are not the same for each value of the variable `cluster`; None if they
    are: nothing that they do or that decides about them speaks of it, and they copy from what is written nowhere here
    to memory of the block."""
    around = path_within(body, loop)
    own = {s.buffer.name for s in around if isinstance(s, Alloc) and s.buffer.scope == "shared"}
    written = frozenset[str]().union(*map(stored_buffers, body))
    for s in around:
        decides = s.extent if isinstance(s, Loop) else s.cond if isinstance(s, If) else None
        if decides is not None and cluster in free_vars(decides):
            return f"{text(decides)} speaks of {cluster}"
        if decides is not None and loaded_buffers(decides):
            return f"{text(decides)} is read from memory"
    for p in leaf_paths((loop,)):
        if isinstance(p.stmt, Reduce) or not stored_buffers(p.stmt) <= own:
            return f"{p.stmt.label} does not copy to shared memory of the block"
        if changed := sorted(loaded_buffers(p.stmt) & written):
            return f"{p.stmt.label} copies {changed[0]}, which is written here"
        assert isinstance(p.stmt, Store)
        inner = [x.extent for x in p.loops] + [c for c, _ in p.conds()]
        for part in (*p.stmt.at, p.stmt.value, *inner):
            if cluster in free_vars(part):
                return f"{p.stmt.label} speaks of {cluster}"
    return None

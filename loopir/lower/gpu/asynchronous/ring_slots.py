"""Find the ring slot of each iteration of a warp-specialized loop, and check that producer and consumer share no more.

The mbarriers of the slots are the only synchronization between the two sides, so everything else has to be separate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from loopir.arith.simplify import Context, simplify
from loopir.errors import LowerError
from loopir.ir.grammar import (
    GROUP_WARPS,
    Alloc,
    Body,
    Buffer,
    Cmp,
    ExpectTx,
    If,
    Index,
    Int,
    Kernel,
    Load,
    Loop,
    MBarrierInit,
    MBarrierWait,
    Mod,
    Stmt,
    Var,
    WarpSpecialized,
    conj,
)
from loopir.ir.traverse.walk import (
    StmtPath,
    accessed_buffers,
    leaf_paths,
    loaded_buffers,
    statements,
    stored_buffers,
    substitute,
)
from loopir.lower.gpu.asynchronous.async_groups import is_issued
from loopir.lower.gpu.asynchronous.insert_mbarrier_waits import slot_indices


def _is_release(s: Stmt) -> TypeGuard[ExpectTx]:
    return isinstance(s, ExpectTx) and s.bytes == 0


def releases(s: Stmt) -> bool:
    """Whether `s` says that a buffer is read, and nothing else."""
    return _is_release(s) or (isinstance(s, If) and not s.orelse and bool(s.then) and all(map(_is_release, s.then)))


def filled_by(role: WarpSpecialized) -> frozenset[str]:
    return frozenset[str]().union(*map(stored_buffers, role.body))


def ring_slot(kernel: Kernel, role: WarpSpecialized, loop: Loop) -> tuple[Index, int]:
    """The slot of an iteration of `loop`, and the number of slots. Raises LowerError if there are none."""
    filled = filled_by(role)
    here = list(leaf_paths(kernel.body))
    mine = [p for p in here if p.is_in(role)]
    others = [p for p in here if not p.is_in(role)]
    using = [p for p in others if accessed_buffers(p.stmt) & filled]
    _require_apart(kernel, mine, others, filled)
    if not using or not all(p.is_in(loop) for p in using) or min(p.path for p in using) < max(p.path for p in mine):
        raise LowerError(f"what the role in {kernel.name} fills is used outside of the rest of loop {loop.var}")
    slots, size = _slots_in((*mine, *using), filled), _ring_size(kernel, filled)
    if len(slots) != 1 or size is None or not _in_turn(slots[0], loop, size):
        raise LowerError(
            f"an iteration of {loop.var} has not the buffer after that of the one before, in turn, for all"
        )
    return slots[0], size


def slot_of(kernel: Kernel, role: WarpSpecialized) -> tuple[Index, int]:
    """The slot that a producer fills at one of several places, and the number of slots."""
    filled = filled_by(role)
    here = list(leaf_paths(kernel.body))
    mine = [p for p in here if p.is_in(role)]
    others = [p for p in here if not p.is_in_role]
    _require_apart(kernel, mine, others, filled)
    slots, size = _slots_in(mine, filled), _ring_size(kernel, filled)
    if len(slots) != 1 or size is None:
        raise LowerError(f"a role in {kernel.name} fills several buffers of a ring at once")
    return slots[0], size


def _slots_in(places: Sequence[StmtPath], filled: frozenset[str]) -> list[Index]:
    """The slots of the ring `filled` that the statements at `places` use."""
    return list({simplify(at, Context()) for p in places for at in slot_indices(p, filled)})


def _ring_size(kernel: Kernel, filled: frozenset[str]) -> int | None:
    """How many slots each buffer in `filled` has, if it is one constant."""
    sizes = {s.buffer.shape[0] for s in statements(kernel.body) if isinstance(s, Alloc) and s.buffer.name in filled}
    size = sizes.pop()
    return size.value if not sizes and isinstance(size, Int) else None


def _in_turn(slot: Index, loop: Loop, size: int) -> bool:
    """Whether each iteration of `loop` has the slot after that of the one before; one buffer has all turns."""
    turn = slot.a if isinstance(slot, Mod) and slot.b == Int(size) else slot
    coming = simplify(substitute(turn, {loop.var: Var(loop.var) + 1}), Context())
    return coming == simplify(turn + 1, Context()) or loop.extent == Int(1) or size == 1


def uses_after(body: Body, at: int, filled: frozenset[str]) -> range:
    """The statements of `body` that use what the producer in statement `at` fills, up to the next fill of its ring.

    Raises LowerError if there are none."""
    uses: list[int] = []
    for n in range(at + 1, len(body)):
        if any(isinstance(s, WarpSpecialized) and filled_by(s) == filled for s in statements((body[n],))):
            break
        if accessed_buffers(body[n]) & filled:
            uses.append(n)
    if not uses:
        raise LowerError(f"what a role copies to {', '.join(sorted(filled))} is not used right after it, in its list")
    return range(uses[0], uses[-1] + 1)


def require_handed_over(kernel: Kernel, bodies: Sequence[Body], filled: frozenset[str]) -> None:
    """Refuse unless fills and uses alternate for buffers that are filled at several places.

    Each use is in the statements `uses_after` one place, and reads the slot filled there. So the use of one fill ends
    before the next fill is waited for, and both sides reach the mbarriers equally often, in the same order: the phase
    of a slot's mbarrier identifies the fill. There is no deadlock, as each side waits only for what is earlier in the
    text, at equal iterations.
    """
    covered: list[Stmt] = []
    for body in bodies:
        for n, s in enumerate(body):
            mine = [r for r in _roles(s) if filled_by(r) == filled]
            if mine:
                slot, _ = slot_of(kernel, mine[0])
                spanned = body[uses_after(body, n, filled).start : uses_after(body, n, filled).stop]
                if _slots_in([*leaf_paths(spanned)], filled) != [slot] or len(mine) > 1:
                    raise LowerError(
                        f"what uses {', '.join(sorted(filled))} after a role has filled one of these buffers uses "
                        f"another one, too"
                    )
                covered += spanned
    for p in leaf_paths(kernel.body):
        mine = not accessed_buffers(p.stmt) & filled or p.is_in_role
        if not mine and not any(p.is_in(x) for x in covered):
            raise LowerError(f"{p.stmt.label} uses {', '.join(sorted(filled))} where no role has filled it before")


def _roles(s: Stmt) -> list[WarpSpecialized]:
    """The Roles that `s` is, or has right inside a test of who does them."""
    inner = s.then if isinstance(s, If) and not s.orelse else (s,)
    roles = [x for x in inner if isinstance(x, WarpSpecialized)]
    return roles if len(roles) == len(inner) else []


def _require_apart(
    kernel: Kernel, mine: Sequence[StmtPath], others: Sequence[StmtPath], filled: frozenset[str]
) -> None:
    """Refuse unless the two sides share only what the producer fills, by copies that count their bytes."""
    for p in mine:
        if not is_issued(p, "bytes"):
            raise LowerError(f"{p.stmt.label} is to be done ahead, and is no copy that counts its bytes; tensorize it")
    written = frozenset[str]().union(*(stored_buffers(p.stmt) for p in others))
    read = frozenset[str]().union(*(loaded_buffers(p.stmt) for p in mine))
    if shared := sorted(written & (read | filled)):
        raise LowerError(f"{', '.join(shared)}, which the role in {kernel.name} copies, is written beside it")
    for s in (s for p in mine for s in p.around if isinstance(s, Loop | If)):
        if loaded_buffers(s.extent if isinstance(s, Loop) else s.cond):
            raise LowerError(f"what decides how often the role in {kernel.name} runs is read from memory")


@dataclass(frozen=True, slots=True)
class TurnOrder:
    """The order in which warpgroups have their turns: `ring` has a barrier for each, at which the one before it, when
    it has been told of its last turn, arrives with all of its warps."""

    ring: Buffer
    group: str
    lane: Var
    groups: int

    def made(self) -> Body:
        return (MBarrierInit(self.ring, GROUP_WARPS),)

    def begun(self) -> Body:
        """The first one may begin."""
        last = conj(Cmp("==", Var(self.group), Int(self.groups - 1)), Cmp("==", self.lane, Int(0)))
        return (If(last, (ExpectTx(Load(self.ring, (Int(0),)), 0),)),)

    def wait(self) -> Stmt:
        return MBarrierWait(Load(self.ring, (Var(self.group),)))

    def next(self) -> Stmt:
        coming = (Var(self.group) + 1) % self.groups
        return If(Cmp("==", self.lane, Int(0)), (ExpectTx(Load(self.ring, (coming,)), 0),))

    def unless(self, extent: Index) -> Stmt:
        """Where there are no turns at all."""
        return If(Cmp("<=", extent, Int(0)), (self.next(),))

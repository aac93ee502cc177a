"""Faults in what the newest GPUs do: warps with a role, tiles in turn, copies that clusters share, boxes that leave."""

from __future__ import annotations

from hypothesis import strategies as st

from loopir.testing.generate.warp_programs import warp_kernels
from loopir.testing.mutants.gpu import judged
from loopir.testing.mutants.mutant import Hunt, Mutant, family


def _of(form: str) -> Hunt:
    """Random kernels of one form of `warp_programs`, under the interpreter's watch."""

    def hunt(data: st.DataObject) -> None:
        judged(data, data.draw(warp_kernels(form)))

    return hunt


FILLED, IN_TURN, ALTERNATING, SHARED, LEAVING = map(_of, ("filled", "in turn", "alternating", "shared", "leaving"))

WARPS = family(
    "warps with roles, clusters and boxes",
    Mutant(
        "fills what is read", "a buffer is filled before those who read it have said that they are done",
        "lower.gpu.asynchronous.warp_specialize:_RolePlan.fill", "(MBarrierWait(t.is_empty, 1), expected,",
        "(expected,",
        FILLED,
    ),
    Mutant(
        "reads what is coming", "a buffer is read without a wait for what fills it",
        "lower.gpu.asynchronous.warp_specialize:_RolePlan.in_turns",
        "before[reading[0]].append(MBarrierWait(t.is_full))", "pass", FILLED,
    ),
    Mutant(
        "said too soon", "a buffer is said to be read before it is",
        "lower.gpu.asynchronous.warp_specialize:_RolePlan.in_turns",
        "after[reading[-1]] += self.released(t)", "before[reading[0]] += self.released(t)", FILLED,
    ),
    Mutant(
        "one tile's copies", "of a block that stays, the warps that copy are done when the first tile is",
        "lower.gpu.asynchronous.warp_specialize:_RolePlan.passing", "Loop(name, s.extent, s.kind",
        "Loop(name, s.extent if any(s is t.loop for t in self.turns) else Int(1), s.kind", FILLED,
    ),
    Mutant(
        "one box's bytes", "bytes that are to come are counted once for a loop of boxes",
        "lower.gpu.asynchronous.insert_mbarrier_waits:transaction_bytes",
        "return times * sum(", "return sum(", FILLED,
    ),
    Mutant(
        "turns not passed by", "who has a tile does not come by the turns of the others' tiles",
        "lower.gpu.asynchronous.warp_specialize:_RolePlan.in_own_turns",
        "(replace(MBarrierWait(alone.is_full), skip=True),)", "()", IN_TURN,
    ),
    Mutant(
        "keeps its turn", "a warpgroup without a tile does not let the next one have its turn",
        "lower.gpu.asynchronous.warp_specialize:_RolePlan.consumed_nest",
        "other = (*s.orelse, self.order.wait(), self.order.next())", "other = s.orelse", IN_TURN,
    ),
    Mutant(
        "nobody begins", "no warpgroup gives the first one its first turn",
        "lower.gpu.asynchronous.insert_turns:_TurnPlan.begun_and_ended", "(If(last, (give,)), *body,", "(*body,",
        ALTERNATING,
    ),
    Mutant(
        "one turn too many", "the turn that is left over when the kernel ends is not taken",
        "lower.gpu.asynchronous.insert_turns:_TurnPlan.begun_and_ended", "*body, If(first, (take,)))", "*body)",
        ALTERNATING,
    ),
    Mutant(
        "its own turn again", "a warpgroup gives itself the turn after its own",
        "lower.gpu.bind_threads:_Binding.in_turn", "(Var(name) + 1) % groups", "Var(name)", ALTERNATING,
    ),
    Mutant(
        "its own block alone", "who has read what a cluster shares says so to its own block",
        "lower.gpu.asynchronous.warp_specialize:_RolePlan.released", "ExpectTx(slot, 0, Int(n))", "ExpectTx(slot, 0)",
        SHARED,
    ),
    Mutant(
        "not for all", "a copy that is another one in each block of a cluster is made for all of them",
        "analysis.dependence.multicast:multicast_obstacle", "if cluster in free_vars(part):", "if False:", SHARED,
    ),
    Mutant(
        "one store more", "a box is written again while one that has not been waited for still leaves from there",
        "lower.gpu.asynchronous.insert_store_waits:_Plan.applied", "AsyncWait(self.pending, GROUP)",
        "AsyncWait(self.pending + 1, GROUP)", LEAVING,
    ),
)  # fmt: skip

"""The primitives as methods of Schedule, for editors and type checkers alone. Generated: do not edit.

`python -m loopir.schedule.stubs` writes it again.
"""

from __future__ import annotations

from typing import Literal, Self


class Methods:
    __slots__ = ()

    def compute_inline(self, stage: str) -> Self:
        """Compute `stage` wherever it is read, instead of storing it. It has to be one plain store over a whole
        buffer."""
        raise NotImplementedError

    def fuse(self, outer: str, inner: str, *, name: str | None = None) -> Self:
        """Fuse `outer` and `inner`, the only statement in it, into one loop called `name`. The order stays."""
        raise NotImplementedError

    def rename(self, old: str, new: str) -> Self:
        """Call `old` by the name `new`: a loop ("i" or "C.i"), a buffer, a stage, or a buffer and its stage
        together."""
        raise NotImplementedError

    def split(
        self,
        loop: str,
        factor: int,
        *,
        tail: Literal["guard", "exact", "shift_inwards", "round_up", "peel"] = "guard",
        names: tuple[str, str] | None = None,
    ) -> Self:
        """Split `loop` into an outer loop over tiles and an inner one of `factor` iterations; `names` are theirs."""
        raise NotImplementedError

    def unroll(self, loop: str) -> Self:
        """Unroll `loop`, whose extent has to be a constant. The order of its iterations stays, so it is always
        legal."""
        raise NotImplementedError

"""What went to loopir and what stayed with torch, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Report:
    """Counts of calls over all graphs compiled so far. `print(report)` lists them."""

    graphs: int = 0
    kernels: int = 0
    compiled: Counter[str] = field(default_factory=Counter[str])
    """Calls that are part of a kernel, by operator."""
    light: Counter[str] = field(default_factory=Counter[str])
    """Views, sizes, and tensors of one number, that torch makes, as they are not worth a kernel."""
    left: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Calls that fell back to torch, by operator and reason."""
    failures: list[str] = field(default_factory=list[str])
    """Pieces that fell back as a whole, as no kernel could be made of them."""

    def count(self, operator: str, reason: str | None, *, light: bool = False) -> None:
        """Note a call: one that is compiled where there is no `reason`."""
        if reason is None:
            self.compiled[operator] += 1
        elif light:
            self.light[operator] += 1
        else:
            self.left[operator, reason] += 1

    def __str__(self) -> str:
        lines = [
            f"{self.graphs} graphs, {self.kernels} kernels: {self.compiled.total()} calls compiled, "
            f"{self.light.total()} views and constants, {self.left.total()} calls left to torch"
        ]
        lines += [f"{n:6} {op}: {reason}" for (op, reason), n in self.left.most_common()]
        lines += [f"       a piece as a whole: {reason}" for reason in self.failures]
        return "\n".join(lines)


_current = Report()


def take_report(reset: bool = False) -> Report:
    """The counts of this process; with `reset`, counting begins anew."""
    global _current
    found = _current
    if reset:
        _current = Report()
    return found

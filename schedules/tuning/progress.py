"""What a tuner shows while it works: what it is at, how many candidates it has seen, and the best so far."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.status import Status


class Progress:
    """A line in the terminal that is rewritten; nothing where there is no terminal, or it is not wanted."""

    def __init__(self, wanted: bool | None, program: str, budget: float) -> None:
        console = Console(stderr=True)
        shown = console.is_terminal if wanted is None else wanted
        self.status = Status(f"tuning {escape(program)}", console=console) if shown else None
        self.program, self.budget, self.start = program, budget, time.monotonic()
        self.measured, self.failed, self.best = 0, 0, ""

    def __enter__(self) -> Progress:
        if self.status is not None:
            self.status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status is not None:
            self.status.stop()

    def show(self, doing: str) -> None:
        """Say what is being done, and what is known."""
        if self.status is None:
            return
        spent = time.monotonic() - self.start
        failed = f", {self.failed} failed" if self.failed else ""
        best = f"; best: {self.best}" if self.best else ""
        said = f"{self.program}: {doing}; {self.measured} candidates{failed}; {spent:.0f} of {self.budget:.0f} s{best}"
        self.status.update(escape(said))

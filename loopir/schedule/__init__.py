"""Scheduling: `Schedule`, `@primitive`, and the primitives, one file each in `primitives/`."""

from loopir.schedule import primitives as primitives
from loopir.schedule.schedule import (
    Program as Program,
    Schedule as Schedule,
    primitive as primitive,
)

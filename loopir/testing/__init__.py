"""For tests of transformations and backends: random programs and schedules, and what a result is held against.

    from loopir.testing import check

    check(my_primitive)      # 200 random programs, every oracle; raises with the smallest program that it breaks
    check_instruction(mine)  # the spelling of an instruction on this CPU, against the nest that it means

`exprs`, `funcs`, `forms`, `guarded`, `shapes`, `schedules`, `steps`, `arrays_for`, `sizes`, `arguments` are
Hypothesis strategies; `ORACLES` are the oracles by themselves; `memory_report` counts what a GPU's memory would do,
without one. The commands `python -m loopir.testing.fuzz`, `.mutants`, `.legality` and `.acceptance` try all
primitives for as long as they are let, show that all this can fail, and say what is refused and how much of what is
drawn is taken; `.campaign` counts steps and long schedules in parts that add up. docs/testing.md shows each at work.
"""

from loopir.testing.checking import Wrong as Wrong, check as check
from loopir.testing.generate.families import FAMILIES as FAMILIES, documented as documented, forms as forms
from loopir.testing.generate.guarded import guarded as guarded
from loopir.testing.generate.operation_programs import conversions as conversions, operations as operations
from loopir.testing.generate.steps import arguments_of as arguments_of, schedules as schedules, steps as steps
from loopir.testing.generate.strategies import (
    Inputs as Inputs,
    arguments as arguments,
    arrays_for as arrays_for,
    funcs as funcs,
    shapes as shapes,
    sizes as sizes,
)
from loopir.testing.generate.tensors import Expr as Expr, exprs as exprs
from loopir.testing.generate.tiny import tiny as tiny
from loopir.testing.instructions import check_instruction as check_instruction
from loopir.testing.oracles.bank_conflicts import bank_conflicts as bank_conflicts
from loopir.testing.oracles.equivalence import assert_equivalent as assert_equivalent
from loopir.testing.oracles.gpu_memory import MemoryReport as MemoryReport, memory_report as memory_report
from loopir.testing.oracles.oracles import ORACLES as ORACLES, Case as Case
from loopir.testing.oracles.rounding import NoBound as NoBound, error_bounds as error_bounds, gamma as gamma

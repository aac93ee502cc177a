"""Ready-made schedules, written with loopir's public names alone, to use, to read and to change.

Each takes a Schedule and gives one. They look at the structure of the nest, never at names.

They are the package `loopir.schedules`. In a checkout `import schedules` gives the same modules, if it finds these.
"""

import importlib
import sys
from difflib import get_close_matches
from typing import NoReturn

if __name__ == "loopir.schedules":
    from .auto import auto as auto
    from .common.contraction import matmul_gpu as matmul_gpu
    from .common.direct_conv import direct_cpu as direct_cpu, direct_gpu as direct_gpu
    from .common.fusion import epilogue as epilogue, inlined as inlined
    from .common.knobs import Knob as Knob, choosing as choosing
    from .common.scatter import scatter as scatter
    from .common.stencil import time_tiled as time_tiled, time_tiled_gpu as time_tiled_gpu
    from .common.transpose import transpose as transpose
    from .cuda.auto_gpu import gpu as gpu
    from .cuda.cheapest import Candidate as Candidate, observing as observing
    from .cuda.conv import (
        as_matmul as as_matmul,
        conv_mma as conv_mma,
        conv_simt as conv_simt,
        conv_wgmma as conv_wgmma,
    )
    from .cuda.elementwise import elementwise as elementwise
    from .cuda.matmul_mma import matmul_mma as matmul_mma
    from .cuda.matmul_wgmma import matmul_wgmma as matmul_wgmma
    from .cuda.reduction import reduction as reduction
    from .cuda.row_blocks import row_blocks as row_blocks
    from .cuda.scan import scan as scan
    from .cuda.short_folds import short_folds as short_folds
    from .cuda.stencil_rows import neighbours as neighbours
    from .llvm.auto_cpu import cpu as cpu
    from .llvm.matmul_amx import matmul_amx as matmul_amx
    from .llvm.matmul_cpu import matmul_cpu as matmul_cpu
    from .llvm.matmul_vnni import matmul_pairs as matmul_pairs
    from .llvm.nontemporal_stores import streamed as streamed
    from .llvm.row_fusion import rows as rows
    from .llvm.sliding_windows import windows as windows
    from .llvm.split_reduction import folded as folded
    from .plan import Decision as Decision, Group as Group, Plan as Plan
    from .planner import load as load
    from .rules import Rule as Rule, View as View, rule as rule
    from .tiered import TieredKernel as TieredKernel, tiered as tiered
    from .tuning.database import (
        Database as Database,
        add_database as add_database,
        default_database as default_database,
    )
    from .tuning.measured_plan import plan as plan
    from .tuning.residual import residual_report as residual_report
    from .tuning.tune import Tuned as Tuned, tune as tune
else:
    importlib.import_module("loopir.schedules")
    for name, module in list(sys.modules.items()):
        if f"{name}.".startswith("loopir.schedules."):
            sys.modules[name.removeprefix("loopir.")] = module


def __getattr__(name: str) -> NoReturn:
    if name.startswith("_"):
        raise AttributeError(name)
    known = [x for x in globals() if not x.startswith("_")]
    close = [x for x in known if name in x] or get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(close[:3])}?" if close else "schedules.auto(s, target) schedules any program"
    raise AttributeError(f"schedules has no {name!r}; {hint}", name=name, obj=sys.modules[__name__])

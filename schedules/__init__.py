"""Ready-made schedules, written with loopir's public names alone, to use, to read and to change.

Each takes a Schedule and gives one. They look at the structure of the nest, never at names.

They are the package `loopir.schedules`. In a checkout `import schedules` gives the same modules, if it finds these.
"""

import importlib
import sys

if __name__ == "loopir.schedules":
    from .auto import auto as auto
    from .conv import as_matmul as as_matmul, conv_mma as conv_mma, conv_wgmma as conv_wgmma
    from .cpu import cpu as cpu
    from .direct import direct_cpu as direct_cpu, direct_gpu as direct_gpu
    from .elementwise import elementwise as elementwise
    from .folds import folded as folded
    from .fusion import epilogue as epilogue, inlined as inlined
    from .gpu import gpu as gpu
    from .matmul import matmul_gpu as matmul_gpu
    from .matmul_amx import matmul_amx as matmul_amx
    from .matmul_cpu import matmul_cpu as matmul_cpu
    from .matmul_mma import matmul_mma as matmul_mma
    from .matmul_pairs import matmul_pairs as matmul_pairs
    from .matmul_wgmma import matmul_wgmma as matmul_wgmma
    from .neighbours import neighbours as neighbours
    from .plan import Decision as Decision, Group as Group, Plan as Plan
    from .planner import load as load, plan as plan
    from .reduction import reduction as reduction, reduction_cpu as reduction_cpu
    from .row_blocks import row_blocks as row_blocks
    from .rows import rows as rows
    from .rules import Rule as Rule, View as View, rule as rule
    from .scan import scan as scan
    from .scatter import scatter as scatter
    from .short_folds import short_folds as short_folds
    from .stencil import time_tiled as time_tiled, time_tiled_gpu as time_tiled_gpu
    from .streams import streamed as streamed
    from .transpose import transpose as transpose
    from .windows import windows as windows
else:
    importlib.import_module("loopir.schedules")
    for name, module in list(sys.modules.items()):
        if f"{name}.".startswith("loopir.schedules."):
            sys.modules[name.removeprefix("loopir.")] = module

"""Ready-made schedules, written with loopir's public names alone, to use, to read and to change.

Each takes a Schedule and gives one. They look at the structure of the nest, never at names.
"""

from schedules.auto import auto as auto
from schedules.conv import as_matmul as as_matmul, conv_mma as conv_mma, conv_wgmma as conv_wgmma
from schedules.cpu import cpu as cpu
from schedules.direct import direct_cpu as direct_cpu, direct_gpu as direct_gpu
from schedules.elementwise import elementwise as elementwise
from schedules.folds import folded as folded
from schedules.fusion import epilogue as epilogue, inlined as inlined
from schedules.gpu import gpu as gpu
from schedules.matmul import matmul_gpu as matmul_gpu
from schedules.matmul_amx import matmul_amx as matmul_amx
from schedules.matmul_cpu import matmul_cpu as matmul_cpu
from schedules.matmul_mma import matmul_mma as matmul_mma
from schedules.matmul_pairs import matmul_pairs as matmul_pairs
from schedules.matmul_wgmma import matmul_wgmma as matmul_wgmma
from schedules.neighbours import neighbours as neighbours
from schedules.reduction import reduction as reduction, reduction_cpu as reduction_cpu
from schedules.row_blocks import row_blocks as row_blocks
from schedules.rows import rows as rows
from schedules.scan import scan as scan
from schedules.scatter import scatter as scatter
from schedules.short_folds import short_folds as short_folds
from schedules.stencil import time_tiled as time_tiled, time_tiled_gpu as time_tiled_gpu
from schedules.streams import streamed as streamed
from schedules.transpose import transpose as transpose
from schedules.windows import windows as windows

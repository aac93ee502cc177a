"""The operations on values, one record each, by family. Importing this package registers all of them."""

from loopir.intrinsics.nvidia import (
    cp_async as cp_async,
    dp4a as dp4a,
    mma as mma,
    mma_bytes as mma_bytes,
    mma_tf32 as mma_tf32,
    packed_x2 as packed_x2,
    stmatrix as stmatrix,
    tma as tma,
    warp_shuffle as warp_shuffle,
    wgmma as wgmma,
)
from loopir.intrinsics.ops import (
    arith as arith,
    compare as compare,
    division as division,
    gates as gates,
    math as math,
    monoids as monoids,
    rounding as rounding,
)
from loopir.intrinsics.x86 import (
    amx as amx,
    dot as dot,
    interleave as interleave,
    stream_store as stream_store,
)

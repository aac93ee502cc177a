"""The operations on values, one record each, by family. Importing this package registers all of them."""

from loopir.intrinsics import (
    amx as amx,
    arith as arith,
    compare as compare,
    copies as copies,
    division as division,
    dot as dot,
    gates as gates,
    math as math,
    mma as mma,
    mma_tf32 as mma_tf32,
    monoids as monoids,
    pairs as pairs,
    rounding as rounding,
    stmatrix as stmatrix,
    stream as stream,
    tma as tma,
    warp as warp,
    weave as weave,
    wgmma as wgmma,
)

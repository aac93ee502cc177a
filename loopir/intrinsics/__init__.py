"""The operations on values, one record each, by family. Importing this package registers all of them."""

from loopir.intrinsics import (
    arith as arith,
    compare as compare,
    copies as copies,
    dot as dot,
    math as math,
    mma as mma,
    monoids as monoids,
    tma as tma,
    warp as warp,
    wgmma as wgmma,
)

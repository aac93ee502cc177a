"""For tests of transformations and backends: random programs that run, and programs that say everything once."""

from loopir.testing.programs import conversions as conversions, operations as operations
from loopir.testing.strategies import arguments as arguments, funcs as funcs, sizes as sizes

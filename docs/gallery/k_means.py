"""One step of k-means: each point's nearest centre, and the sums and numbers of the points of each centre."""

import numpy as np

import loopir as lp

n = lp.symbol("n")
points = lp.placeholder((n, 16), "float32", name="points")
centres = lp.placeholder((32, 16), "float32", name="centres")
far = lp.sum(centres * centres, axis=1) - 2.0 * (points @ lp.transpose(centres))
nearest = lp.argmin(far, axis=1)
mine = lp.one_hot(nearest, 32).astype("float32")
program = [nearest, lp.transpose(mine) @ points, lp.sum(mine, axis=0)]


def inputs(n, rng):
    return rng.standard_normal((n, 16), dtype=np.float32), rng.standard_normal((32, 16), dtype=np.float32)


def expected(points, centres):
    nearest = ((centres * centres).sum(1) - 2 * points @ centres.T).argmin(1)
    mine = np.eye(32, dtype=points.dtype)[nearest]
    return nearest, mine.T @ points, mine.sum(0)

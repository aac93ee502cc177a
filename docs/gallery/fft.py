"""Fourier transforms of rows of n = 2 ** k complex numbers, as two arrays, in k stages of butterflies (Stockham)."""

import numpy as np

import loopir as lp


def program(n):
    rows = lp.symbol("rows")
    re, im = (lp.placeholder((rows, n), "float32", name=x) for x in ("re", "im"))
    wr, wi = (lp.placeholder((n // 2,), "float32", name=x) for x in ("wr", "wi"))
    x = [lp.reshape(part, (rows, 2, n // 2, 1)) for part in (re, im)]
    stage = 1
    while stage < n:
        half = n // 2 // stage
        c, s = (lp.reshape(w, (half, stage))[:, 0] if stage > 1 else w for w in (wr, wi))
        c, s = (lp.reshape(w, (1, half, 1)) for w in (c, s))
        (ar, br), (ai, bi) = ((p[:, 0], p[:, 1]) for p in x)
        dr, di = ar - br, ai - bi
        even, odd = (ar + br, ai + bi), (dr * c - di * s, dr * s + di * c)
        merged = [lp.stack((e, o), axis=2) for e, o in zip(even, odd, strict=True)]
        stage *= 2
        x = [lp.reshape(m, (rows, 2, n // 2 // stage, stage) if stage < n else (rows, n)) for m in merged]
    return x


def inputs(n, rng):
    turn = np.exp(-2j * np.pi * np.arange(n // 2) / n).astype(np.complex64)
    return *rng.standard_normal((2, 256, n), dtype=np.float32), turn.real.copy(), turn.imag.copy()


def expected(re, im, *_):
    y = np.fft.fft(re + 1j * im)
    return y.real, y.imag

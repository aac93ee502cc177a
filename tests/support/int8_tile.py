"""A tile of a product of int8 matrices, in fragments: what one warp folds, to be done by an instruction."""

TILE = """
def f(A: "int8[16, 64]", B: "int8[8, 64]", C: "out int32[16, 8]"):
    for w in bind("warp.x", 1):
        with alloc("int32[16, 8]", scope="fragment") as acc:
            for ko in range(2):
                with alloc("int8[16, 32]", scope="fragment") as a, alloc("int8[8, 32]", scope="fragment") as b:
                    for i in range(16):
                        for k in range(32):
                            a[i, k] = A[i, ko * 32 + k]
                    for j in range(8):
                        for l in range(32):
                            b[j, l] = B[j, ko * 32 + l]
                    for m in range(16):
                        for n in range(8):
                            for kk in range(32):
                                acc[m, n] = sum(int32(a[m, kk]) * int32(b[n, kk]), over=(ko, kk), init=0)
            for x in range(16):
                for y in range(8):
                    C[x, y] = acc[x, y]
"""

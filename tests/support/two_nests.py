"""A product and what is made of it, as text: two nests of a name each."""

TWO = """\
def two(n: "size", A: "float32[n, 8]", D: "out float32[n, 8]"):
    with alloc("float32[n, 8]") as C:
        for i in range(n):
            for j in range(8):
                for k in range(8):
                    C[i, j] = sum(A[i, k] * A[j, k], over=k, init=0.0)
        for i_1 in range(n):
            for j_1 in range(8):
                D[i_1, j_1] = maximum(C[i_1, j_1], 0.0)
"""

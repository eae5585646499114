"""Matrix products (GEMM) and linear algebra.

Operands of products are views: a transpose is one, and takes no copy of its own.

    numpy_products.py  products by NumPy's matmul: of eager calls, and small ones
    gemm_plan.py       `plan_gemm`: block sizes, and how operands are read
    gemm_packing.py    operands as strips and panels, in the order in which micro-kernels read them
    gemm.py            `prepare_gemm`: products of matrices or stacks, with bias and ReLU
    gemm_small.py      small or thin products, for which packing takes longer than multiplying
    dot_products.py    C += A B' by dot products of rows
    gemm_small_m.py    products of few rows by dot products, which pack nothing
    bias_gradient.py   sums of the rows of a matrix
    dot.py             `dot`, `batch_dot`, `linalg_gemm`, `linalg_gemm2`; products of eager calls
    linalg.py          factorisations and determinants, by `numpy.linalg`
    triangular.py      diagonals and triangles as vectors, and back

Begin with `gemm.py`.  Imports `base`, `ops.jit`, `ops.op`, `ops.param`, `ops.shape` and `ops.simd`.
"""

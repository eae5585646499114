"""GPU twins of the operators of `ops/linalg`, in files of the same names.

Every product of matrices is a GEMM of `lib.gemm`, through `matmul` of `dot.py`.

    dot.py         batched products of strided views: `matmul`, which other twins call
    linalg.py      factorisations, determinants and their gradients
    triangular.py  diagonals and triangles as vectors, and back: a thread per element

Begin with `dot.py`.  Imports `base`, `ops.cuda.elementwise`, `ops.cuda.lib`, `ops.cuda.runtime`,
`ops.dispatch`, `ops.elementwise`, `ops.linalg` and `ops.op`.
"""

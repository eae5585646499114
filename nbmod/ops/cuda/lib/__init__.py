"""Device functions and kernels that several operators share.

Nothing here is a twin: these files declare no implementation of an op.

    kernel_math.py        functions of the formula language and conversions, for one thread
    fill.py               arrays filled with a constant
    strided_copy.py       copies and fills of slices and of transposed, reversed or broadcast views
    block_reduce.py       a block of threads for each sum, maximum or other reduction
    merge_sort.py         stable merge sort of rows
    epilogue.py           bias, addend and clip, applied to sums while they are in registers
    gemm_tiles.py         tiles of operands on the way from global to shared memory
    gemm_tensor_cores.py  GEMM by tensor cores, of factors in TF32, bfloat16 or float16
    gemm.py               GEMM, also of matrices that exist only as index functions
    factorize.py          Cholesky, Gauss-Jordan inverse, Householder LQ, triangular solves
    jacobi.py             eigenvectors of symmetric matrices, a block of threads per matrix

Begin with `block_reduce.py`.  Imports `core`, `ops.cuda.runtime`, `ops.dispatch`, `ops.elementwise`
and `ops.op`.
"""

"""Elementwise operators, and the formula language in which they are written.

A formula is a definition: NumPy evaluates it, and kernels for CPUs and GPUs are generated from it.

    special.py             functions that NumPy lacks: erf, erfinv, gamma, gammaln, digamma
    formula.py             the language: parsing, and evaluation with NumPy
    formula_graph.py       formulas as nodes, for gradients of gradients
    program.py             `Program`: formulas that run in order over the elements of arrays
    kernel_math.py         functions of one element that generated kernels call
    codegen.py             the Python source of a kernel, for arrays of given types and shapes
    kernel_cache.py        `prepare`: kernels, generated, cached on disk and bound to arrays
    formula_op.py          `FormulaOp`: ops whose rules all follow from their formulas
    unary_binary.py        ops of one tensor, and of two of equal shape: two tables
    broadcast.py           ops of two tensors that broadcast
    scalar.py              ops of a tensor and a scalar
    cast.py                `Cast`, and the casts that mixed precision inserts
    float16.py             float16 as a storage type: computations convert it to float32 and back
    float_op.py            `FloatOp`: base of ops over floating-point tensors
    arithmetic.py          ops with parameters or operands of their own: clip, where, add_n
    identity.py            identities that differ in their gradient; constants like a tensor
    allclose.py            whether two tensors are equal but for rounding
    fused_elements.py      `FusedElements`: elementwise nodes that run as one
    reduction_programs.py  reductions as programs, which fuse with the nodes before them

Begin with `formula.py`.  Imports `base`, `core`, `graph` and `ops`.
"""

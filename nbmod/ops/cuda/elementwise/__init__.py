"""GPU twins of the operators of `ops/elementwise`, in files of the same names.

Most ops are formulas, which one generator compiles; the files after `formula_op.py` have kernels of
their own, or select a program.

    codegen.py         GPU kernels generated from elementwise programs
    formula_op.py      ops that are formulas, and `run_program`, which other twins call
    arithmetic.py      add_n, and where, whose condition may select whole rows
    cast.py            conversions of several tensors; Cast itself is a formula
    identity.py        constants in the shape of a tensor
    fused_elements.py  fused nodes: their program is a kernel like that of any formula
    allclose.py        counts elements that differ by more than the tolerance
    group_stats.py     shared by normalization layers: moments and sums of groups of elements

Begin with `codegen.py`.  Imports `ops.cuda.lib`, `ops.cuda.runtime`, `ops.dispatch`,
`ops.elementwise`, `ops.nn`, `ops.op` and `ops.shape`.
"""

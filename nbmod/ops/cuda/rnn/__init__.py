"""GPU twins of the operators of `ops/rnn`, in files of the same names.

The layout of weights and workspace is that of the CPU (`ops.rnn.rnn_weights`, `ops.rnn.rnn_plan`).

    rnn_cells.py  one step of all gates: a thread per unit and sample
    rnn.py        one GEMM for the inputs of all steps; then a GEMM and a kernel for each step

Begin with `rnn_cells.py`.  Imports `ops.cuda.elementwise`, `ops.cuda.lib`, `ops.cuda.linalg`,
`ops.cuda.runtime`, `ops.dispatch`, `ops.nn`, `ops.op` and `ops.rnn`.
"""

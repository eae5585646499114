"""GPU twins of the operators of `ops/optimizer`, in files of the same names.

The formulas are those of the CPU: programs of `ops.optimizer`, compiled for the GPU.

    sgd_update.py           every update that is a program, one launch for each weight
    adaptive_update.py      GroupAdaGrad, whose rate varies by row
    lamb_update.py          the stages of LAMB in order
    multi_tensor.py         sums of squares, tests for infinities and NaN, zeroing of many tensors
    multi_tensor_apply.py   one launch for the updates of many weights
    multi_weight_update.py  ops over many weights: a launch for those of equal types

Begin with `sgd_update.py`.  Imports `ops.cuda.elementwise`, `ops.cuda.lib`, `ops.cuda.runtime`,
`ops.dispatch`, `ops.elementwise`, `ops.op` and `ops.optimizer`.
"""

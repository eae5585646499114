"""Update steps of optimizers as operators.

An update is its formulas: one program is the NumPy reference, the CPU kernel and the GPU kernel.
Updates change states in place, and write the weight to the output.

    sgd_update.py           `Update`, the base; SGD, momentum, NAG, signSGD, Signum
    adaptive_update.py      Adam, AdamW, FTML, Ftrl, RMSProp, AdaGrad: a rate for each coordinate
    multi_tensor.py         sums of squares, tests for infinities, LARS rates, over lists of tensors
    lamb_update.py          LAMB: Adam's step, scaled by a trust ratio for each weight
    multi_weight_update.py  one op for the updates of many weights
    multi_tensor_apply.py   one kernel call for the updates of many weights
    row_update.py           lazy updates of some rows of a weight and its states

Begin with `sgd_update.py`.  Imports `base`, `ops.device`, `ops.elementwise`, `ops.jit`, `ops.op`,
`ops.param` and `ops.shape`.
"""

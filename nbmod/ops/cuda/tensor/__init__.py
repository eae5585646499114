"""GPU twins of the operators of `ops/tensor`, in files of the same names.

No kernel here uses atomic operations: where several elements have one place, their indices are
sorted first.

    creation.py    constants are filled on the device, others are computed on the host
    reduce.py      reductions along axes, and broadcasting, the gradient of a sum
    slicing.py     slices, splits, concatenations and stacks: copies of rectangular regions
    rearrange.py   transpositions, Tile, Repeat, Pad, Diag
    indexing.py    gather and scatter by index, their gradients, one-hot encoding
    rows.py        IndexCopy, BooleanMask, IndexArray, KhatriRao
    ordering.py    sort, argsort and topk: rows of keys are sorted, each output gathers by rank
    cumulative.py  prefix sums: a block scans each row
    histogram.py   bin indices are sorted; the count of a bin is the length of its run
    manipulate.py  sizes of tensors as tensors

Begin with `reduce.py`.  Imports `ops.cuda.elementwise`, `ops.cuda.lib`, `ops.cuda.runtime`,
`ops.dispatch`, `ops.elementwise`, `ops.op`, `ops.regions`, `ops.rules` and `ops.tensor`.
"""

"""Operators on shapes, order, indices and reductions of tensors.

Ops that only name or move elements keep every bit of them.

    creation.py        zeros, ones, ranges, identity matrices: ops without inputs
    manipulate.py      reshapes: views, in which no element moves
    slicing.py         slices, splits, concatenations, stacks
    strided_copy.py    parallel copies of slices and transposed views, at memory bandwidth
    rearrange.py       transpositions, flips, tiles, padding, diagonals
    reduce.py          sums, means, products, extrema, norms over axes
    repetition.py      `broadcast_*`: repetition along axes of size 1
    cumulative.py      `cumsum`
    gather_scatter.py  kernels: rows and elements at indices, and their gradients
    indexing.py        `take`, `Embedding`, `pick`, `gather_nd`, `one_hot` and the like
    rows.py            `index_copy`, `boolean_mask`, `index_array`, `khatri_rao`
    ordering.py        `topk`, `sort`, `argsort`
    histogram.py       `_histogram`

Begin with `reduce.py`.  Imports `base`, `core`, `graph`, `ops.elementwise`, `ops.jit`, `ops.op`,
`ops.param`, `ops.regions`, `ops.rules`, `ops.shape` and `ops.simd`.
"""

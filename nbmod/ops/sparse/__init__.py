"""Sparse storage: arrays of which only some elements or rows are stored.

Sums are in the order in which elements are stored, for any number of threads.  An op without a
sparse form computes on dense arrays.

    row_numbers.py    distinct row indices, and positions among them, by a bit vector with rank
    formats.py        `CSR` and `RowSparse`, the values, and conversions from and to dense arrays
    storage_types.py  the storage type of every op's result, for every combination of inputs
    products.py       products of CSR matrices; sums of rows that belong to one index
    reductions.py     `sum`, `mean`, `norm` and `_square_sum` of stored elements
    forms.py          `compute`: how ops compute with sparse values
    row_gradients.py  gradients of sparse arrays, without dense copies of these
    fallback.py       the warning, once for each op, that it computes on dense arrays
    storage_casts.py  the ops `cast_storage`, `sparse_retain` and `getnnz`
    dense_region.py   `DenseRegion`: a dense part of a network with sparse arrays, as one node

Begin with `formats.py`.  Imports `base`, `core`, `graph` and `ops`.
"""

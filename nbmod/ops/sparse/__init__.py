"""Sparse storage: arrays of which only some elements or rows are stored.

    formats        `CSR` and `RowSparse`, the values, and conversions from and to dense arrays
    storage_types  the storage type of every op's result, for every combination of inputs
    forms          how ops compute with sparse values
"""

"""Operators of MXNet's contrib that belong to no other subject.

Each file has ops with their rules, kernels and gradients; no two files have anything in common.

    spectrum.py  `fft`, `ifft` and `count_sketch`, as in compact bilinear pooling
    hawkes.py    `hawkesll`: the log likelihood of a self-exciting point process

Begin with `spectrum.py`.  Imports `base`, `ops.elementwise`, `ops.jit`, `ops.op`, `ops.rules` and
`ops.shape`.
"""

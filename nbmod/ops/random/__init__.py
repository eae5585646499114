"""Random sampling and probability densities.

Every op that samples takes a stream of `rng.py`, so a seed gives the same values for any number of
threads and on every device.

    rng.py             the generator: a key, and a counter of draws
    sampling.py        `_random_X`, `_random_X_like`, `_sample_X`: one table of distributions
    draw_functions.py  the functions of `nd.random` and `sym.random`: one table for both
    choice.py          categories, permutations, distinct ids
    pdf.py             `random_pdf_*`: probability densities of samples, and their gradients

Begin with `rng.py`.  Imports `base`, `core`, `ops.elementwise`, `ops.jit`, `ops.op`, `ops.param`
and `ops.shape`.
"""

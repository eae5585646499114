"""8-bit integers that represent real numbers, and layers on them.

An integer tensor comes with the bounds of the real numbers that it represents, or with their scale.
Sums of products are exact.

    ranges.py                 ranges, steps and rounding: which real number an integer represents
    quantize.py               `quantize`, `quantize_v2`, `dequantize`, `requantize`
    calibrate_entropy.py      the range that loses least information about a histogram
    integer_sums.py           exact products and convolutions of 8-bit integers
    quantized_layers.py       convolution, dense layers, pooling, activation, flatten
    quantized_elementwise.py  concat, addition, product, BatchNorm, Embedding
    intgemm.py                `intgemm_*`: dense layers on int8 matrices with one scale each

Begin with `ranges.py`.  Imports `base`, `ops.jit`, `ops.nn`, `ops.op`, `ops.param`, `ops.shape` and
`ops.tensor`.
"""

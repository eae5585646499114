"""Converters of operators to ONNX, in files named as those of the operators.

A converter adds nodes that compute the operator, and returns their values, or refuses the node.

    activation.py        activations, softmax, and layers that predictions leave as they are
    linalg.py            products of matrices, dense layers, and attention
    convolution.py       Convolution, Deconvolution, pooling, deformable convolution
    normalization.py     normalization over batches, layers, groups and instances
    formula.py           all elementwise operators, from the formulas that define them
    reduce.py            sums, products, extremes, norms, moments, cumulative sums
    manipulate.py        reshapes, transpositions, repetitions, padding
    slicing.py           slices, splits, crops
    indexing.py          gathering and scattering, with MXNet's rules for indices out of range
    ordering.py          sorting, the k largest, positions of extremes
    creation.py          constants, and tensors that depend on shapes only
    sampling.py          random numbers of the same distribution
    control.py           foreach as Scan, while_loop as Loop, cond as If
    rnn.py               RNN as layers of ONNX, and operators on sequences
    resize.py            images of other sizes, and sampling at the positions of a grid
    preprocess.py        preprocessing of images as part of a model
    detection.py         boxes: decoding, overlaps, suppression, proposals, pooling of regions
    quantization.py      8-bit layers between DequantizeLinear and QuantizeLinear nodes
    quantized_layers.py  8-bit layers with exact sums, ConvInteger and MatMulInteger

Begin with `activation.py`.  Imports `base`, `context`, `graph`, `ndarray.eager`, `onnx.exporting`
and `ops`.
"""

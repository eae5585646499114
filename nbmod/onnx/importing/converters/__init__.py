"""Converters of the operators of ONNX, by family.

A converter adds nodes to nbmod's graph and returns their tensors, or refuses the node.

    elementwise.py     functions of elements, comparisons and logic
    activation.py      activation functions and softmax
    matrix.py          Gemm, MatMul, Einsum, Det
    convolution.py     convolution and pooling
    normalization.py   normalization over batches, layers, groups and instances
    reduction.py       sums, means, extremes and norms along axes
    manipulation.py    reshapes, transpositions, slices, joins, padding
    gather_scatter.py  gathering, scattering and sorting
    resampling.py      images of other sizes, and images sampled at points
    recurrent.py       RNN, LSTM and GRU, by the operator RNN or step by step
    loops.py           If, Loop and Scan as cond, while_loop and foreach
    quantized.py       quantized tensors, computed in float32

Begin with `elementwise.py`.  Imports `graph`, `onnx.importing`, `ops`, `symbol.control_flow` and
`symbol.symbol`.
"""

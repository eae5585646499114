"""GPU twins of the operators of `ops/nn`, in files of the same names.

No gradient needs atomic additions: a pixel or sum gathers its terms, so results do not depend on
the order in which threads run.

    fully_connected.py   a GEMM for each direction; the gradient of the bias is a column sum
    sliding_window.py    `ConvSpec`; offsets of elements in any layout, pixels that a window covers
    convolution.py       implicit GEMM: the im2col matrix is indexed, never stored
    depthwise.py         convolution of single channels, whose product has no rows to tile
    deconvolution.py     transposed convolution: the data gradient of a convolution
    im2col.py            im2col and col2im: a thread per element, or per pixel
    fused_epilogue.py    layers whose kernel also adds, and applies ReLU or clip
    pooling.py           a thread per window forward, per pixel backward
    adaptive_pooling.py  AdaptiveAvgPooling2D, likewise
    batch_norm.py        moments of channels, then one pass; backward, two sums and one pass
    batch_norm_relu.py   BatchNorm and relu in one op
    layer_norm.py        LayerNorm, GroupNorm, InstanceNorm: moments of rows
    lrn_l2.py            L2Normalization as programs; LRN, a thread per element
    activation.py        LeakyReLU of constant, learned or random slope; Activation is a formula
    dropout.py           exactly the mask of the CPU, from the same Philox stream
    softmax.py           softmax and its variants along one axis (outer, size, inner)
    loss.py              SoftmaxOutput, the regressions, MakeLoss
    ctc.py               CTCLoss: a block per sample, a thread per position of the extended labels
    attention.py         interleaved projections: batched products of strided views
    sequence.py          SequenceMask, SequenceLast, SequenceReverse

Begin with `fully_connected.py`.  Imports `ops.cuda.elementwise`, `ops.cuda.lib`, `ops.cuda.linalg`,
`ops.cuda.random`, `ops.cuda.runtime`, `ops.cuda.tensor`, `ops.dispatch`, `ops.elementwise`,
`ops.nn`, `ops.op`, `ops.random` and `ops.shape`.
"""

"""Layers of neural networks, and the algorithms of those that have several.

A file has ops with their rules, or an algorithm or kernels for these (`conv_*.py`, `pointwise.py`,
`pooling_*.py`), and registers nothing then: `blocked/conv_algorithms.py` declares the algorithms of
convolution.

    fully_connected.py       `FullyConnected`: forward and both gradients are matrix products
    sliding_window.py        `Geometry`: windows of convolution, deconvolution and pooling
    spatial.py               `SpatialOp`: channels-last images are computed on channels-first copies
    convolution.py           `Convolution`: rules, and the choice of an algorithm for each direction
    pointwise.py             1 x 1 convolution as a batched GEMM
    conv_gemm.py             implicit im2col and GEMM
    conv_im2col.py           explicit im2col and GEMM, for few, large windows
    window_planes.py         padded planes, split by the remainders of strides
    conv_shifted_kernels.py  weighted sums of shifted planes, and dot products of shifted runs
    conv_shifted.py          direct convolution by these kernels
    conv_interleaved.py      direct convolution of small images: vector lanes are images
    conv_squeezed.py         convolution with fewer axes, where axes can be merged
    conv_lowered.py          im2col of whole planes along the first axis
    conv_exchanged.py        weight gradient with the roles of data and gradient exchanged
    deconvolution.py         `Deconvolution`: the data gradient of a convolution
    im2col.py                `im2col` and `col2im`: windows as columns of a matrix
    batch_tiles.py           `BatchTiles`: a chain of ops on a few images of the batch at a time
    channel_blocks.py        blocks of channels, for ops that sample all channels of a pixel alike
    fused_epilogue.py        `FusedLayer`: a layer with the additions and clips after it
    pooling_reductions.py    maxima and sums of STEP contiguous windows
    pooling_kernels.py       reductions of windows over planes, vectorized along positions
    pooling_interleaved.py   pooling of many small planes: vector lanes are planes
    pooling.py               `Pooling` and `Pooling_v1`
    adaptive_pooling.py      `AdaptiveAvgPooling2D`: means over a grid of windows
    batch_norm.py            `BatchNorm` and `SyncBatchNorm`: statistics of channels over the batch
    batch_norm_relu.py       `BatchNormWithReLU`, of files that MXNet fused for oneDNN
    layer_norm.py            `LayerNorm`, `GroupNorm`, `InstanceNorm`: statistics per sample
    lrn_l2.py                `LRN` over adjacent channels, and `L2Normalization`
    activation.py            `Activation` and `LeakyReLU`: functions that a parameter selects
    dropout.py               `Dropout`: inverted, so that inference is the identity
    softmax_kernels.py       softmax along one axis, contiguous or strided
    softmax.py               `softmax`, `log_softmax`, `softmin`, `SoftmaxActivation`, cross entropy
    loss.py                  layers whose backward pass is the gradient of a loss
    ctc.py                   `CTCLoss`: labels that are not aligned with the steps
    attention.py             multi-head attention over interleaved projections
    sequence.py              `SequenceMask`, `SequenceLast`, `SequenceReverse`

Begin with `fully_connected.py`.  Imports `base`, `core`, `graph`, `ops.device`, `ops.dispatch`,
`ops.elementwise`, `ops.jit`, `ops.linalg`, `ops.op`, `ops.param`, `ops.random`, `ops.rules`,
`ops.shape` and `ops.simd`.
"""

"""Operators on images in a channel-blocked layout (oneDNN's nChw16c), inserted by the layout pass.

Users never create these operators and no file contains them: `passes.optimize.blocked_layout`
replaces operators on (N, C, H, W), with reorders where the two layouts meet.

A *task* is the tables of one convolution (`address_tables`), which `conv_driver` runs.  Of a
`StripTask`, the output is

                     group 0                       group 1 (last)
                chunk 0       chunk 1         chunk 0       chunk 1
             +-------------+-------------+ +-------------+-------------+
    span 0   | strip strip | strip strip | | strip strip | strip       |   2 vectors of channels
             +-------------+-------------+ +-------------+-------------+
    span 1   | strip strip | strip strip | | strip strip | strip       |   2 vectors of channels
             +-------------+-------------+ +-------------+-------------+
    span 2   | strip strip | strip strip | | strip strip | strip       |   an odd vector
             +-------------+-------------+ +-------------+-------------+
             '--- part 0 ---- part 1 ----' '--- part 0 ---- part 1 ----'

    strip   PIXELS pixels by the vectors of a span: a call of the micro-kernel, sums in registers
    span    one or two vectors of output channels (data gradient: for a class of pixels)
    group   images whose pixels are numbered together, so that strips of small images are full
    chunk   strips whose pixels stay in the L2 cache while the filters of some spans pass
    part    chunks of a group: with some spans they are a job, which one thread takes

An `OuterTask`, the weight gradient, sums over the pixels of these groups, chunk by chunk.  A strip
of it is a tile: ROWS rows of the gradient by the vectors of a span.

                tile 0   tile 1  |  tile 2   tile 3
             +-------------------+-------------------+
    span 0   |                   |                   |   a job: a part of the spans with
    span 1   |  part 0, part 0   |  part 0, part 1   |   a part of the tiles; all of it reads
             +-------------------+-------------------+   a chunk of pixels, then the next
    span 2   |  part 1, part 0   |  part 1, part 1   |
             +-------------------+-------------------+

    layout.py                `BlockedLayout`: nChw16c with a halo, and its invariants
    reorder.py               kernels between (N, C, H, W) and the blocked layout
    address_tables.py        `StripTask`, `OuterTask`, `PackPlan`: convolutions as tables of offsets
    conv_driver.py           kernels that run these tables: strips, tiles, packing
    blocked_convolution.py   `Kernels`: all three directions of one convolution
    blocked_depthwise.py     depthwise convolution: a vector of filters for each block and tap
    winograd.py              3 x 3 filters by Winograd's algorithm: forward and data gradient
    winograd_weight_grad.py  the weight gradient by the adjoint of these transforms
    winograd_convolution.py  both as `Kernels` of one convolution
    ops.py                   the operators: reorders, convolution, concatenation, packed filters
    blocked_batch_norm.py    BatchNorm with a fused addition and activation
    blocked_pooling.py       pooling: for every window, all lanes of a block at once
    depthwise_chain.py       inverted residuals (MobileNetV2), fused in bands of rows
    int8.py                  int8 convolutions and dense layers, and the operators around them
    direct.py                a planar convolution: reorder, compute in the blocked layout, reorder
    autotune.py              run times of algorithms, measured once and cached on disk
    choose_algorithm.py      the algorithm of each convolution, by a cost model or by measurement
    conv_algorithms.py       rows "numba" of the table of implementations for planar convolutions

Every tensor here has the two invariants of `layout.py`: its halo and its padding channels are zero,
or the byte that represents zero (`int8.py`).

Begin with `layout.py`.  Imports `core`, `ops.device`, `ops.dispatch`, `ops.jit`, `ops.linalg`,
`ops.nn`, `ops.op`, `ops.param`, `ops.quantization`, `ops.regions`, `ops.shape`, `ops.simd` and
`ops.tensor`.
"""

"""Micro-kernels written as LLVM IR, which hold their accumulators in vector registers, and bit
operations on memory (`bits`).

Only this package and `ops.build` emit IR for CPUs, and only `host.py` asks for the vector width of
the host.

    host.py                 vector registers and features of the host, or of NBMOD_CPU_LEVEL
    ir.py                   `MicroKernel` and `Vectors`: the builder of micro-kernels
    raw_arrays.py           arrays that are not arguments of the kernel; stack buffers
    bits.py                 unaligned loads, and bit operations that are one instruction
    denormals.py            flush-to-zero mode of the processor
    work_queue.py           work stealing: idle workers take jobs of others
    nontemporal.py          stores that bypass the caches, for large outputs
    transpose.py            a square of lanes x lanes elements, transposed in registers
    halo.py                 zeros around a plane
    pixel_rows.py           copy, add, interleave and deinterleave rows of pixels; prefetch
    vector_math.py          elementary functions of vectors of float32 and float64
    int8_dot.py             dot products of four bytes, and requantization of their sums
    gemm_microkernel.py     GEMM: MR x NR tiles of C
    conv_strip.py           convolution: a strip of pixels by a few vectors of filters
    outer_product.py        weight gradient: rows of taps by vectors of filters
    image_lanes.py          convolution whose lanes are pixels of several images
    depthwise_taps.py       depthwise convolution by tables of taps
    depthwise_rows.py       depthwise convolution of common sizes, row by row, without tables
    winograd_transforms.py  transforms of tiles and filters, and their products
    pooling_window.py       windows of pixels, reduced
    batch_norm_planes.py    batch norm on a plane of blocked pixels
    layer_norm_rows.py      layer norm of rows of any length
    softmax_rows.py         softmax and log softmax of rows of any length, also in place
    roofline.py             FMA throughput and memory bandwidth of the host, measured

Begin with `ir.py`.  Imports `core`, `ops.build` and `ops.jit`.
"""

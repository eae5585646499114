"""The GPU: the only folder that imports `numba.cuda`.  None of it is imported before a `gpu(i)` is
first used.

    launch.py   the door to numba.cuda: kernels, launches, and which op has which twin
    memory.py   arrays in GPU memory
    device.py   `Gpu`, the Device of a `gpu(i)`
    gemm.py, blocks.py, kernel_math.py    what kernels share: products, sums, functions

Every other file holds the GPU kernels of the op file of the same name; it is imported when an op of
that file first meets a GPU, and ends in `on_gpu` lines that enter its twins.

How a step runs: `Gpu.prepare` finds the op's twin, which chooses kernels and sizes and returns
launches, plain values; the device compiles them and returns a function that starts them.
"""

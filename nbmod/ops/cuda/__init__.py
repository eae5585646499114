"""The GPU: the only folder that imports `numba.cuda`.  None of it is imported before a `gpu(i)` is
first used.

    launch.py       kernels, launches, and which op has which twin
    memory.py       arrays in GPU memory
    device.py       `Gpu`, the Device of a `gpu(i)`
    compiler.py     from the Python of a kernel to a cubin, by `narrow`'s rule for integers
    driver.py       every call of NVIDIA's driver
    simulator.py    a GPU in Python, with `strands` for threads
    ptx.py          instructions that numba has no name for
    gemm.py, blocks.py, cells.py, sorting.py, kernel_math.py    what kernels share

Every other file holds the GPU kernels of the op file of the same name; it is imported when an op of
that file first meets a GPU, and ends in `on_gpu` lines that enter its twins.

How a step runs: `Gpu.prepare` finds the op's twin, which chooses kernels and sizes and returns
launches, plain values; the card freezes them, and a step starts what is frozen.
"""

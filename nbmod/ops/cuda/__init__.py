"""The GPU: the only folder that imports `numba.cuda`.  None of it is imported before a `gpu(i)` is
first used.

    device.py             `Gpu`, the Device of a `gpu(i)`
    runtime/launch.py     kernels, launches, and which op has which twin
    runtime/device_memory.py    arrays in GPU memory
    runtime/compiler.py   from the Python of a kernel to a cubin, by `int32_typing`'s rule
    runtime/driver.py     every call of NVIDIA's driver
    runtime/simulator.py  a GPU in Python, with `coroutines` for threads
    runtime/ptx.py        instructions that numba has no name for
    lib/                  device functions and kernels that operators share

Every other file holds the GPU kernels of the op file of the same folder and name; it is imported
when an op of that file first meets a GPU, and ends in `on_gpu` lines that enter its twins.

How a step runs: `Gpu.prepare` finds the op's twin, which chooses kernels and sizes and returns
launches, plain values; the card freezes them, and a step starts what is frozen.
"""

"""The GPU: the only folder that imports `numba.cuda`.  None of it is imported before a `gpu(i)` is
first used.

    device.py             `Gpu`, the Device of a `gpu(i)`
    runtime/launch.py     kernels and launches
    runtime/device_memory.py    arrays in GPU memory
    runtime/compiler.py   kernels to cubins, with the typing rules of `int32_typing`
    runtime/driver.py     every call of NVIDIA's driver
    runtime/simulator.py  a GPU in Python, whose threads are `coroutines`
    runtime/ptx.py        instructions that numba does not expose
    lib/                  device functions and kernels that operators share

Every other file holds the GPU kernels of the op file of the same folder and name; it is imported
when an op of that file first runs on a GPU, and its `implements` calls declare twins.

Execution of a step: `Gpu.prepare` finds the op's twin, which selects kernels and grids and returns
launches, plain values; the device prepares them once, and every run only starts them.
"""

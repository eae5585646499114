"""Driver, compiler, memory and launches of GPUs, and a GPU in Python that runs the same kernels.

A kernel is a Python function that allocates nothing and has 32-bit integers.  It is compiled
without a GPU, and `driver.py` alone calls NVIDIA's driver.

    launch.py               `@kernel`, `@grid_stride`, `Launch`: parts of every GPU implementation
    ptx.py                  instructions that compilers do not expose, as functions for kernels
    ptx_instructions.py     these instructions as text
    ptx_mlir.py             the functions for numba-cuda-mlir
    ptx_numba_cuda.py       the functions for numba-cuda
    device_memory.py        arrays in GPU memory
    int32_typing.py         typing rules for the integers of kernels
    compiler.py             kernels to cubins, without a device; knows which compiler there is
    compiler_mlir.py        the part of it for numba-cuda-mlir
    lowering_mlir.py        what it lowers otherwise than numba-cuda-mlir does
    compiler_numba_cuda.py  the part of it for numba-cuda
    driver.py               every call of NVIDIA's driver: memory, copies, prepared launches
    graph_replay.py         launches that are started one by one, or replayed as a CUDA graph
    coroutines.py           the threads of a simulated block, on greenlets or Python threads
    simulator.py            a GPU in Python: one thread at a time; exposes races

Begin with `launch.py`.  Imports `base`, `core`, `ops.shape` and `ops.simd`.
"""

"""The GPU: the only folder that imports a compiler of kernels.

None of it is imported before a `gpu(i)` is first used.

    device.py      `Gpu`, the Device of a `gpu(i)`
    runtime/       kernels, launches, memory, the compiler, NVIDIA's driver, a simulator of GPUs
    lib/           device functions and kernels that operators share: GEMM, reductions, sorting
    elementwise/   code generator of formulas, and twins of elementwise ops
    internal.py    twins of the ops that passes insert
    custom.py      custom operators: the user's function receives arrays of the device
    tensor/        twins of `ops/tensor`
    linalg/        twins of `ops/linalg`
    random/        twins of `ops/random`, and Philox on a device
    optimizer/     twins of `ops/optimizer`
    nn/            twins of `ops/nn`
    rnn/           twins of `ops/rnn`
    detection/     twins of `ops/detection`
    image/         twins of `ops/image`
    contrib/       twins of `ops/contrib`
    quantization/  twins of `ops/quantization`
    check.py       `python -m nbmod.ops.cuda.check`: compares networks on a GPU with the CPU

Below the folders of twins, a file holds the GPU kernels of the op file of the same folder and name;
it is imported when an op of that file first runs on a GPU, and its `implements` calls declare
twins.

Execution of a step: `Gpu.prepare` finds the op's twin, which selects kernels and grids and returns
launches, plain values; the device prepares them once, and every run only starts them.

Begin with `runtime/launch.py`.  Imports `base`, `context`, `core`, `ops` and `test_utils`.
"""

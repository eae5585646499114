"""GPU twins of the operators of `ops/random`, in files of the same names.

A seed gives the same values on every device.

    rng.py       Philox on a device: the words of `ops.random.rng`, block by block
    sampling.py  the host draws, the device receives
    choice.py    the host draws; rows and gradients are computed on the GPU
    pdf.py       probability densities: a thread per sample

Begin with `rng.py`.  Imports `ops.cuda.elementwise`, `ops.cuda.lib`, `ops.cuda.runtime`,
`ops.cuda.tensor`, `ops.dispatch`, `ops.op`, `ops.random` and `ops.shape`.
"""

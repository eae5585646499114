"""GPU twins of the operators of `ops/contrib`, in files of the same names.

A thread writes results of its own: there are no atomic operations.

    spectrum.py  fft and ifft, a pass for each radix; CountSketch, which gathers columns
    hawkes.py    HawkesLL: a thread per sequence of events

Begin with `spectrum.py`.  Imports `ops.contrib`, `ops.cuda.elementwise`, `ops.cuda.lib`,
`ops.cuda.runtime`, `ops.cuda.tensor`, `ops.dispatch`, `ops.op` and `ops.shape`.
"""

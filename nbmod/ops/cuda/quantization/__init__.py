"""GPU twins of the operators of `ops/quantization`, in files of the same names.

The ends of ranges are in device memory, and every thread computes scales from them: nothing waits
for the host.

    ranges.py                 ranges, scales and rounding as device functions
    quantize.py               quantize, requantize and dequantize: a thread per element
    quantized_layers.py       the kernels of the float layers, with int32 accumulators
    quantized_elementwise.py  concat, arithmetic, BatchNorm and Embedding: a thread per element

Begin with `ranges.py`.  Imports `ops.cuda.elementwise`, `ops.cuda.lib`, `ops.cuda.nn`,
`ops.cuda.runtime`, `ops.cuda.tensor`, `ops.dispatch`, `ops.elementwise`, `ops.nn`, `ops.op`,
`ops.quantization` and `ops.shape`.
"""

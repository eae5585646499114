"""GPU twins of the operators of `ops/image`, in files of the same names.

Threads write elements of their own: a pixel or element of the result, or of the gradient.

    preprocess.py           ToTensor, Normalize, crops, flips, resizing, borders
    color.py                brightness, contrast, saturation, hue, lighting: a thread per pixel
    resize.py               UpSampling and BilinearResize2D
    spatial_transformer.py  GridGenerator, BilinearSampler, SpatialTransformer
    correlation.py          Correlation: a thread per pair of patches

Begin with `preprocess.py`.  Imports `ops.cuda.detection`, `ops.cuda.lib`, `ops.cuda.nn`,
`ops.cuda.runtime`, `ops.dispatch`, `ops.image`, `ops.op`, `ops.param`, `ops.random` and
`ops.shape`.
"""

"""Operators on images: preprocessing, resampling, warping.

`preprocess.py` and `color.py` compute on images (H, W, C), as augmenters do; the ops of the other
files on batches (N, C, H, W), as networks do.

    resample.py             kernels: `resize` as in OpenCV, by a horizontal and a vertical pass
    preprocess.py           `_image_*`: conversion, normalization, crops, flips, resizing; borders
    color.py                `_image_*`: brightness, contrast, saturation, hue, lighting
    resize.py               `UpSampling` and `BilinearResize2D`
    spatial_transformer.py  `GridGenerator`, `BilinearSampler`, `SpatialTransformer`
    correlation.py          `Correlation` of FlowNet: patches of two images at every displacement

Begin with `resample.py`.  Imports `base`, `graph`, `ops.elementwise`, `ops.jit`, `ops.nn`,
`ops.op`, `ops.param`, `ops.random`, `ops.rules` and `ops.shape`.
"""

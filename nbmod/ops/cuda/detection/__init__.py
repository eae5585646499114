"""GPU twins of the operators of `ops/detection`, in files of the same names, and what these share.

No gradient needs atomic additions: a pixel gathers from the bins or windows that read it.

    nms.py               shared: non-maximum suppression of sorted boxes
    boxes.py             NMS, IoU, encoding relative to anchors and decoding, bipartite matching
    multibox.py          SSD: anchors, training targets, detections
    proposal.py          region proposals: a thread per anchor and position, sorting, suppression
    bilinear_points.py   shared: interpolation of planes at fractional points, and its derivatives
    deformable.py        deformable convolution: im2col with learned offsets, then a GEMM
    roi.py               ROIPooling and PSROIPooling, and `RoiSpec`, the geometry of bins
    roi_points.py        shared: sampling points of regions, and weights of their pixels
    roi_align.py         ROIAlign: a thread per bin forward, per pixel backward
    deformable_psroi.py  kernels of DeformablePSROIPooling, which `roi_rotated` registers
    roi_rotated.py       RROIAlign: ROIAlign of rotated regions

Begin with `boxes.py`.  Imports `ops.cuda.elementwise`, `ops.cuda.lib`, `ops.cuda.runtime`,
`ops.cuda.tensor`, `ops.detection`, `ops.dispatch`, `ops.elementwise`, `ops.nn`, `ops.op`,
`ops.shape` and `ops.tensor`.
"""

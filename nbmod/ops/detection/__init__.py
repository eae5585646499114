"""Operators of object detection: boxes, anchors, regions of interest.

Kernels compute on corners (left, top, right, bottom).  A row of `rois` begins with the number of
its image.

    boxes.py        overlap, non-maximum suppression, encoding relative to anchors, matching
    multibox.py     SSD: `MultiBoxPrior`, `MultiBoxTarget`, `MultiBoxDetection`
    proposal.py     `Proposal` and `MultiProposal`, the region proposals of Faster R-CNN
    roi.py          `ROIPooling` and `PSROIPooling`; geometry of regions and bins
    roi_align.py    `ROIAlign`: the mean of interpolated points in every bin
    roi_rotated.py  `RROIAlign` and `DeformablePSROIPooling`: bilinear samples at arbitrary points
    deformable.py   convolution whose taps sample the image at points of their own

Begin with `boxes.py`.  Imports `ops.elementwise`, `ops.jit`, `ops.linalg`, `ops.nn`, `ops.op`,
`ops.param`, `ops.rules`, `ops.shape` and `ops.tensor`.
"""

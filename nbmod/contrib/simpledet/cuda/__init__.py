"""GPU twins of SimpleDet's losses and group normalization, of anchors, boxes and ROIAlign_v2.

Every file has the twins of the file of the same name.  Proposals and their targets have none: they
sort and sample a few thousand boxes.

    layers.py        group normalization: a block of threads for every group
    losses.py        elementwise, but for counts of objects and sums of rows
    proposals.py     anchors and decoded boxes, element by element
    roi_align_v2.py  a thread per bin forward, per pixel of the images backward

Begin with `losses.py`.  Imports `contrib.simpledet`, `ops.cuda.detection`, `ops.cuda.elementwise`,
`ops.cuda.lib`, `ops.cuda.runtime`, `ops.dispatch`, `ops.elementwise` and `ops.op`.
"""

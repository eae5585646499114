"""GPU twins of SimpleDet's losses and group normalization, of anchors, boxes and ROIAlign_v2.

Every file has the twins of the file of the same name.  Proposals and their targets have none: they
sort and sample a few thousand boxes.
"""

"""The operators that SimpleDet's fork of MXNet adds, under the fork's names.

Importing the package registers them; the op table does so itself, when a program or a symbol file
uses one of the names.

    layers.py        GroupNorm (scale and shift per channel), BroadcastScale, Quantization_int8
    losses.py        FocalLoss, SigmoidCrossEntropy, BBoxNorm
    proposals.py     GenAnchor, Proposal_v2, Proposal_v3, GenProposalRetina, DecodeBBox
    targets.py       ProposalTarget, ProposalTarget_v2, ProposalMaskTarget
    roi_align_v2.py  ROIAlign_v2
    numpy_forms.py   implementations "reference" of those that call kernels
    cuda/            GPU twins of losses, layers, anchors, boxes and ROIAlign_v2

Boxes are in pixels: a box from left to right is right - left + 1 wide.  Batches have an axis of
their own: rois are (N, R, 4), with as many regions for each image.

Begin with `layers.py`.  Imports `base`, `graph`, `operator`, `ops.cuda.detection`,
`ops.cuda.elementwise`, `ops.cuda.lib`, `ops.cuda.runtime`, `ops.detection`, `ops.dispatch`,
`ops.elementwise`, `ops.jit`, `ops.numpy_forms`, `ops.op`, `ops.param`, `ops.random`, `ops.rules`
and `ops.shape`.
"""

# They register, or declare.
from . import layers, losses, numpy_forms, proposals, roi_align_v2, targets  # noqa: F401

__all__: list[str] = []

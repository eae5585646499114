"""The operators that SimpleDet's fork of MXNet adds, under the fork's names.

Importing the package registers them; the op table does so itself, when a program or a symbol file
uses one of the names.

    losses        FocalLoss, SigmoidCrossEntropy, BBoxNorm
    layers        GroupNorm (scale and shift per channel), BroadcastScale, Quantization_int8
    proposals     GenAnchor, Proposal_v2, Proposal_v3, GenProposalRetina, DecodeBBox
    targets       ProposalTarget, ProposalTarget_v2, ProposalMaskTarget
    roi_align_v2  ROIAlign_v2
    numpy_forms   implementations "reference" of those that call kernels

Boxes are in pixels: a box from left to right is right - left + 1 wide.  Batches have an axis of
their own: rois are (N, R, 4), with as many regions for each image.
"""

# They register, or declare.
from . import layers, losses, numpy_forms, proposals, roi_align_v2, targets  # noqa: F401

__all__: list[str] = []

"""The NumPy forms of ops: functions that need no compiled kernel.

A run may begin with them while kernels are compiled (`execution.first_answers`).  Most ops have
them already, `forward` and `backward`, which eager calls use.  The others are of these kinds:

    FORMS      their `forward` calls kernels, and a function here computes the same with NumPy
    GRADIENTS  their `backward` calls kernels, and a function here computes the same with NumPy
    COMPILED   their `forward` calls kernels, and there is no such function
    elsewhere  what users and forks register, of whose `forward` nothing is known; optimizers,
               which networks do not contain

The `backward` of all that FORMS and COMPILED list calls kernels, so those that GRADIENTS lacks can
only begin with NumPy in inference, except for those whose gradient is zero.

A form is `form(op, ins, outs, call)`, as `Op.forward` or `Op.backward`; that of a `FloatOp` never
gets float16 arrays.  Its results are those of the kernels but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from ..dispatch import REFERENCE, implements, prepare
from ..op import Call, Op, Run, Spec

__all__ = ["COMPILED", "FORMS", "GRADIENTS", "declare", "has_numpy_form",
           "prepare_numpy_form"]

FORMS = {
    "BatchNorm": "normalization.batch_norm",
    "_contrib_BatchNormWithReLU": "normalization.batch_norm",
    "_contrib_SyncBatchNorm": "normalization.batch_norm",
    "Convolution": "sliding_window.convolution",
    "Convolution_v1": "sliding_window.convolution",
    "Deconvolution": "sliding_window.deconvolution",
    "GroupNorm": "normalization.sample_norm",
    "InstanceNorm": "normalization.sample_norm",
    "L2Normalization": "normalization.l2_normalization",
    "LRN": "normalization.lrn",
    "LayerNorm": "normalization.layer_norm",
    "Pooling": "sliding_window.pooling",
    "RNN": "recurrent.rnn",
    "ROIPooling": "roi.roi_pooling",
    "UpSampling": "sliding_window.upsampling",
    "_contrib_AdaptiveAvgPooling2D": "sliding_window.adaptive_pooling",
    "_contrib_BilinearResize2D": "sliding_window.bilinear_resize",
    "_contrib_DeformablePSROIPooling": "roi.deformable_psroi_pooling",
    "_contrib_MultiBoxDetection": "multibox.multibox_detection",
    "_contrib_MultiBoxTarget": "multibox.multibox_target",
    "_contrib_MultiProposal": "proposal.proposals",
    "_contrib_PSROIPooling": "roi.mean_pooling",
    "_contrib_Proposal": "proposal.proposals",
    "_contrib_ROIAlign": "roi.mean_pooling",
    "_contrib_RROIAlign": "roi.mean_pooling",
    "_contrib_bipartite_matching": "boxes.bipartite_matching",
    "_contrib_box_decode": "boxes.box_decode",
    "_contrib_box_encode": "boxes.box_encode",
    "_contrib_box_iou": "boxes.box_iou",
    "_contrib_box_nms": "boxes.box_nms",
    "_contrib_hawkesll": "hawkes.hawkes_ll",
    "argsort": "ordering.ordering",
    "sort": "ordering.ordering",
    "topk": "ordering.ordering",
}
"""Name of an op -> module and function here."""

GRADIENTS = {name: f"{FORMS[name]}_gradient" for name in (
    "BatchNorm", "_contrib_BatchNormWithReLU", "_contrib_SyncBatchNorm", "Convolution",
    "Convolution_v1", "Deconvolution", "GroupNorm", "InstanceNorm", "L2Normalization", "LRN",
    "LayerNorm", "Pooling", "ROIPooling", "UpSampling", "_contrib_DeformablePSROIPooling",
    "_contrib_PSROIPooling", "_contrib_ROIAlign", "_contrib_RROIAlign", "_contrib_box_nms",
    "_contrib_hawkesll")} | {
        "FullyConnected": "fully_connected.fully_connected_gradient"}
"""The same for the gradients of an op."""

COMPILED = frozenset((
    "BilinearSampler", "Correlation", "Custom", "SpatialTransformer",
    "_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution",
    "_contrib_quantized_conv", "_contrib_quantized_pooling", "_cvimresize", "_image_resize",
    "_sg_mkldnn_conv", "_sg_mkldnn_fully_connected"))
"""Names of ops without a NumPy form."""

HERE = __name__.removesuffix(".numpy_forms") + "."


def has_numpy_form(op: Op, ins: Sequence[Spec], outs: Sequence[Spec], trains: bool = False
                   ) -> bool:
    """Whether NumPy can compute an op in inference, and again with the same result: ops that draw
    random numbers or update states do not count.

    With `trains` whether it can compute an op and its gradient in training; what such ops draw and
    update is restored before they run again (`first_answers`).
    """
    if trains and op.name in GRADIENTS:
        return True
    if op.name in FORMS:
        return not (trains and op.list_needs())
    from_elsewhere = not type(op).__module__.startswith(HERE)
    changes = op.writes_aux(False) or (op.random and not op.is_identity(ins, outs))
    return not (op.runs_subgraphs or op.name in COMPILED or from_elsewhere
                or (changes and not trains)
                or type(op).__module__.startswith(f"{HERE}optimizer."))


def declare(kind: type[Op]) -> None:
    """Enter the forms of a class in the table of implementations."""
    name = vars(kind).get("name", "")
    if name in FORMS or name in GRADIENTS:
        implements(kind, REFERENCE, _form(FORMS.get(name)), _form(GRADIENTS.get(name)))


def _form(place: str | None) -> Callable[..., None] | None:
    if place is None:
        return None
    module, name = place.split(".")
    form: Callable[..., None] = getattr(import_module(f".{module}", __name__), name)
    return form


def prepare_numpy_form(op: Op, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
    """A function without arguments that computes an op, or the gradient of one, on these arrays."""
    return prepare(op, [REFERENCE], ins, outs, call)

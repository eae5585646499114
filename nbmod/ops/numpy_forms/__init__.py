"""The NumPy forms of ops: functions that need no compiled kernel.

They define the ops: kernels are compared with them.  A run may begin with them while kernels are
compiled (`execution.first_answers`).  Most ops have them already, `forward` and `backward`, which
eager calls use.  The others are of these kinds:

    FORMS      their `forward` calls kernels, and a function here computes the same with NumPy
    GRADIENTS  their `backward` calls kernels, and a function here computes the same with NumPy
    COMPILED   their `forward` calls kernels, and there is no such function
    elsewhere  what users and forks register, of whose `forward` nothing is known

All that FORMS lists have either an entry in GRADIENTS or a gradient of zero.  The `backward` of
all that COMPILED lists calls kernels.

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

UPDATES = (
    "_adamw_update", "_contrib_group_adagrad_update", "_mp_adamw_update", "_multi_adamw_update",
    "_multi_lamb_update", "_multi_mp_adamw_update", "_multi_mp_lamb_update",
    "_sparse_adagrad_update", "adam_update", "ftml_update", "ftrl_update", "lamb_update_phase1",
    "lamb_update_phase2", "mp_lamb_update_phase1", "mp_lamb_update_phase2", "mp_nag_mom_update",
    "mp_sgd_mom_update", "mp_sgd_update", "multi_mp_sgd_mom_update", "multi_mp_sgd_update",
    "multi_sgd_mom_update", "multi_sgd_update", "nag_mom_update",
    "preloaded_multi_mp_sgd_mom_update", "preloaded_multi_mp_sgd_update",
    "preloaded_multi_sgd_mom_update", "preloaded_multi_sgd_update", "rmsprop_update",
    "rmspropalex_update", "sgd_mom_update", "sgd_update", "signsgd_update", "signum_update")
"""Names of the updates of weights."""

FORMS = dict.fromkeys(UPDATES, "optimizer_update.update") | {
    "BatchNorm": "normalization.batch_norm",
    "BilinearSampler": "spatial_transformer.bilinear_sampler",
    "_contrib_BatchNormWithReLU": "normalization.batch_norm",
    "_contrib_DeformableConvolution": "deformable.deformable_convolution",
    "_contrib_ModulatedDeformableConvolution": "deformable.deformable_convolution",
    "_contrib_SyncBatchNorm": "normalization.batch_norm",
    "_contrib_quantized_conv": "quantized_layers.quantized_convolution",
    "_contrib_quantized_pooling": "quantized_layers.quantized_pooling",
    "_cvimresize": "resample.image_resize",
    "_image_resize": "resample.image_resize",
    "Convolution": "sliding_window.convolution",
    "Convolution_v1": "sliding_window.convolution",
    "Correlation": "correlation.correlation",
    "Deconvolution": "sliding_window.deconvolution",
    "GroupNorm": "normalization.sample_norm",
    "InstanceNorm": "normalization.sample_norm",
    "L2Normalization": "normalization.l2_normalization",
    "LRN": "normalization.lrn",
    "LayerNorm": "normalization.layer_norm",
    "Pooling": "sliding_window.pooling",
    "RNN": "recurrent.rnn",
    "_contrib_AdaptiveAvgPooling2D": "sliding_window.adaptive_pooling",
    "_contrib_BilinearResize2D": "sliding_window.bilinear_resize",
    "_contrib_bipartite_matching": "boxes.bipartite_matching",
    "_contrib_box_decode": "boxes.box_decode",
    "_contrib_box_encode": "boxes.box_encode",
    "_contrib_box_iou": "boxes.box_iou",
    "_contrib_box_nms": "boxes.box_nms",
    "_contrib_DeformablePSROIPooling": "roi.deformable_psroi_pooling",
    "_contrib_hawkesll": "hawkes.hawkes_ll",
    "_contrib_MultiBoxDetection": "multibox.multibox_detection",
    "_contrib_MultiBoxTarget": "multibox.multibox_target",
    "_contrib_MultiProposal": "proposal.proposals",
    "_contrib_Proposal": "proposal.proposals",
    "_contrib_PSROIPooling": "roi.mean_pooling",
    "_contrib_ROIAlign": "roi.mean_pooling",
    "_contrib_RROIAlign": "roi.mean_pooling",
    "_sg_mkldnn_conv": "fused_layers.fused_convolution",
    "_sg_mkldnn_fully_connected": "fused_layers.fused_fully_connected",
    "ROIPooling": "roi.roi_pooling",
    "SpatialTransformer": "spatial_transformer.spatial_transformer",
    "UpSampling": "sliding_window.upsampling",
    "argsort": "ordering.ordering",
    "multi_sum_sq": "optimizer_update.multi_sum_sq",
    "sort": "ordering.ordering",
    "topk": "ordering.ordering",
}
"""Name of an op -> module and function here."""

NO_GRADIENT = (*UPDATES, "_contrib_MultiBoxDetection", "_contrib_MultiBoxTarget",
               "_contrib_MultiProposal", "_contrib_Proposal", "_contrib_bipartite_matching",
               "_contrib_box_decode", "_contrib_box_encode", "_contrib_box_iou",
               "_contrib_quantized_conv", "_contrib_quantized_pooling", "_cvimresize",
               "_image_resize", "_sg_mkldnn_conv", "_sg_mkldnn_fully_connected", "argsort",
               "multi_sum_sq")
"""Names of those whose gradient is zero."""

GRADIENTS = {name: f"{form}_gradient" for name, form in FORMS.items() if name not in NO_GRADIENT
             } | {"FullyConnected": "fully_connected.fully_connected_gradient"}
"""The same for the gradients of an op."""

COMPILED = frozenset(("Custom",))
"""Names of ops without a NumPy form."""

HERE = __name__.removesuffix(".numpy_forms") + "."


def has_numpy_form(op: Op, ins: Sequence[Spec], outs: Sequence[Spec], trains: bool = False
                   ) -> bool:
    """Whether NumPy can compute an op in inference, and again with the same result: ops that draw
    random numbers, or update states or weights, do not count.

    With `trains` whether it can compute an op and its gradient in training; what such ops draw and
    update is restored before they run again (`first_answers`).
    """
    if type(op).__module__.startswith(f"{HERE}optimizer."):
        return False
    if op.name in FORMS:
        return True
    from_elsewhere = not type(op).__module__.startswith(HERE)
    changes = op.writes_aux(False) or (op.random and not op.is_identity(ins, outs))
    return not (op.runs_subgraphs or op.name in COMPILED or from_elsewhere
                or (changes and not trains))


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

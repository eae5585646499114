"""NumPy forms: the implementations "reference" of ops whose own methods call kernels.

They define the ops: kernels are compared with them.  A run may begin with them while kernels are
compiled (`execution.first_answers`), and without a compiler they are what runs.  Most ops need none
here, as their `forward` and `backward` are NumPy.

A form is `form(op, ins, outs, call)`, as `Op.forward` or `Op.backward`; it never gets float16
arrays of a `FloatOp`, nor channels-last images.  Its results are those of the kernels but for
rounding.
Modules here declare their forms at their end (`ops.dispatch.implements`).  They have the names of
the modules of ops that they are for, or are in `SHARED`.

    fully_connected.py      the gradient of dense layers
    sliding_window.py       convolution, deconvolution, pooling, resizing, and gradients
    normalization.py        BatchNorm, layer norms, LRN, L2Normalization, and gradients
    recurrent.py            RNN: one product for the inputs of all steps, then step by step
    ordering.py             topk, sort and argsort by NumPy's argsort
    optimizer_update.py     updates of weights: their programs, evaluated with NumPy
    hawkes.py               hawkesll: history by history, from the times between pairs of events
    resample.py             image resizing by the tables of `image.resample`
    correlation.py          a displacement at a time, on shifted views of both images
    spatial_transformer.py  BilinearSampler and SpatialTransformer, and gradients
    boxes.py                overlaps, suppression, encoding, matching
    multibox.py             MultiBoxTarget and MultiBoxDetection, image by image
    proposal.py             Proposal and MultiProposal, image by image
    roi.py                  pooling over regions of interest, bin by bin, and gradients
    deformable.py           im2col of sampled points, and its gradients
    quantized_layers.py     convolution and pooling of bytes
    fused_layers.py         the fused layers of MXNet's oneDNN backend
    inserted_ops.py         ops that passes insert, as compositions of the ops that they replace

Begin with `__init__.py`.  Imports `ops.blocked`, `ops.contrib`, `ops.detection`, `ops.dispatch`,
`ops.elementwise`, `ops.image`, `ops.nn`, `ops.onednn`, `ops.op`, `ops.optimizer`, `ops.param`,
`ops.quantization`, `ops.rnn`, `ops.rules` and `ops.tensor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ..dispatch import REFERENCE, is_declared, prepare
from ..op import Call, Op, Run, Spec

__all__ = ["has_numpy_form", "load", "prepare_numpy_form"]

HERE = __name__.removesuffix(".numpy_forms") + "."
SHARED = {
    "adaptive_pooling": "sliding_window", "adaptive_update": "optimizer_update",
    "batch_norm": "normalization", "batch_norm_relu": "normalization",
    "convolution": "sliding_window", "deconvolution": "sliding_window",
    "lamb_update": "optimizer_update", "layer_norm": "normalization", "lrn_l2": "normalization",
    "multi_tensor": "optimizer_update", "multi_weight_update": "optimizer_update",
    "pooling": "sliding_window", "preprocess": "resample", "resize": "sliding_window",
    "rnn": "recurrent", "roi_align": "roi", "roi_rotated": "roi", "sgd_update": "optimizer_update"}
"""Module of ops -> module here, where names differ."""


@cache
def load(module: str) -> None:
    """Import the forms of the ops of a module, if there are any."""
    if module.startswith(HERE):
        stem = module.rpartition(".")[2]
        name = f"{__name__}.{SHARED.get(stem, stem)}"
        if find_spec(name) is not None:
            import_module(name)


def has_numpy_form(op: Op, ins: Sequence[Spec], outs: Sequence[Spec], trains: bool = False
                   ) -> bool:
    """Whether NumPy can compute an op in inference, and again with the same result: ops that draw
    random numbers, or update states or weights, do not count.

    With `trains` whether it can compute an op and its gradient in training; what such ops draw and
    update is restored before they run again (`first_answers`).  Of ops from elsewhere, and of
    custom ones, nothing is known.
    """
    kind = type(op)
    if kind.__module__.startswith(f"{HERE}optimizer."):
        return False
    if is_declared(kind, REFERENCE):
        return True
    from_elsewhere = not kind.__module__.startswith(HERE) or op.name == "Custom"
    changes = op.writes_aux(False) or (op.random and not op.is_identity(ins, outs))
    return not (op.runs_subgraphs or from_elsewhere or (changes and not trains))


def prepare_numpy_form(op: Op, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
    """A function without arguments that computes an op, or the gradient of one, on these arrays."""
    run: Run = prepare(op, [REFERENCE], ins, outs, call)
    return run

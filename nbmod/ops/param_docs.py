"""Parameters that many ops share, explained in one line each: for help texts and docs/ops.

A docstring says what is particular to its op.  `meaning` looks there first, for a sentence that
speaks of the parameter by name; the very first one, which is the formula, speaks of all.
"""

from __future__ import annotations

import inspect
import re
from functools import cache

from .op import Op
from .param import fields_of

__all__ = ["GLOSSARY", "known", "meaning"]

_ACCEPTED = "accepted for old files; has no effect"
_FLAG = "the call has this input as well"

GLOSSARY = {  # parameter, or op.parameter, or family.parameter
    # -- any op
    "ctx": "the context of the result, where there is no input to follow",
    "dtype": "element type of the result",
    "out_dtype": "element type of the result; None: that of the data",
    "shape": "shape of the result",
    "axis": "the axis, or axes, that the op works along; negative ones count from the end",
    "keepdims": "axes that are reduced stay, with length 1",
    "exclude": "reduce all axes but those of `axis`",
    "is_int": "with integer data the number is truncated to an integer",
    "scalar": "the number",
    "num_args": "number of tensors; functions count them",
    "num_arrays": "number of tensors",
    "num_weights": "number of weights",
    "num_tensors": "number of weights",
    "num_outputs": "number of outputs",
    "transpose_a": "swap the last two axes of the first matrix",
    "transpose_b": "swap the last two axes of the second matrix",
    "forward_stype": _ACCEPTED,
    "begin": "first index along each axis; None: from the start",
    "end": "index after the last along each axis; None: to the end",
    "step": "step along each axis",
    "creation.step": "difference between consecutive elements",
    "expand_dims.axis": "position of the new axis; -1: at the end",
    "topk.k": "number of elements; less than 1: all",
    "_eye.k": "which diagonal: 0 the main one, positive ones above it",
    "_ravel_multi_index.shape": "shape of the array that the indices are in",
    "_unravel_index.shape": "shape of the array that the indices are in",
    "squeeze_axis": "drop the axis that is split, of length 1 in each piece",
    "is_ascend": "smallest first",
    "ord": "order of the norm: 1 or 2",
    "reverse": "read `shape` from the right",
    "block_size": "side of the square of pixels that becomes channels, or the reverse",
    "mode": "which of the variants the text above describes",
    "repeat": "number of repetitions of each element",
    "endpoint": "the last element is `stop` itself",
    # -- layers
    "kernel": "size of the window along each image axis",
    "stride": "step of the window along each image axis; (): 1",
    "pooling.pad": "pixels added at both ends of each image axis; (): none",
    "pad": "zeros added at both ends of each image axis; (): none",
    "dilate": "distance between the taps of the window; (): 1",
    "num_filter": "number of filters: channels of the output",
    "num_group": "number of groups of channels that are convolved separately",
    "num_hidden": "length of the output's rows",
    "no_bias": "there is no bias",
    "layout": "order of the axes, such as NCHW or NHWC; None: channels first",
    "workspace": _ACCEPTED,
    "cudnn_tune": _ACCEPTED,
    "cudnn_off": _ACCEPTED,
    "min_calib_range": "lower end of the calibrated range of an 8-bit result; None: none",
    "max_calib_range": "upper end of that range",
    "batch_norm.min_calib_range": _ACCEPTED,
    "batch_norm.max_calib_range": _ACCEPTED,
    "batch_norm_relu.min_calib_range": _ACCEPTED,
    "batch_norm_relu.max_calib_range": _ACCEPTED,
    "with_bn": "the graph holds BatchNorm",
    "with_act": "the graph holds an activation",
    "with_sum": "the graph adds another tensor",
    "with_postsum_act": "the graph holds an activation after the sum",
    "with_eltwise": "the graph holds an activation",
    "global_pool": "one window over the whole image",
    "pool_type": "the reduction of a window: its maximum, mean, sum or Lp norm",
    "pooling_convention": "how output sizes are rounded: 'valid' down, 'full' up, 'same' to "
                          "ceil(size / stride)",
    "act_type": "the function",
    "activation.lower_bound": "smallest random slope of 'rrelu'",
    "activation.upper_bound": "largest random slope of 'rrelu'",
    "eps": "added to the variance",
    "L2Normalization.eps": "added to the sum of squares",
    "multi_lars.eps": "added to the denominator",
    "multi_lars.eta": "the trust coefficient: norm of a step relative to that of the weight",
    "UpSampling.scale": "factor of height and width",
    "momentum": "decay rate of the moving average, or of the step",
    "fix_gamma": "gamma counts as 1 and gets no gradient",
    "use_global_stats": "normalise with the moving averages in training, too",
    "output_mean_var": "mean and variance are outputs as well",
    "normalization": "what the gradient is divided by",
    "use_sequence_length": f"{_FLAG}: lengths of the sequences",
    "state_size": "length of the hidden state",
    "num_layers": "number of stacked layers",
    "lstm_state_clip_max": "the cell state is clipped to at most this",
    "heads": "number of attention heads",
    "sample_type": "'nearest' repeats pixels, 'bilinear' interpolates",
    "multi_input_mode": "several inputs are concatenated, or added",
    "scale_height": "height of the result over that of the data",
    "scale_width": "width of the result over that of the data",
    "transform_type": "'affine': the input is an affine matrix, 2 x 3; 'warp': an optical flow",
    "sampler_type": "interpolation; only bilinear",
    "flatten": "all axes of the data after the first count as one",
    "sparse_grad": "whether gradients of arrays are row_sparse",
    "out_type": "element type of the result",
    "p_value": "the p of Lp pooling",
    # -- control flow
    "num_out_data": "how many outputs are collected from every step",
    "in_state_locs": "which variables of the body are states",
    "in_data_locs": "which variables of the body are rows of data",
    "remain_locs": "which variables of the body are free inputs",
    "cond_input_locs": "inputs that the variables of the condition refer to",
    "then_input_locs": "inputs that the variables of the first branch refer to",
    "else_input_locs": "inputs that the variables of the second branch refer to",
    # -- images and detection
    "pooled_size": "height and width of the result for each region",
    "spatial_scale": "size of the feature map over that of the image the regions refer to",
    "num_deformable_group": "groups of channels with offsets of their own",
    "rpn_pre_nms_top_n": "number of boxes of the highest scores that suppression gets",
    "rpn_post_nms_top_n": "number of boxes of the output",
    "threshold": "overlap (IoU) above which the box of the lower score is suppressed",
    "rpn_min_size": "smaller boxes are dropped",
    "scales": "sizes of the anchors, in strides",
    "ratios": "height over width of the anchors",
    "feature_stride": "pixels of the image per pixel of the feature map",
    "output_score": "scores are an output as well",
    "iou_loss": "the predictions are corners' offsets, as trained with an IoU loss",
    "format": "'corner': (left, top, right, bottom); 'center': (x, y, width, height)",
    "in_format": "how boxes are written in the data: 'corner' or 'center'",
    "out_format": "how boxes are written in the result: 'corner' or 'center'",
    "score_index": "column of the score",
    # -- random
    "sampling.low": "lower limit",
    "sampling.high": "upper limit, exclusive",
    "sampling.loc": "mean",
    "sampling.scale": "standard deviation",
    "sampling.lam": "rate",
    "sampling.alpha": "shape of the gamma distribution, or dispersion of the negative binomial one",
    "sampling.beta": "scale of the gamma distribution",
    "sampling.mu": "mean",
    "sampling.k": "number of successes",
    "sampling.p": "probability of success",
    "Dropout.p": "probability that an element is dropped",
    "is_log": "densities are given as logarithms",
    # -- linear algebra
    "lower": "the triangle that is read: the lower one, else the upper one",
    "transpose": "the triangular matrix is transposed",
    "_linalg_syrk.transpose": "A^T A instead of A A^T",
    "offset": "which diagonal: 0 the main one, positive ones above it",
    "compute_size": _ACCEPTED,
    "processing_batch_size": _ACCEPTED,
    # -- updates
    "lr": "learning rate",
    "lrs": "learning rate of each weight",
    "learning_rates": "learning rate of each weight",
    "wd": "weight decay",
    "wds": "weight decay of each weight",
    "eta": "the schedule's factor for step and decay",
    "etas": "the schedule's factor for each weight",
    "rescale_grad": "gradients are multiplied by this",
    "clip_gradient": "largest absolute value of rescaled gradients; negative: no limit",
    "clip_grad": "largest absolute value of rescaled gradients; negative: no limit",
    "lazy_update": "with sparse gradients, rows without a gradient are not updated",
    "beta1": "decay rate of the mean of gradients",
    "beta2": "decay rate of the mean of their squares",
    "epsilon": "added to the denominator",
    "t": "number of this update, from 1",
    "step_count": "number of this update for each weight, from 1",
    "bias_correction": "correct the bias of means that start at 0",
    "lower_bound": "lower limit of the norm of the weight; negative: none",
    "upper_bound": "upper limit of the norm of the weight; negative: none",
    "dim": "axis of concatenation",
    # -- targets of SimpleDet's second stage
    "num_classes": "how many classes, the background included",
    "batch_images": "how many images; not read",
    "image_rois": "how many regions of each image; -1: all",
    "fg_thresh": "least intersection over union of an object's region",
    "bg_thresh_hi": "intersection over union from which a region is no background",
    "bg_thresh_lo": "least intersection over union of the background",
    "proposal_without_gt": "the boxes do not join the regions",
    "fg_fraction": "largest share of the regions that are objects",
    "class_agnostic": "one set of offsets for all classes",
    "output_iou": "also return the intersections over union",
    "bbox_mean": "subtracted from offsets",
    "bbox_std": "offsets are divided by it",
    "bbox_weight": "weight of each of the four offsets",
    "bbox_decode_type": "offsets of center and size, or of corners",
    "ohem": "not supported, as in SimpleDet",
}


def known(op: type[Op], parameter: str) -> str:
    """The line of the glossary about a parameter of `op`; "" if there is none."""
    family = op.__module__.rpartition(".")[2]
    keys = (f"{op.name}.{parameter}", f"{family}.{parameter}", parameter)
    return next((GLOSSARY[key] for key in keys if key in GLOSSARY), "")


def meaning(op: type[Op], parameter: str) -> str:
    """The meaning of a parameter of `op`, a line of plain text; "" if it is not documented."""
    names = tuple(field.name for field in fields_of(op))
    first, *rest = _statements(inspect.getdoc(op) or "", names)
    marked = [text for text in rest if f"`{parameter}`" in text]
    if marked or known(op, parameter):
        return marked[0] if marked else known(op, parameter)
    return next((text for text in (first, *rest) if re.search(rf"\b{parameter}\b", text)), "")


@cache
def _statements(doc: str, names: tuple[str, ...]) -> list[str]:
    """A docstring's sentences, list items and indented lines.

    A semicolon divides a sentence where the next clause begins with a parameter or marks one, and
    so may tell of another; any other clause goes on with what was said.
    """
    sentences = re.split(r"\n\s*\n|\n\s*- |\n    |(?<=\.)(?:  +|\n|\s+(?=[A-Z`('(]))", doc)
    named = "|".join(names) or "$^"
    parts = [part for sentence in sentences
             for part in re.split(rf";\s(?=[^;]*`(?:{named})`|(?:{named})\b)", sentence)]
    return [" ".join(part.split()).removeprefix("- ").strip(" .;") for part in parts]

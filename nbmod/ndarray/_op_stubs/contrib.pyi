# Written by `python docs/generate_stubs.py`.
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import DTypeLike

from ...context import Context
from ..ndarray import NDArray
from .op import BBoxNorm as BBoxNorm
from .op import BroadcastScale as BroadcastScale
from .op import CTCLoss as CTCLoss
from .op import CTCLoss as ctc_loss
from .op import DecodeBBox as DecodeBBox
from .op import FocalLoss as FocalLoss
from .op import GenAnchor as GenAnchor
from .op import GenProposalRetina as GenProposalRetina
from .op import ProposalMaskTarget as ProposalMaskTarget
from .op import ProposalTarget as ProposalTarget
from .op import ProposalTarget_v2 as ProposalTarget_v2
from .op import Proposal_v2 as Proposal_v2
from .op import Proposal_v3 as Proposal_v3
from .op import Quantization_int8 as Quantization_int8
from .op import ROIAlign_v2 as ROIAlign_v2
from .op import SigmoidCrossEntropy as SigmoidCrossEntropy

__all__: list[str] = ["AdaptiveAvgPooling2D", "BBoxNorm", "BatchNormWithReLU", "BilinearResize2D",
                      "BroadcastScale", "CTCLoss", "DecodeBBox", "DeformableConvolution",
                      "DeformablePSROIPooling", "FocalLoss", "GenAnchor", "GenProposalRetina",
                      "GroupNorm", "ModulatedDeformableConvolution", "MultiBoxDetection",
                      "MultiBoxPrior", "MultiBoxTarget", "MultiProposal", "PSROIPooling",
                      "Proposal", "ProposalMaskTarget", "ProposalTarget", "ProposalTarget_v2",
                      "Proposal_v2", "Proposal_v3", "Quantization_int8", "ROIAlign", "ROIAlign_v2",
                      "RROIAlign", "SigmoidCrossEntropy", "SparseEmbedding", "SyncBatchNorm",
                      "allclose", "arange_like", "bipartite_matching", "boolean_mask",
                      "box_decode", "box_encode", "box_iou", "box_nms",
                      "box_non_maximum_suppression", "calibrate_entropy", "count_sketch",
                      "ctc_loss", "dequantize", "div_sqrt_dim", "fft", "getnnz",
                      "gradientmultiplier", "group_adagrad_update", "hawkesll", "ifft",
                      "index_array", "index_copy", "interleaved_matmul_encdec_qk",
                      "interleaved_matmul_encdec_valatt", "interleaved_matmul_selfatt_qk",
                      "interleaved_matmul_selfatt_valatt", "intgemm_fully_connected",
                      "intgemm_maxabsolute", "intgemm_prepare_data", "intgemm_prepare_weight",
                      "intgemm_take_weight", "quadratic", "quantize", "quantize_asym",
                      "quantize_v2", "quantized_act", "quantized_batch_norm", "quantized_concat",
                      "quantized_conv", "quantized_elemwise_add", "quantized_elemwise_mul",
                      "quantized_embedding", "quantized_flatten", "quantized_fully_connected",
                      "quantized_pooling", "requantize", "round_ste", "sign_ste"]
def AdaptiveAvgPooling2D(data: NDArray, output_size: Sequence[int] | int = (),
                         out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                        ) -> NDArray:
    """The mean of each of OH x OW windows that together cover the image.

    data (N, C, H, W) -> (N, C, OH, OW).  Window i of an axis of `size` pixels with `count` windows
    is [floor(i size / count), ceil((i + 1) size / count)).  `output_size` is (OH, OW), or one
    number for both; () is (1, 1), the mean of the whole image.
    """

def BatchNormWithReLU(data: NDArray, gamma: NDArray, beta: NDArray, moving_mean: NDArray,
                      moving_var: NDArray, eps: float = 0.0010000000474974513,
                      momentum: float = 0.9, fix_gamma: bool | int = True,
                      use_global_stats: bool | int = False, output_mean_var: bool | int = False,
                      axis: int = 1, cudnn_off: bool | int = False,
                      min_calib_range: float | None = None, max_calib_range: float | None = None,
                      out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                     ) -> NDArray | Any:
    """y = max(BatchNorm(x), 0); see BatchNorm.

    The gradient is passed on where y > 0.  (MXNet has it in float32, for images with axis 1.)

    Shapes: data and output (N, C, ...), all others (C,).

    Parameters
    ----------
    eps
        added to the variance
    momentum
        decay rate of the moving average, or of the step
    fix_gamma
        gamma counts as 1 and gets no gradient
    use_global_stats
        normalise with the moving averages in training, too
    output_mean_var
        mean and variance are outputs as well
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    cudnn_off
        accepted for old files; has no effect
    min_calib_range
        accepted for old files; has no effect
    max_calib_range
        accepted for old files; has no effect
    """

def BilinearResize2D(data: NDArray, like: NDArray | None = None, height: int = 1, width: int = 1,
                     scale_height: float | None = None, scale_width: float | None = None,
                     mode: Literal['like', 'odd_scale', 'size', 'to_even_down', 'to_even_up', 'to_odd_down', 'to_odd_up'] = 'size',
                     align_corners: bool | int = True,
                     out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                    ) -> NDArray:
    """data (N, C, H, W) -> (N, C, OH, OW), each pixel interpolated between four.

    With `align_corners` the corner pixels of both images coincide: position i of an axis is at
    i (size - 1) / (out - 1).  Otherwise the images' outer edges do: at (i + 0.5) size / out - 0.5,
    no less than 0.  An axis with out = 1 gets the first pixel.  OH and OW follow from `mode`:

    - 'size': `height`, `width`, or where both scales are given floor(scale size);
    - 'like': the height and width of a second input, which gets no gradient;
    - 'odd_scale': floor(scale size) for even sizes, floor(scale (size - 1)) + 1 for odd ones;
    - 'to_even_down', 'to_even_up', 'to_odd_down', 'to_odd_up': the nearest such number.

    Parameters
    ----------
    scale_height
        height of the result over that of the data
    scale_width
        width of the result over that of the data
    mode
        which of the variants the text above describes
    """

def DeformableConvolution(data: NDArray, offset: NDArray | None = None,
                          weight: NDArray | None = None, bias: NDArray | None = None,
                          kernel: Sequence[int] | int = ..., stride: Sequence[int] | int = (),
                          dilate: Sequence[int] | int = (), pad: Sequence[int] | int = (),
                          num_filter: int = ..., num_group: int = 1, num_deformable_group: int = 1,
                          workspace: int = 1024, no_bias: bool | int = False,
                          layout: Literal['NCDHW', 'NCHW', 'NCW'] | None = None,
                          out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                         ) -> NDArray:
    """Convolution of 2-D images whose taps move by `offset`.

        y[n, f, o] = bias[f] + sum over c, k of w[f, c, k] x[n, c](o stride - pad + k dilate + d)

    with d = (offset[n, j, o], offset[n, j + 1, o]) along y and x, j = 2 ((c D // C) taps + k), and
    x[...](p) interpolated between the four pixels around p.  data (N, C, H, W), weight
    (F, C / G, *kernel), bias (F,), offset (N, 2 D taps, H', W') -> (N, F, H', W'), where
    D = `num_deformable_group` and G = `num_group`.  A sample at a point outside of [0, H) x [0, W)
    is 0; the last row and column are replicated.  `workspace` is accepted and has no effect.

    Parameters
    ----------
    kernel
        size of the window along each image axis
    stride
        step of the window along each image axis; (): 1
    dilate
        distance between the taps of the window; (): 1
    pad
        zeros added at both ends of each image axis; (): none
    num_filter
        number of filters: channels of the output
    num_group
        number of groups of channels that are convolved separately
    num_deformable_group
        groups of channels with offsets of their own
    workspace
        accepted for old files; has no effect
    no_bias
        there is no bias
    layout
        order of the axes, such as NCHW or NHWC; None: channels first
    """

def DeformablePSROIPooling(data: NDArray, rois: NDArray | None = None,
                           trans: NDArray | None = None, spatial_scale: float = ...,
                           output_dim: int = ..., group_size: int = ..., pooled_size: int = ...,
                           part_size: int = 0, sample_per_part: int = 1, trans_std: float = 0.0,
                           no_trans: bool | int = False,
                           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                          ) -> NDArray:
    """PSROIPooling with interpolated points, in bins with offsets: (R, output_dim, P, P).

    data (N, output_dim G G, H, W), rois (R, 5), trans (R, 2 K, T, T) unless `no_trans`; P =
    `pooled_size`, G = `group_size`, T = `part_size` or P.  Channels are those of PSROIPooling.
    Bin (i, j) moves by `trans_std` times the region's width times trans[2 k] and its height times
    trans[2 k + 1], at part (floor(i T / P), floor(j T / P)), k = floor(c K / output_dim).  It is
    the mean of `sample_per_part`^2 points, which start at its corner; those outside of the image
    are excluded, a bin without any is 0.  rois get no gradient.

    Parameters
    ----------
    spatial_scale
        size of the feature map over that of the image the regions refer to
    pooled_size
        height and width of the result for each region
    """

def GroupNorm(data: NDArray, gamma: NDArray, beta: NDArray, num_group: int = 32,
              eps: float = 1e-05, out: NDArray | Sequence[NDArray] | None = None,
              name: str | None = None) -> NDArray | Any:
    """y = gamma (x - mean) / sqrt(var + eps) + beta over groups of channels of each sample.

    data (N, C, ...), C a multiple of `num_group`; gamma and beta (C,): one per channel, unlike
    those of `GroupNorm`.  Wu and He, Group Normalization, 2018.

    Parameters
    ----------
    num_group
        number of groups of channels that are convolved separately
    eps
        added to the variance
    """

def ModulatedDeformableConvolution(data: NDArray, offset: NDArray | None = None,
                                   mask: NDArray | None = None, weight: NDArray | None = None,
                                   bias: NDArray | None = None, kernel: Sequence[int] | int = ...,
                                   stride: Sequence[int] | int = (),
                                   dilate: Sequence[int] | int = (), pad: Sequence[int] | int = (),
                                   num_filter: int = ..., num_group: int = 1,
                                   num_deformable_group: int = 1, workspace: int = 1024,
                                   no_bias: bool | int = False, im2col_step: int = 64,
                                   layout: Literal['NCDHW', 'NCHW', 'NCW'] | None = None,
                                   out: NDArray | Sequence[NDArray] | None = None,
                                   name: str | None = None) -> NDArray:
    """DeformableConvolution whose samples are multiplied by `mask`, (N, D taps, H', W').

    Beyond the border samples decrease to 0 within a pixel; in DeformableConvolution they are 0.
    `im2col_step` is accepted and has no effect; MXNet requires the batch to be a multiple of it.
    (MXNet has no gradient on the CPU.)

    Parameters
    ----------
    kernel
        size of the window along each image axis
    stride
        step of the window along each image axis; (): 1
    dilate
        distance between the taps of the window; (): 1
    pad
        zeros added at both ends of each image axis; (): none
    num_filter
        number of filters: channels of the output
    num_group
        number of groups of channels that are convolved separately
    num_deformable_group
        groups of channels with offsets of their own
    workspace
        accepted for old files; has no effect
    no_bias
        there is no bias
    layout
        order of the axes, such as NCHW or NHWC; None: channels first
    """

def MultiBoxDetection(cls_prob: NDArray, loc_pred: NDArray, anchor: NDArray,
                      clip: bool | int = True, threshold: float = 0.01, background_id: int = 0,
                      nms_threshold: float = 0.5, force_suppress: bool | int = False,
                      variances: Sequence[float] | float = (0.1, 0.1, 0.2, 0.2),
                      nms_topk: int = -1, out: NDArray | Sequence[NDArray] | None = None,
                      name: str | None = None) -> NDArray:
    """Detections of an SSD: anchors with their most probable class, overlapping ones marked.

    cls_prob (B, classes + 1, A), loc_pred (B, 4 A), anchor (1, A, 4) -> (B, A, 6), rows (class,
    probability, left, top, right, bottom).  Class 0 of cls_prob is background, regardless of
    `background_id`, and classes count from 0 after it, as in MXNet.

    Rows are those anchors whose most probable class has at least `threshold`; the rest is -1.
    Boxes are anchors moved by loc_pred times `variances`, clipped to [0, 1] with `clip`.  Where
    `nms_threshold` is in (0, 1] rows are sorted by probability, `nms_topk` of them if that is
    positive, and the class of those with an iou of at least `nms_threshold` with a better one of
    their class (any with `force_suppress`) becomes -1; so does that of all rows from `nms_topk` on,
    which stay in the order of anchors.  No gradient.

    Parameters
    ----------
    threshold
        overlap (IoU) above which the box of the lower score is suppressed
    """

def MultiBoxPrior(data: NDArray, sizes: Sequence[float] | float = (1.0,),
                  ratios: Sequence[float] | float = (1.0,), clip: bool | int = False,
                  steps: Sequence[float] | float = (-1.0, -1.0),
                  offsets: Sequence[float] | float = (0.5, 0.5),
                  out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                 ) -> NDArray:
    """Anchors around every pixel of a feature map; data (N, C, H, W) -> (1, H W k, 4), corners.

    k = len(sizes) + len(ratios) - 1 boxes per pixel: each of `sizes` with the first of `ratios`,
    then the other ratios with the first size.  A box is size sqrt(ratio) H / W wide and
    size / sqrt(ratio) high.  Its center is ((column + offset) step, (row + offset) step), where
    `steps` and `offsets` are (y, x) and a step that is not positive is 1 / H or 1 / W.  `clip`
    limits boxes to [0, 1].  No gradient: only the shape of data is read.

    Parameters
    ----------
    ratios
        height over width of the anchors
    """

def MultiBoxTarget(anchor: NDArray, label: NDArray, cls_pred: NDArray,
                   overlap_threshold: float = 0.5, ignore_label: float = -1.0,
                   negative_mining_ratio: float = -1.0, negative_mining_thresh: float = 0.5,
                   minimum_negative_samples: int = 0,
                   variances: Sequence[float] | float = (0.1, 0.1, 0.2, 0.2),
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> list[NDArray]:
    """Training targets of an SSD for every anchor.

    anchor (1, A, 4); label (B, M, 5 or more), rows (class, left, top, right, bottom, ...), of which
    those from the first class -1 on are padding; cls_pred (B, classes + 1, A), scores.  Outputs:
    offsets `loc_target` and their `loc_mask`, (B, 4 A), and `cls_target`, (B, A): class + 1, 0 for
    background, or `ignore_label`.

    Boxes get the anchor that they overlap most, the best pair first; then every other anchor gets
    the box that it overlaps most, if more than a positive `overlap_threshold`.  Its target is
    ((gx - ax) / aw, (gy - ay) / ah, log(gw / aw), log(gh / ah)) / variances, from centers and
    sizes.  Anchors without a box are background.  With a positive `negative_mining_ratio` only
    ratio times as many as have one are: those with the least probability of background, among
    anchors that overlap no box by `negative_mining_thresh`; the rest is ignored.  Without any box
    everything is ignored.  `minimum_negative_samples` has no effect, as in MXNet.  No gradient.
    """

def MultiProposal(cls_prob: NDArray, bbox_pred: NDArray, im_info: NDArray,
                  rpn_pre_nms_top_n: int = 6000, rpn_post_nms_top_n: int = 300,
                  threshold: float = 0.7, rpn_min_size: int = 16,
                  scales: Sequence[float] | float = (4.0, 8.0, 16.0, 32.0),
                  ratios: Sequence[float] | float = (0.5, 1.0, 2.0), feature_stride: int = 16,
                  output_score: bool | int = False, iou_loss: bool | int = False,
                  out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                 ) -> NDArray | Any:
    """The best boxes of each image that do not overlap: rois (N P, 5), P = rpn_post_nms_top_n.

    cls_prob (N, 2 A, H, W), scores of background and then of boxes for A anchors; bbox_pred
    (N, 4 A, H, W); im_info (N, 3), rows (height, width, scale).  Rows of rois are (image, left,
    top, right, bottom); with `output_score` there is a second output, scores (N P, 1).

    Anchors have `feature_stride`^2 pixels at each of `ratios` (height to width), enlarged by each
    of `scales`, and are `feature_stride` apart.  Predictions (dx, dy, dw, dh) move the center by
    dx w, dy h and multiply the size by exp(dw), exp(dh); with `iou_loss` they are added to the
    corners.  Boxes are clipped to the image.  Those smaller than rpn_min_size x scale
    on a side, and those of positions outside of the image, get score -1.  The `rpn_pre_nms_top_n`
    best (all, if not positive) are taken by descending score, equal ones in order; a box is dropped
    if its iou with a better one that stays is above `threshold`.  If less than P stay they are
    repeated.  No gradient.

    Parameters
    ----------
    rpn_pre_nms_top_n
        number of boxes of the highest scores that suppression gets
    rpn_post_nms_top_n
        number of boxes of the output
    threshold
        overlap (IoU) above which the box of the lower score is suppressed
    rpn_min_size
        smaller boxes are dropped
    scales
        sizes of the anchors, in strides
    ratios
        height over width of the anchors
    feature_stride
        pixels of the image per pixel of the feature map
    output_score
        scores are an output as well
    iou_loss
        the predictions are corners' offsets, as trained with an IoU loss
    """

def PSROIPooling(data: NDArray, rois: NDArray, spatial_scale: float, output_dim: int,
                 pooled_size: int, group_size: int = 0,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """The mean of every bin of regions, each over channels of its own: (R, output_dim, P, P).

    data (N, output_dim G G, H, W), rois (R, 5), P = `pooled_size`, G = `group_size` or P.  Bin
    (i, j) of channel c is from channel (c G + floor(i G / P)) G + floor(j G / P).  Coordinates are
    rounded, the right and bottom pixels included, then multiplied by `spatial_scale`; a region is
    at least 0.1 pixels large, an empty bin 0.  No gradient for rois.

    Parameters
    ----------
    spatial_scale
        size of the feature map over that of the image the regions refer to
    pooled_size
        height and width of the result for each region
    """

def Proposal(cls_prob: NDArray, bbox_pred: NDArray, im_info: NDArray,
             rpn_pre_nms_top_n: int = 6000, rpn_post_nms_top_n: int = 300, threshold: float = 0.7,
             rpn_min_size: int = 16, scales: Sequence[float] | float = (4.0, 8.0, 16.0, 32.0),
             ratios: Sequence[float] | float = (0.5, 1.0, 2.0), feature_stride: int = 16,
             output_score: bool | int = False, iou_loss: bool | int = False,
             out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
            ) -> NDArray | Any:
    """MultiProposal for a single image: cls_prob (1, 2 A, H, W) -> rois (P, 5), scores (P, 1).

    Parameters
    ----------
    rpn_pre_nms_top_n
        number of boxes of the highest scores that suppression gets
    rpn_post_nms_top_n
        number of boxes of the output
    threshold
        overlap (IoU) above which the box of the lower score is suppressed
    rpn_min_size
        smaller boxes are dropped
    scales
        sizes of the anchors, in strides
    ratios
        height over width of the anchors
    feature_stride
        pixels of the image per pixel of the feature map
    output_score
        scores are an output as well
    iou_loss
        the predictions are corners' offsets, as trained with an IoU loss
    """

def ROIAlign(data: NDArray, rois: NDArray, pooled_size: Sequence[int] | int, spatial_scale: float,
             sample_ratio: int = -1, position_sensitive: bool | int = False,
             aligned: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
             name: str | None = None) -> NDArray:
    """The mean of interpolated points in every bin of regions: (R, C, PH, PW).

    data (N, C, H, W), rois (R, 5).  Coordinates are multiplied by `spatial_scale`; with `aligned`
    half a pixel is subtracted, otherwise regions are at least one pixel large.  (An aligned one
    without area gives 0.)  A bin has `sample_ratio` points along each axis, evenly spread, or as
    many as it has pixels, rounded up, if that is not positive (and no more than eight times those
    of the image, which ends for regions of any size).  Points more than a pixel outside
    of the image count as 0.  With `position_sensitive` each bin has channels of its own: data has
    C PH PW, and bin (i, j) of channel c is from channel (c PH + i) PW + j.  No gradient for rois.

    Parameters
    ----------
    pooled_size
        height and width of the result for each region
    spatial_scale
        size of the feature map over that of the image the regions refer to
    """

def RROIAlign(data: NDArray, rois: NDArray, pooled_size: Sequence[int] | int, spatial_scale: float,
              sampling_ratio: int = -1, out: NDArray | Sequence[NDArray] | None = None,
              name: str | None = None) -> NDArray:
    """ROIAlign over rotated regions: (R, C, PH, PW).

    data (N, C, H, W); rois (R, 6), rows (image, center x, center y, width, height, angle in
    degrees, counterclockwise).  All but the angle are multiplied by `spatial_scale`; regions are at
    least one pixel large.  A bin has `sampling_ratio` points along each axis, or as many as it has
    pixels, rounded up, if that is not positive; those more than a pixel outside of the image count
    as 0.  rois get no gradient.  (MXNet has none at all.)

    Parameters
    ----------
    pooled_size
        height and width of the result for each region
    spatial_scale
        size of the feature map over that of the image the regions refer to
    """

def SparseEmbedding(data: NDArray, weight: NDArray, input_dim: int, output_dim: int,
                    dtype: DTypeLike = 'float32', sparse_grad: bool | int = False,
                    deterministic: bool | int = False,
                    out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                   ) -> NDArray:
    """An older Embedding with a row_sparse, `deterministic` gradient of weight (input_dim,
    output_dim).

    Parameters
    ----------
    dtype
        element type of the result
    sparse_grad
        whether gradients of arrays are row_sparse
    """

def SyncBatchNorm(data: NDArray, gamma: NDArray, beta: NDArray, moving_mean: NDArray,
                  moving_var: NDArray, eps: float = 0.0010000000474974513, momentum: float = 0.9,
                  fix_gamma: bool | int = True, use_global_stats: bool | int = False,
                  output_mean_var: bool | int = False, ndev: int = 1, key: str = ...,
                  out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                 ) -> NDArray | Any:
    """BatchNorm over axis 1 with statistics meant to span the `ndev` devices that share `key`.

    The statistics are those of each device's own batch, which is what MXNet computes for one.
    With `output_mean_var` outputs 1 and 2 are the mean and the variance that were used.  (MXNet
    leaves them unset where these are the moving ones.)

    Shapes: data and output (N, C, ...), all others (C,).

    Parameters
    ----------
    eps
        added to the variance
    momentum
        decay rate of the moving average, or of the step
    fix_gamma
        gamma counts as 1 and gets no gradient
    use_global_stats
        normalise with the moving averages in training, too
    output_mean_var
        mean and variance are outputs as well
    """

def allclose(a: NDArray, b: NDArray, rtol: float = 9.999999747378752e-06,
             atol: float = 9.99999993922529e-09, equal_nan: bool | int = True,
             out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """1 if |a - b| <= atol + rtol |b| for all elements, else 0: a uint8 of shape ().

    Infinities are close to themselves only, NaN to NaN if `equal_nan`.  There is no gradient.

    Shapes: a and b of one shape, output ().
    """

def arange_like(data: NDArray, start: float = 0.0, step: float = 1.0, repeat: int = 1,
                ctx: Context | str | None = '', axis: int | None = None,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """start, start + step, ... in the shape of `data`, or (n,) as long as its `axis`.

    No gradient.

    Parameters
    ----------
    step
        difference between consecutive elements
    repeat
        number of repetitions of each element
    ctx
        the context of the result, where there is no input to follow
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def bipartite_matching(data: NDArray, is_ascend: bool | int = False, threshold: float = ...,
                       topk: int = -1, out: NDArray | Sequence[NDArray] | None = None,
                       name: str | None = None) -> list[NDArray]:
    """Rows matched with columns, greedily by score, each at most once.

    data (..., N, M) -> output 0 (..., N), the column of each row, and output 1 (..., M), the row of
    each column; -1 where there is none.  Pairs are matched by descending score while it is above
    `threshold` (ascending and below it with `is_ascend`).  A positive `topk` ends this after
    topk + 1 matches, as in MXNet.  Equal scores keep their order; NaN is never matched.
    No gradient.

    Parameters
    ----------
    is_ascend
        smallest first
    threshold
        overlap (IoU) above which the box of the lower score is suppressed
    """

def boolean_mask(data: NDArray, index: NDArray, axis: int = 0,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """The rows of data (N, ...) where index (N,) is not zero: (number of those, ...).

    The output shape depends on the values of index, so this runs eagerly only (also under
    `autograd.record`), and cannot be bound.  The gradient of the other rows is zero.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def box_decode(data: NDArray, anchors: NDArray, std0: float = 1.0, std1: float = 1.0,
               std2: float = 1.0, std3: float = 1.0, clip: float = -1.0,
               format: Literal['center', 'corner'] = 'center',
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Anchors moved and resized by predictions: corners of boxes, the inverse of box_encode.

    data (B, N, 4), anchors (1, N, 4) in `format` -> (B, N, 4).  With center x, y and size w, h of
    an anchor: center (d0 std0 w + x, d1 std1 h + y), size (exp(d2 std2) w, exp(d3 std3) h), where
    the exponents are at most `clip` if that is positive.  There is no gradient.

    Parameters
    ----------
    format
        'corner': (left, top, right, bottom); 'center': (x, y, width, height)
    """

def box_encode(samples: NDArray, matches: NDArray, anchors: NDArray, refs: NDArray, means: NDArray,
               stds: NDArray, out: NDArray | Sequence[NDArray] | None = None,
               name: str | None = None) -> list[NDArray]:
    """Regression targets of anchors for the boxes that they match, and masks of valid ones.

    samples (B, N), 1 where an anchor is positive; matches (B, N), row indices of refs; anchors
    (B, N, 4) and refs (B, M, 4), corners; means and stds (4,).  Both outputs are (B, N, 4).
    For samples above 0.5, with centers x, y and sizes w, h of the anchor a and its ref r:

        targets = (((rx - ax) / aw, (ry - ay) / ah, log(rw / aw), log(rh / ah)) - means) / stds

    and masks = 1; elsewhere, and where matches are out of range, both are 0.  No gradient.
    """

def box_iou(lhs: NDArray, rhs: NDArray, format: Literal['center', 'corner'] = 'corner',
            out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Intersection over union of every box of lhs (..., 4) with every box of rhs (..., 4).

    The output has the shape lhs[:-1] + rhs[:-1].  Boxes without area have 0.  There is no gradient.

    Parameters
    ----------
    format
        'corner': (left, top, right, bottom); 'center': (x, y, width, height)
    """

def box_nms(data: NDArray, overlap_thresh: float = 0.5, valid_thresh: float = 0.0, topk: int = -1,
            coord_start: int = 2, score_index: int = 1, id_index: int = -1,
            background_id: int = -1, force_suppress: bool | int = False,
            in_format: Literal['center', 'corner'] = 'corner',
            out_format: Literal['center', 'corner'] = 'corner',
            out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> NDArray | Any:
    """Non-maximum suppression: of boxes that overlap, the one with the highest score stays.

    data (..., N, K) -> the same shape: in each group of N, rows that stay by descending score, then
    rows of -1.  A row holds a score, a box from `coord_start` on and, if `id_index` is not -1, a
    class.  Excluded are rows whose score is not above `valid_thresh` or whose class is
    `background_id`, then all but the `topk` best (-1: none; 0: nothing is suppressed, data is
    copied).  A row is suppressed if its iou with a better one that stays is above `overlap_thresh`
    and their classes are the same (or `force_suppress`, or no classes).

    Equal scores keep their order; NaN scores are excluded.  Boxes whose first coordinate is
    negative keep the format of the input, as in MXNet.  The gradient goes to the rows that stay,
    unchanged by formats.  The hidden output, (..., N, 1), has the source index of each row.

    Parameters
    ----------
    score_index
        column of the score
    in_format
        how boxes are written in the data: 'corner' or 'center'
    out_format
        how boxes are written in the result: 'corner' or 'center'
    """

def calibrate_entropy(hist: NDArray, hist_edges: NDArray, num_quantized_bins: int = 255,
                      out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                     ) -> list[NDArray]:
    """The end t of the range [-t, t] with the least divergence, and that divergence, (1,) each.

    hist (B,), hist_edges (B + 1,): a histogram over a range that is symmetric about 0, B odd and
    at least `num_quantized_bins`, the number of integers (255; 511 for half of the range).
    """

def count_sketch(data: NDArray, h: NDArray, s: NDArray, out_dim: int,
                 processing_batch_size: int = 32, out: NDArray | Sequence[NDArray] | None = None,
                 name: str | None = None) -> NDArray:
    """out[n, h[i]] = sum of s[i] data[n, i]: (N, d) -> (N, out_dim); h and s are (1, d).

    h holds columns of the output, s signs; they get no gradient.

    Parameters
    ----------
    processing_batch_size
        accepted for old files; has no effect
    """

def dequantize(data: NDArray, min_range: NDArray, max_range: NDArray,
               out_type: Literal['float32'] = 'float32',
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """y = q m / R: the real values that 8-bit integers represent.

    data of any shape, min_range and max_range (1,); m = max(|min_range|, |max_range|), R is 127.5
    for int8 and 255.5 for uint8.

    Parameters
    ----------
    out_type
        element type of the result
    """

def div_sqrt_dim(data: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                 name: str | None = None) -> NDArray:
    """y = x / sqrt(n), n being the size of the last dimension: the scale of attention scores.

    Shapes: all tensors have one shape.
    """

def fft(data: NDArray, compute_size: int = 128, out: NDArray | Sequence[NDArray] | None = None,
        name: str | None = None) -> NDArray:
    """Fourier transform along the last axis: (..., d) -> (..., 2 d), real and imaginary in turn.

    Parameters
    ----------
    compute_size
        accepted for old files; has no effect
    """

def getnnz(data: NDArray, axis: int | None = None, out: NDArray | Sequence[NDArray] | None = None,
           name: str | None = None) -> NDArray:
    """The number of stored elements of a csr matrix, of those in each column (axis 0) or in each
    row (axis 1); of a dense one, of elements that are not 0.

    Shapes: data is a matrix, output (1,), or a vector for an axis.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def gradientmultiplier(data: NDArray, scalar: float = 1.0, is_int: bool | int = True,
                       out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray:
    """y = x, but the gradient is multiplied: by a negative number it is reversed.

    gx = gy * scalar

    Shapes: all tensors have one shape.

    Parameters
    ----------
    scalar
        the number
    is_int
        with integer data the number is truncated to an integer
    """

def group_adagrad_update(weight: NDArray, grad: NDArray, history: NDArray, lr: float,
                         rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                         epsilon: float = 1e-05, out: NDArray | Sequence[NDArray] | None = None,
                         name: str | None = None) -> NDArray:
    """x = clipped(rescale_grad g);  history = history + mean of x^2 over each row;
    w = w - lr x / sqrt(history + epsilon).

    One rate for every row, as for the vectors of an embedding.  MXNet has this op for row-sparse
    gradients only and computes the dense case in Python.

    Shapes: weight (n, ...), grad as weight, history (n, 1).

    Parameters
    ----------
    lr
        learning rate
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    epsilon
        added to the denominator
    """

def hawkesll(lda: NDArray, alpha: NDArray, beta: NDArray, state: NDArray, lags: NDArray,
             marks: NDArray, valid_length: NDArray, max_time: NDArray,
             out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
            ) -> list[NDArray]:
    """Log likelihood (N,) of histories of events, and the state (N, K) that they leave.

    lda (N, K) are background intensities, alpha (K,) the number of events that one event excites,
    beta (K,) the rate at which that decays, state (N, K) the excitation by earlier events.  Event i
    of history n is of kind marks[n, i], int32, and lags[n, i] after the one before it, both (N, T).
    The first valid_length[n] count; lengths are clipped to [0, T].  A history is observed from 0 to
    max_time[n], both (N,).

        S(t) = state exp(-beta t) + sum over events of that kind at t' < t of exp(-beta (t - t'))
        log likelihood = sum over events of log(lda + alpha beta S)
                         - sum over kinds of the integral of lda + alpha beta S from 0 to max_time

    and the state that is left is S(max_time).  All inputs but marks and valid_length have their
    gradients, from both outputs.  (MXNet has those of lda, alpha and beta, from the likelihood.)
    """

def ifft(data: NDArray, compute_size: int = 128, out: NDArray | Sequence[NDArray] | None = None,
         name: str | None = None) -> NDArray:
    """Real part of the inverse transform, not divided by d: (..., 2 d) -> (..., d).

    Parameters
    ----------
    compute_size
        accepted for old files; has no effect
    """

def index_array(data: NDArray, axes: Sequence[int] | int | None = None,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Every position of data (d1, ..., dn) as its indices: (d1, ..., dn, n), int64.

    `axes` chooses which indices, and in which order.  There is no gradient.
    """

def index_copy(old_tensor: NDArray, index_vector: NDArray, new_tensor: NDArray,
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """old_tensor (N, ...) with rows index_vector (M,) replaced by those of new_tensor (M, ...).

    If an index occurs several times, the last row counts.  A row that old_tensor does not have is
    an error.
    """

def interleaved_matmul_encdec_qk(queries: NDArray, keys_values: NDArray, heads: int,
                                 out: NDArray | Sequence[NDArray] | None = None,
                                 name: str | None = None) -> NDArray:
    """Q K^T / sqrt(E) for every sample and head, (N H, S, T).

    queries (S, N, H E); keys_values (T, N, H 2 E), in every head keys and values.

    Parameters
    ----------
    heads
        number of attention heads
    """

def interleaved_matmul_encdec_valatt(keys_values: NDArray, attention: NDArray, heads: int,
                                     out: NDArray | Sequence[NDArray] | None = None,
                                     name: str | None = None) -> NDArray:
    """attention V for every sample and head, heads concatenated again: (S, N, H E).

    keys_values (T, N, H 2 E), in every head keys and values; attention (N H, S, T).

    Parameters
    ----------
    heads
        number of attention heads
    """

def interleaved_matmul_selfatt_qk(queries_keys_values: NDArray, heads: int,
                                  out: NDArray | Sequence[NDArray] | None = None,
                                  name: str | None = None) -> NDArray:
    """Q K^T / sqrt(E) for every sample and head, (N H, T, T).

    queries_keys_values (T, N, H 3 E), in every head queries, keys and values.

    Parameters
    ----------
    heads
        number of attention heads
    """

def interleaved_matmul_selfatt_valatt(queries_keys_values: NDArray, attention: NDArray, heads: int,
                                      out: NDArray | Sequence[NDArray] | None = None,
                                      name: str | None = None) -> NDArray:
    """attention V for every sample and head, heads concatenated again: (T, N, H E).

    queries_keys_values (T, N, H 3 E), in every head queries, keys and values; attention
    (N H, T, T).

    Parameters
    ----------
    heads
        number of attention heads
    """

def intgemm_fully_connected(data: NDArray, weight: NDArray | None = None,
                            scaling: NDArray | None = None, bias: NDArray | None = None,
                            num_hidden: int = ..., no_bias: bool | int = False,
                            flatten: bool | int = True,
                            out_type: Literal['float32', 'int32'] = 'float32',
                            out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                           ) -> NDArray:
    """y = scaling x W^T + b of int8 matrices: a dense layer whose sums are exact.

    Shapes are those of FullyConnected, `scaling` (1,); W is from `intgemm_prepare_weight`.  Data is
    int8 from `intgemm_prepare_data`, or float32, which is quantized by its own largest magnitude m;
    the sums then count m / 127 each.  So `scaling` is that of the weight, maxabs / 127, and for
    int8 data also that of the data.  The bias has the type of the output.  With `out_type` 'int32'
    there is no `scaling`, nothing is rescaled, and a bias is given by name.

    Parameters
    ----------
    num_hidden
        length of the output's rows
    no_bias
        there is no bias
    flatten
        all axes of the data after the first count as one
    out_type
        element type of the result
    """

def intgemm_maxabsolute(data: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                        name: str | None = None) -> NDArray:
    """The largest magnitude of float32 data of any shape: (1,)."""

def intgemm_prepare_data(data: NDArray, maxabs: NDArray,
                         out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                        ) -> NDArray:
    """y = round(127 x / maxabs) as int8, at most 127 in magnitude.

    data of any shape, maxabs (1,): its largest magnitude, or less to saturate.

    Shapes: data and output the same, maxabs (1,).
    """

def intgemm_prepare_weight(weight: NDArray, maxabs: NDArray | None = None,
                           already_quantized: bool | int = False,
                           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                          ) -> NDArray:
    """The weight of a dense layer as `intgemm_fully_connected` reads it: int8, of the same shape.

    Float32 weights are quantized as by `intgemm_prepare_data`, with maxabs (1,).  Weights that are
    int8 stay as they are, with `already_quantized`; there is no maxabs then.

    Shapes: weight and output the same, maxabs (1,).
    """

def intgemm_take_weight(weight: NDArray, indices: NDArray,
                        out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                       ) -> NDArray:
    """The rows of a prepared weight that compute some of its outputs.

    weight (N, ...) int8, indices (M,) int32 -> (M, ...).  An index out of range is an error.
    """

def quadratic(data: NDArray, a: float = 0.0, b: float = 0.0, c: float = 0.0,
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """y = a x^2 + b x + c.

    Shapes: all tensors have one shape.
    """

def quantize(data: NDArray, min_range: NDArray, max_range: NDArray,
             out_type: Literal['int8', 'uint8'] = 'uint8',
             out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
            ) -> list[NDArray]:
    """y = round(x s) in the given range, with s = 127 / m (int8) or 255 / m (uint8).

    data of any shape, min_range and max_range (1,), m = max(|min_range|, |max_range|) -> the
    integers, and the ends of their range: -m and m (int8), the given ones (uint8).

    Parameters
    ----------
    out_type
        element type of the result
    """

def quantize_asym(data: NDArray, min_calib_range: float | None = None,
                  max_calib_range: float | None = None,
                  out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                 ) -> list[NDArray]:
    """y = round(x scale + shift), uint8: a range that need not be symmetric about 0.

    data of any shape -> the integers, scale = 255 / (high - low) and shift = -low scale, (1,) each.
    [low, high] is the calibrated range if given, else that of the data.

    Shapes: data and output the same, scale and shift (1,).

    Parameters
    ----------
    min_calib_range
        lower end of the calibrated range of an 8-bit result; None: none
    max_calib_range
        upper end of that range
    """

def quantize_v2(data: NDArray, out_type: Literal['auto', 'int8', 'uint8'] = 'int8',
                min_calib_range: float | None = None, max_calib_range: float | None = None,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
               ) -> list[NDArray]:
    """y = round(x s) with s = 127.5 / m (int8) or 255.5 / m (uint8), m the end of the range.

    data of any shape -> the integers, and the ends of their range, (1,) each.  The range is
    [min_calib_range, max_calib_range] if given, else that of the data.  `out_type` 'auto' is uint8
    for a calibrated range without negative values, else int8.  Data that is 8-bit already passes
    as it is, with the range [-127.5, 127.5] or [0, 255.5] unless calibrated.

    Shapes: data and output the same, ranges (1,).

    Parameters
    ----------
    out_type
        element type of the result
    min_calib_range
        lower end of the calibrated range of an 8-bit result; None: none
    max_calib_range
        upper end of that range
    """

def quantized_act(data: NDArray, min_data: NDArray, max_data: NDArray,
                  act_type: Literal['relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'],
                  out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                 ) -> list[NDArray]:
    """y = max(q, 0): ReLU, the only activation supported; the range stays.

    The output has the type of the data.  (MXNet's is int8 always, so that values of uint8 data from
    128 on become negative.)

    Shapes: data and output the same, ranges (1,).

    Parameters
    ----------
    act_type
        the function
    """

def quantized_batch_norm(data: NDArray, gamma: NDArray, beta: NDArray, moving_mean: NDArray,
                         moving_var: NDArray, min_data: NDArray, max_data: NDArray,
                         eps: float = 0.0010000000474974513, momentum: float = 0.9,
                         fix_gamma: bool | int = True, use_global_stats: bool | int = False,
                         output_mean_var: bool | int = False, axis: int = 1,
                         cudnn_off: bool | int = False, min_calib_range: float | None = None,
                         max_calib_range: float | None = None,
                         out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                        ) -> list[NDArray]:
    """BatchNorm of 8-bit data by its moving statistics: int8, in the calibrated range.

    y = gamma (x - mean) / sqrt(var + eps) + beta, per channel along axis 1; gamma, beta,
    moving_mean and moving_var are (C,).  As in MXNet gamma counts even with `fix_gamma`, the slope
    is divided by sqrt(1 + eps) once more, and uint8 data loses its lowest bit.

    Shapes: data and output (N, C, ...), ranges (1,), all others (C,).

    Parameters
    ----------
    eps
        added to the variance
    momentum
        decay rate of the moving average, or of the step
    fix_gamma
        gamma counts as 1 and gets no gradient
    use_global_stats
        normalise with the moving averages in training, too
    output_mean_var
        mean and variance are outputs as well
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    cudnn_off
        accepted for old files; has no effect
    min_calib_range
        lower end of the calibrated range of an 8-bit result; None: none
    max_calib_range
        upper end of that range
    """

def quantized_concat(*data: NDArray, num_args: int = ..., dim: int = 1,
                     out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                    ) -> list[NDArray]:
    """Tensors concatenated along axis `dim`, all rescaled to the range that includes theirs.

    num_args tensors, then the two bounds of the range of each.  The new range is from the least to
    the largest bound; the output is uint8 if all tensors are, else int8.

    Shapes: tensors (..., k_i, ...) -> (..., sum of k_i, ...), ranges (1,).

    Parameters
    ----------
    num_args
        number of tensors; functions count them
    dim
        axis of concatenation
    """

def quantized_conv(data: NDArray, weight: NDArray | None = None, bias: NDArray | None = None,
                   min_data: NDArray | None = None, max_data: NDArray | None = None,
                   min_weight: NDArray | None = None, max_weight: NDArray | None = None,
                   min_bias: NDArray | None = None, max_bias: NDArray | None = None,
                   kernel: Sequence[int] | int = ..., stride: Sequence[int] | int = (),
                   dilate: Sequence[int] | int = (), pad: Sequence[int] | int = (),
                   num_filter: int = ..., num_group: int = 1, workspace: int = 1024,
                   no_bias: bool | int = False,
                   cudnn_tune: Literal['fastest', 'limited_workspace', 'off'] | None = None,
                   cudnn_off: bool | int = False,
                   layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC'] | None = None,
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> list[NDArray]:
    """Convolution of 8-bit data with int8 filters: exact sums, int32.

    Shapes are those of Convolution, ranges (1,).  The output's range is 2**31 - 1 steps of
    (m_data / R) (m_weight / 127), R being 127 for int8 and 255 for uint8 data.  `bias` is rescaled
    to the steps of the sums and truncated.  MXNet does so on a GPU; on a CPU it takes R to be 127
    for uint8 data and adds `bias` as it is, which distorts results.

    Parameters
    ----------
    kernel
        size of the window along each image axis
    stride
        step of the window along each image axis; (): 1
    dilate
        distance between the taps of the window; (): 1
    pad
        zeros added at both ends of each image axis; (): none
    num_filter
        number of filters: channels of the output
    num_group
        number of groups of channels that are convolved separately
    workspace
        accepted for old files; has no effect
    no_bias
        there is no bias
    cudnn_tune
        accepted for old files; has no effect
    cudnn_off
        accepted for old files; has no effect
    layout
        order of the axes, such as NCHW or NHWC; None: channels first
    """

def quantized_elemwise_add(lhs: NDArray, rhs: NDArray, lhs_min: NDArray, lhs_max: NDArray,
                           rhs_min: NDArray, rhs_max: NDArray,
                           min_calib_range: float | None = None,
                           max_calib_range: float | None = None,
                           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                          ) -> list[NDArray]:
    """The sum of two tensors of 8-bit integers, each with its range.

    With a calibrated range the output is 8-bit: uint8 if both tensors are, else int8; of a uint8
    and an int8 tensor the former is rescaled to the output's range and rounded before the sum.
    Otherwise it is int32, in the range [-m, m] with m the sum of both ends.

    Shapes: lhs, rhs and output the same, ranges (1,).

    Parameters
    ----------
    min_calib_range
        lower end of the calibrated range of an 8-bit result; None: none
    max_calib_range
        upper end of that range
    """

def quantized_elemwise_mul(lhs: NDArray, rhs: NDArray, lhs_min: NDArray, lhs_max: NDArray,
                           rhs_min: NDArray, rhs_max: NDArray,
                           min_calib_range: float | None = None,
                           max_calib_range: float | None = None,
                           enable_float_output: bool | int = False,
                           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                          ) -> NDArray | Any:
    """The product of two tensors of int8 integers, each with its range.

    `enable_float_output` gives real values; a calibrated range int8, truncated;
    otherwise the output is the products, int32, with the range of a product of int8 values.

    Shapes: lhs, rhs and output the same, ranges (1,).

    Parameters
    ----------
    min_calib_range
        lower end of the calibrated range of an 8-bit result; None: none
    max_calib_range
        upper end of that range
    """

def quantized_embedding(data: NDArray, weight: NDArray, min_weight: NDArray, max_weight: NDArray,
                        input_dim: int, output_dim: int, dtype: DTypeLike = 'float32',
                        sparse_grad: bool | int = False,
                        out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                       ) -> list[NDArray]:
    """Rows of an int8 table: y[i] = weight[data[i]]; the range is that of the table.

    data of any shape and type, weight (input_dim, output_dim) -> (*data, output_dim).  Indices
    outside of the table are clipped to its first or last row.

    Parameters
    ----------
    dtype
        element type of the result
    sparse_grad
        whether gradients of arrays are row_sparse
    """

def quantized_flatten(data: NDArray, min_data: NDArray, max_data: NDArray,
                      out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                     ) -> list[NDArray]:
    """The integers as a matrix: (N, ...) -> (N, product of the rest); the range stays."""

def quantized_fully_connected(data: NDArray, weight: NDArray | None = None,
                              bias: NDArray | None = None, min_data: NDArray | None = None,
                              max_data: NDArray | None = None, min_weight: NDArray | None = None,
                              max_weight: NDArray | None = None, min_bias: NDArray | None = None,
                              max_bias: NDArray | None = None, num_hidden: int = ...,
                              no_bias: bool | int = False, flatten: bool | int = True,
                              out: NDArray | Sequence[NDArray] | None = None,
                              name: str | None = None) -> list[NDArray]:
    """A dense layer of 8-bit data and int8 weights: exact sums, int32.

    Shapes are those of FullyConnected, ranges (1,).  The output's range is 2**31 - 1 steps of
    (m_data / R) (m_weight / 127), R being 127 for int8 and 255 for uint8 data.  `bias` is rescaled
    to the steps of the sums and truncated.

    Parameters
    ----------
    num_hidden
        length of the output's rows
    no_bias
        there is no bias
    flatten
        all axes of the data after the first count as one
    """

def quantized_pooling(data: NDArray, min_data: NDArray, max_data: NDArray,
                      kernel: Sequence[int] | int = (),
                      pool_type: Literal['avg', 'lp', 'max', 'sum'] = 'max',
                      global_pool: bool | int = False, cudnn_off: bool | int = False,
                      pooling_convention: Literal['full', 'same', 'valid'] = 'valid',
                      stride: Sequence[int] | int = (), pad: Sequence[int] | int = (),
                      p_value: int | None = None, count_include_pad: bool | int | None = None,
                      layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC', 'NWC'] | None = None,
                      out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                     ) -> list[NDArray]:
    """Pooling of 8-bit data: maxima as they are, means rounded (halves to even); the range stays.

    Shapes are those of Pooling, ranges (1,); `pool_type` is 'max' or 'avg'.  A mean is over all
    pixels of the window, padding included; with `count_include_pad` False padding is excluded.

    Parameters
    ----------
    kernel
        size of the window along each image axis
    pool_type
        the reduction of a window: its maximum, mean, sum or Lp norm
    global_pool
        one window over the whole image
    cudnn_off
        accepted for old files; has no effect
    pooling_convention
        how output sizes are rounded: 'valid' down, 'full' up, 'same' to ceil(size / stride)
    stride
        step of the window along each image axis; (): 1
    pad
        zeros added at both ends of each image axis; (): none
    p_value
        the p of Lp pooling
    layout
        order of the axes, such as NCHW or NHWC; None: channels first
    """

def requantize(data: NDArray, min_range: NDArray, max_range: NDArray,
               out_type: Literal['auto', 'int8', 'uint8'] = 'int8',
               min_calib_range: float | None = None, max_calib_range: float | None = None,
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
              ) -> list[NDArray]:
    """Sums of products, int32, as 8-bit integers: y = round(q s).

    data of any shape, min_range and max_range (1,) -> the integers and the ends of their range.
    q represents r = q max(|min_range|, |max_range|) / (2**31 - 1).  With m the end of the
    calibrated range, else of the data, y is r 127 / m (int8) or r 255 / m (uint8), and
    the new range [-m, m] or [0, m].  `out_type` 'auto' is uint8 for a calibrated range without
    negative values, else int8.

    Parameters
    ----------
    out_type
        element type of the result
    min_calib_range
        lower end of the calibrated range of an 8-bit result; None: none
    max_calib_range
        upper end of that range
    """

def round_ste(data: NDArray, out: NDArray | Sequence[NDArray] | None = None,
              name: str | None = None) -> NDArray:
    """The nearest whole number, halves away from 0.  Its gradient passes straight through.

    x = data
    y = trunc(x) - where(abs(x - trunc(x)) >= 0.5, where(x > 0, -1, 1), 0)
    gx = gy

    Shapes: all tensors have one shape.
    """

def sign_ste(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
            ) -> NDArray:
    """-1, 0 or 1.  Its gradient passes straight through.

    x = data
    y = where(x > 0, 1, where(x < 0, -1, 0))
    gx = gy

    Shapes: all tensors have one shape.
    """

box_non_maximum_suppression = box_nms

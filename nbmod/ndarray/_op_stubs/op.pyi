# Written by `python docs/generate_stubs.py`.
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import DTypeLike

from ...context import Context
from ..ndarray import NDArray

__all__: list[str] = ["Activation", "BBoxNorm", "BatchNorm", "BatchNorm_v1", "BilinearSampler",
                      "BlockGrad", "BroadcastScale", "CTCLoss", "Cast", "Concat", "Convolution",
                      "Convolution_v1", "Correlation", "Crop", "CuDNNBatchNorm", "Custom",
                      "DecodeBBox", "Deconvolution", "Dropout", "ElementWiseSum", "Embedding",
                      "Flatten", "FocalLoss", "FullyConnected", "GenAnchor", "GenProposalRetina",
                      "GridGenerator", "GroupNorm", "IdentityAttachKLSparseReg", "InstanceNorm",
                      "L2Normalization", "LRN", "LayerNorm", "LeakyReLU", "LinearRegressionOutput",
                      "LogisticRegressionOutput", "MAERegressionOutput", "MakeLoss", "Pad",
                      "Pooling", "Pooling_v1", "ProposalMaskTarget", "ProposalTarget",
                      "ProposalTarget_v2", "Proposal_v2", "Proposal_v3", "Quantization_int8",
                      "RNN", "ROIAlign_v2", "ROIPooling", "Reshape", "SVMOutput", "SequenceLast",
                      "SequenceMask", "SequenceReverse", "SigmoidCrossEntropy", "SliceChannel",
                      "Softmax", "SoftmaxActivation", "SoftmaxOutput", "SpatialTransformer",
                      "SwapAxis", "UpSampling", "abs", "adam_update", "add_n", "all_finite",
                      "amp_cast", "amp_multicast", "arccos", "arccosh", "arcsin", "arcsinh",
                      "arctan", "arctanh", "argmax", "argmax_channel", "argmin", "argsort",
                      "batch_dot", "batch_take", "broadcast_add", "broadcast_axes",
                      "broadcast_axis", "broadcast_div", "broadcast_equal", "broadcast_greater",
                      "broadcast_greater_equal", "broadcast_hypot", "broadcast_lesser",
                      "broadcast_lesser_equal", "broadcast_like", "broadcast_logical_and",
                      "broadcast_logical_or", "broadcast_logical_xor", "broadcast_maximum",
                      "broadcast_minimum", "broadcast_minus", "broadcast_mod", "broadcast_mul",
                      "broadcast_not_equal", "broadcast_plus", "broadcast_power", "broadcast_sub",
                      "broadcast_to", "cast", "cast_storage", "cbrt", "ceil",
                      "choose_element_0index", "clip", "col2im", "concat", "cos", "cosh", "crop",
                      "ctc_loss", "cumsum", "degrees", "depth_to_space", "diag", "dot",
                      "elemwise_add", "elemwise_div", "elemwise_mul", "elemwise_sub", "erf",
                      "erfinv", "exp", "expand_dims", "expm1", "fill_element_0index", "fix",
                      "flatten", "flip", "floor", "ftml_update", "ftrl_update", "gamma", "gammaln",
                      "gather_nd", "hard_sigmoid", "identity", "im2col", "khatri_rao",
                      "lamb_update_phase1", "lamb_update_phase2", "linalg_det",
                      "linalg_extractdiag", "linalg_extracttrian", "linalg_gelqf", "linalg_gemm",
                      "linalg_gemm2", "linalg_inverse", "linalg_makediag", "linalg_maketrian",
                      "linalg_potrf", "linalg_potri", "linalg_slogdet", "linalg_sumlogdiag",
                      "linalg_syevd", "linalg_syrk", "linalg_trmm", "linalg_trsm", "log", "log10",
                      "log1p", "log2", "log_softmax", "logical_not", "make_loss", "max",
                      "max_axis", "mean", "min", "min_axis", "moments", "mp_lamb_update_phase1",
                      "mp_lamb_update_phase2", "mp_nag_mom_update", "mp_sgd_mom_update",
                      "mp_sgd_update", "multi_all_finite", "multi_lars", "multi_mp_sgd_mom_update",
                      "multi_mp_sgd_update", "multi_sgd_mom_update", "multi_sgd_update",
                      "multi_sum_sq", "nag_mom_update", "nanprod", "nansum", "negative", "norm",
                      "normal", "one_hot", "ones_like", "pad", "pick",
                      "preloaded_multi_mp_sgd_mom_update", "preloaded_multi_mp_sgd_update",
                      "preloaded_multi_sgd_mom_update", "preloaded_multi_sgd_update", "prod",
                      "radians", "random_exponential", "random_gamma",
                      "random_generalized_negative_binomial", "random_negative_binomial",
                      "random_normal", "random_pdf_dirichlet", "random_pdf_exponential",
                      "random_pdf_gamma", "random_pdf_generalized_negative_binomial",
                      "random_pdf_negative_binomial", "random_pdf_normal", "random_pdf_poisson",
                      "random_pdf_uniform", "random_poisson", "random_randint", "random_uniform",
                      "ravel_multi_index", "rcbrt", "reciprocal", "relu", "repeat", "reset_arrays",
                      "reshape", "reshape_like", "reverse", "rint", "rmsprop_update",
                      "rmspropalex_update", "round", "rsqrt", "sample_exponential", "sample_gamma",
                      "sample_generalized_negative_binomial", "sample_multinomial",
                      "sample_negative_binomial", "sample_normal", "sample_poisson",
                      "sample_uniform", "scatter_nd", "sgd_mom_update", "sgd_update",
                      "shape_array", "shuffle", "sigmoid", "sign", "signsgd_update",
                      "signum_update", "sin", "sinh", "size_array", "slice", "slice_axis",
                      "slice_like", "smooth_l1", "softmax", "softmax_cross_entropy", "softmin",
                      "softsign", "sort", "space_to_depth", "split", "sqrt", "square", "squeeze",
                      "stack", "stop_gradient", "sum", "sum_axis", "swapaxes", "take", "tan",
                      "tanh", "tile", "topk", "transpose", "trunc", "uniform", "unravel_index",
                      "where", "zeros_like"]
def Activation(data: NDArray, act_type: Literal['relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'],
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """y = f(x): relu, sigmoid, tanh, softrelu = log(1 + e^x) or softsign = x / (1 + |x|).

    Shapes: all tensors have one shape.

    Parameters
    ----------
    act_type
        the function
    """

def BatchNorm(data: NDArray, gamma: NDArray, beta: NDArray, moving_mean: NDArray,
              moving_var: NDArray, eps: float = 0.0010000000474974513, momentum: float = 0.9,
              fix_gamma: bool | int = True, use_global_stats: bool | int = False,
              output_mean_var: bool | int = False, axis: int = 1, cudnn_off: bool | int = False,
              min_calib_range: float | None = None, max_calib_range: float | None = None,
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
             ) -> NDArray | Any:
    """y = gamma (x - mean) / sqrt(var + eps) + beta, per channel along `axis`.

    In training mean and (biased) variance are the batch's, in inference and with `use_global_stats`
    the moving ones.  Data of any rank; gamma, beta and the moving statistics are (C,), and float32
    where the data is float16.  Outputs 1 and 2 are the mean and 1 / sqrt(var + eps) that were used;
    `output_mean_var` makes them visible.

    As in MXNet, `fix_gamma` (the default) means gamma = 1, and a forward pass of an executor that
    can train writes these ones into the array; moving statistics are updated in the backward pass,
    to momentum moving + (1 - momentum) batch; gradients of outputs 1 and 2 are ignored.

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

def BilinearSampler(data: NDArray, grid: NDArray, cudnn_off: bool | int | None = None,
                    out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                   ) -> NDArray:
    """data (N, C, H, W) sampled at the points of grid (N, 2, OH, OW): output (N, C, OH, OW).

    Point (x, y) is at column (x + 1) (W - 1) / 2 and row (y + 1) (H - 1) / 2, interpolated
    bilinearly from the four pixels around it; pixels outside of the image are 0.  Both inputs have
    gradients; on a pixel, that of the grid is the one towards the next pixel.

    Parameters
    ----------
    cudnn_off
        accepted for old files; has no effect
    """

def BlockGrad(data: NDArray, out: NDArray | Sequence[NDArray] | None = None,
              name: str | None = None) -> NDArray:
    """y = x, and no gradient passes.

    Shapes: data and output have one shape.
    """

def CTCLoss(data: NDArray, label: NDArray | None = None, data_lengths: NDArray | None = None,
            label_lengths: NDArray | None = None, use_data_lengths: bool | int = False,
            use_label_lengths: bool | int = False, blank_label: Literal['first', 'last'] = 'first',
            out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> NDArray | Any:
    """- log of the probability of a label sequence under softmax(data) (T, N, C); loss (N,).

    label (N, L), L <= T.  With blank_label 'first' class 0 is the blank and labels end at a 0; with
    'last' it is class C - 1 and they end at a -1.  data_lengths and label_lengths (N,) are read
    with `use_data_lengths` and `use_label_lengths`.  Where no path exists, since there are too many
    labels for the steps, loss and gradient are 0.  (Graves et al. 2006.)
    """

def Cast(data: NDArray, dtype: DTypeLike, out: NDArray | Sequence[NDArray] | None = None,
         name: str | None = None) -> NDArray:
    """y = x as `dtype`;  gx = gy as the type of x.

    Reals become integers by dropping the fraction, modulo the range of the type (300 as uint8 is
    44, -1.5 is 255); anything but 0 becomes True.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    dtype
        element type of the result
    """

def Concat(*data: NDArray, num_args: int = ..., dim: int = 1,
           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """The inputs concatenated along `dim`; they agree in all other dimensions.

    Shapes: data (2, 3), (2, 4), dim=1 -> (2, 7).

    Parameters
    ----------
    num_args
        number of tensors; functions count them
    dim
        axis of concatenation
    """

def Convolution(data: NDArray, weight: NDArray | None = None, bias: NDArray | None = None,
                kernel: Sequence[int] | int = ..., stride: Sequence[int] | int = (),
                dilate: Sequence[int] | int = (), pad: Sequence[int] | int = (),
                num_filter: int = ..., num_group: int = 1, workspace: int = 1024,
                no_bias: bool | int = False,
                cudnn_tune: Literal['fastest', 'limited_workspace', 'off'] | None = None,
                cudnn_off: bool | int = False,
                layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC'] | None = None,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Sliding products of `data` with `num_filter` filters.

    data (N, C, *image), weight (F, C / G, *kernel), bias (F,) -> (N, F, *out), where
    out = (image + 2 pad - dilate (kernel - 1) - 1) // stride + 1.  The length of `kernel` (1 to 3)
    is the number of image axes.  With `num_group` G, filters of group g see channels of group g
    only.  A channels-last layout has data (N, *image, C) and weight (F, *kernel, C / G).
    `workspace`, `cudnn_tune` and `cudnn_off` are accepted and mean nothing.

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

def Convolution_v1(data: NDArray, weight: NDArray | None = None, bias: NDArray | None = None,
                   kernel: Sequence[int] | int = ..., stride: Sequence[int] | int = (),
                   dilate: Sequence[int] | int = (), pad: Sequence[int] | int = (),
                   num_filter: int = ..., num_group: int = 1, workspace: int = 1024,
                   no_bias: bool | int = False,
                   cudnn_tune: Literal['fastest', 'limited_workspace', 'off'] | None = None,
                   cudnn_off: bool | int = False,
                   layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC'] | None = None,
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
    """The name of Convolution before MXNet 0.9, kept in old files; real MXNet knows 2-D only.

    Shapes: those of Convolution.

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

def Correlation(data1: NDArray, data2: NDArray, kernel_size: int = 1, max_displacement: int = 1,
                stride1: int = 1, stride2: int = 1, pad_size: int = 0,
                is_multiply: bool | int = True, out: NDArray | Sequence[NDArray] | None = None,
                name: str | None = None) -> NDArray:
    """Similarity of patches of data1 and data2 (N, C, H, W): output (N, D D, OH, OW).

    Patches are K = `kernel_size` (odd) pixels wide, in images with `pad_size` zeros around.  Those
    of data1 are centred at rows and columns M + r, M + r + `stride1`, ..., with M =
    `max_displacement` and r = (K - 1) / 2, as many as leave M + r pixels at the end: OH =
    ceil((H + 2 pad - 2 (M + r)) / stride1).  Channel d compares with the patch of data2 that is
    moved down by (d // D - D // 2) `stride2` and right by (d % D - D // 2) `stride2` pixels,
    D = 2 (M // stride2) + 1.  With p and q the pixels of both patches, it is

        sum p q / (K K C)      or, unless `is_multiply`,      sum |p - q| / (K K C).
    """

def Crop(*data: NDArray, num_args: int = ..., offset: Sequence[int] | int = (0, 0),
         h_w: Sequence[int] | int = (0, 0), center_crop: bool | int = False,
         out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """A window of the last two axes of (N, C, H, W).

    Its size is that of the second input, or `h_w` if there is one input; it starts at `offset`, or
    is centered if `center_crop`.

    Parameters
    ----------
    num_args
        number of tensors; functions count them
    offset
        which diagonal: 0 the main one, positive ones above it
    """

def Custom(*data: NDArray, op_type: str = ..., out: NDArray | Sequence[NDArray] | None = None,
           name: str | None = None, **kwargs: Any) -> NDArray | Any:
    """y_1, y_2, ... = f(x_1, x_2, ...), with f and its gradient written in Python.

    `op_type` is the name under which a `CustomOpProp` was registered with `mx.operator.register`.
    All further parameters go to its constructor, as text.  It defines names, shapes and types of
    inputs, auxiliary states and outputs, and creates the `CustomOp` that computes: one for each
    bound executor, so it may keep intermediate results of forward for backward.

    Shapes: as the operator's own infer_shape says.
    """

def Deconvolution(data: NDArray, weight: NDArray | None = None, bias: NDArray | None = None,
                  kernel: Sequence[int] | int = ..., stride: Sequence[int] | int = (),
                  dilate: Sequence[int] | int = (), pad: Sequence[int] | int = (),
                  adj: Sequence[int] | int = (), target_shape: Sequence[int] | int = (),
                  num_filter: int = ..., num_group: int = 1, workspace: int = 512,
                  no_bias: bool | int = True,
                  cudnn_tune: Literal['fastest', 'limited_workspace', 'off'] | None = None,
                  cudnn_off: bool | int = False,
                  layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC'] | None = None,
                  out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                 ) -> NDArray:
    """Every pixel of `data` adds a multiple of a filter to the output.

    data (N, C, *image), weight (C, F / G, *kernel), bias (F,) -> (N, F, *out), where
    out = (image - 1) stride + dilate (kernel - 1) + 1 - 2 pad + adj.  `target_shape` names out
    itself; `pad` and `adj` then follow from it and those given do not count.  There is no bias
    unless `no_bias` is False.  `workspace`, `cudnn_tune` and `cudnn_off` are accepted and mean
    nothing.  (Real MXNet cannot run every `target_shape` in float32, nor 3-D in float64.)

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

def Dropout(data: NDArray, p: float = 0.5, mode: Literal['always', 'training'] = 'training',
            axes: Sequence[int] | int = (), cudnn_off: bool | int | None = False,
            out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> NDArray | Any:
    """y = data mask, where mask is 1 / (1 - p) with probability 1 - p, else 0.

    In inference y = data, unless `mode` is "always".  The mask is the same along `axes`.  Hidden
    output 1 is the mask that was used; gradients are multiplied by it.

    Shapes: data, output and mask have one shape; the mask is of size 1 along `axes`.

    Parameters
    ----------
    p
        probability that an element is dropped
    mode
        which of the variants the text above describes
    cudnn_off
        accepted for old files; has no effect
    """

def Embedding(data: NDArray, weight: NDArray, input_dim: int, output_dim: int,
              dtype: DTypeLike = 'float32', sparse_grad: bool | int = False,
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Rows of `weight` (input_dim, output_dim) at `data`: (*data, output_dim).

    Indices outside are clipped.  With `sparse_grad`, gradients of arrays are row_sparse.

    Parameters
    ----------
    dtype
        element type of the result
    sparse_grad
        whether gradients of arrays are row_sparse
    """

def Flatten(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> NDArray:
    """(N, ...) to (N, all the rest)."""

def FullyConnected(data: NDArray, weight: NDArray | None = None, bias: NDArray | None = None,
                   num_hidden: int = ..., no_bias: bool | int = False, flatten: bool | int = True,
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
    """Y = X W^T + b.

    weight (num_hidden, I), bias (num_hidden,) or (num_hidden, 1).  With `flatten`, data (N, ...)
    counts as (N, I) and the output is (N, num_hidden); without, data (..., I) gives
    (..., num_hidden).

    Parameters
    ----------
    num_hidden
        length of the output's rows
    no_bias
        there is no bias
    flatten
        all axes of the data after the first count as one
    """

def GridGenerator(data: NDArray, transform_type: Literal['affine', 'warp'],
                  target_shape: Sequence[int] | int = (0, 0),
                  out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                 ) -> NDArray:
    """The sampling grid (N, 2, OH, OW) of an affine map or an optical flow.

    'affine': data (N, 6) are matrices [[a, b, c], [d, e, f]], row by row; the grid at a pixel of
    coordinates (x, y) is (a x + b y + c, d x + e y + f).  (OH, OW) is `target_shape`.
    'warp': data (N, 2, OH, OW) is a flow in pixels; the grid at column j and row i has the
    coordinates of (j + data[0], i + data[1]).  `target_shape` is ignored.
    Coordinates are from -1 to 1 along both axes (-1 for an axis of one pixel).

    Parameters
    ----------
    transform_type
        'affine': the input is an affine matrix, 2 x 3; 'warp': an optical flow
    """

def GroupNorm(data: NDArray, gamma: NDArray, beta: NDArray, num_groups: int = 1,
              eps: float = 1e-05, output_mean_var: bool | int = False,
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
             ) -> NDArray | Any:
    """y = gamma (x - mean) / sqrt(var + eps) + beta over groups of channels of each sample.

    data (N, C, ...) with C a multiple of `num_groups` = G.  gamma and beta are (G,): one per group,
    as in MXNet 1.9, not one per channel.  Outputs 1 and 2 (visible with `output_mean_var`) are mean
    and sqrt(var + eps), (N, G); their gradients are ignored.

    Parameters
    ----------
    eps
        added to the variance
    output_mean_var
        mean and variance are outputs as well
    """

def IdentityAttachKLSparseReg(data: NDArray, moving_avg: NDArray, sparseness_target: float = 0.1,
                              penalty: float = 0.001, momentum: float = 0.9,
                              out: NDArray | Sequence[NDArray] | None = None,
                              name: str | None = None) -> NDArray:
    """y = data (N, C), activations in (0, 1), with a penalty that keeps their averages low.

    The backward pass moves moving_avg (C,) to momentum moving_avg + (1 - momentum) mean(data) and
    adds penalty (-t / moving_avg + (1 - t) / (1 - moving_avg)) to the gradient, t being
    `sparseness_target`.

    Parameters
    ----------
    momentum
        decay rate of the moving average, or of the step
    """

def InstanceNorm(data: NDArray, gamma: NDArray, beta: NDArray, eps: float = 0.001,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray | Any:
    """y = gamma (x - mean) / sqrt(var + eps) + beta over the pixels of each channel of each sample.

    data (N, C, ...), gamma and beta (C,).

    Parameters
    ----------
    eps
        added to the variance
    """

def L2Normalization(data: NDArray, eps: float = 1e-10,
                    mode: Literal['channel', 'instance', 'spatial'] = 'instance',
                    out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                   ) -> NDArray | Any:
    """y = x / sqrt(sum of x^2 + eps), the sum over

    instance  everything but the first axis
    channel   axis 1 of data (N, C, L, ...), for each position
    spatial   everything but the first two axes of data (N, C, L, ...)

    Parameters
    ----------
    eps
        added to the sum of squares
    mode
        which of the variants the text above describes
    """

def LRN(data: NDArray, alpha: float = 0.0001, beta: float = 0.75, knorm: float = 2.0,
        nsize: int = ..., out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
       ) -> NDArray | Any:
    """y = x (knorm + alpha / nsize * sum of x^2)^-beta, the sum over neighbouring channels.

    data (N, C, ...).  The window is `nsize` channels centred on each; for an even `nsize` it is one
    less, still divided by `nsize`, as in MXNet.
    """

def LayerNorm(data: NDArray, gamma: NDArray, beta: NDArray, axis: int = -1, eps: float = 1e-05,
              output_mean_var: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
              name: str | None = None) -> NDArray | Any:
    """y = gamma (x - mean) / sqrt(var + eps) + beta along `axis`, for each position elsewhere.

    gamma and beta are (K,), K the length of `axis`.  Outputs 1 and 2 (visible with
    `output_mean_var`) are mean and sqrt(var + eps), shaped like data with 1 for `axis`; their
    gradients are ignored.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    eps
        added to the variance
    output_mean_var
        mean and variance are outputs as well
    """

def LeakyReLU(data: NDArray, gamma: NDArray | None = None,
              act_type: Literal['elu', 'gelu', 'leaky', 'prelu', 'rrelu', 'selu'] = 'leaky',
              slope: float = 0.25, lower_bound: float = 0.125, upper_bound: float = 0.334,
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
             ) -> NDArray | Any:
    """y = x where x > 0 and, elsewhere or everywhere, by `act_type`:

    leaky  slope x
    prelu  gamma x, gamma learned: (C,) along axis 1 of data, (1,), or (N, C) with 1 where it
           broadcasts (after BatchNorm MXNet's gradient of gamma is gamma times too small: it
           reads data that y has overwritten)
    elu    slope (e^x - 1)
    selu   1.67326 (e^x - 1), all of it times 1.0507; below 0 the gradient is 1.0507 (y + 1.67326)
           as in MXNet, not the derivative 1.0507 * 1.67326 + y
    gelu   x (1 + erf(x / sqrt(2))) / 2 everywhere
    rrelu  m x, m drawn uniformly from [lower_bound, upper_bound) for each element in training,
           their mean in inference; the second output is m

    Shapes: data and output have one shape.

    Parameters
    ----------
    act_type
        the function
    lower_bound
        smallest random slope of 'rrelu'
    upper_bound
        largest random slope of 'rrelu'
    """

def LinearRegressionOutput(data: NDArray, label: NDArray, grad_scale: float = 1.0,
                           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                          ) -> NDArray:
    """y = data; gradient grad_scale (y - label) / (labels per sample).

    label is shaped like data, or (N,) for data (N, 1); any shape with as many elements will do.

    Shapes: label is shaped like data, or (N,) for data (N, 1).
    """

def LogisticRegressionOutput(data: NDArray, label: NDArray, grad_scale: float = 1.0,
                             out: NDArray | Sequence[NDArray] | None = None,
                             name: str | None = None) -> NDArray:
    """y = 1 / (1 + exp(-data)); gradient grad_scale (y - label) / (labels per sample).

    Shapes: label is shaped like data, or (N,) for data (N, 1).
    """

def MAERegressionOutput(data: NDArray, label: NDArray, grad_scale: float = 1.0,
                        out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                       ) -> NDArray:
    """y = data; gradient grad_scale sign(y - label) / (labels per sample), -1 where they agree.

    Shapes: label is shaped like data, or (N,) for data (N, 1).
    """

def MakeLoss(data: NDArray, grad_scale: float = 1.0, valid_thresh: float = 0.0,
             normalization: Literal['batch', 'null', 'valid'] = 'null',
             out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """y = data, which is itself the loss: the gradient is grad_scale everywhere.

    `normalization` divides it by the first dimension ("batch"; by 1 for data of one dimension, as
    in MXNet) or by the number of elements above `valid_thresh`, at least 1 ("valid").

    Shapes: data and output have one shape.

    Parameters
    ----------
    normalization
        what the gradient is divided by
    """

def Pad(data: NDArray, mode: Literal['constant', 'edge', 'reflect'],
        pad_width: Sequence[int] | int, constant_value: float = 0.0,
        out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """`data` with padding: `pad_width` is (before, after) of every axis, flat.

    constant: filled with `constant_value`; edge: the nearest element; reflect: mirrored at the
    outermost element, which is not repeated.

    Parameters
    ----------
    mode
        which of the variants the text above describes
    """

def Pooling(data: NDArray, kernel: Sequence[int] | int = (),
            pool_type: Literal['avg', 'lp', 'max', 'sum'] = 'max', global_pool: bool | int = False,
            cudnn_off: bool | int = False,
            pooling_convention: Literal['full', 'same', 'valid'] = 'valid',
            stride: Sequence[int] | int = (), pad: Sequence[int] | int = (),
            p_value: int | None = None, count_include_pad: bool | int | None = None,
            layout: Literal['NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC', 'NWC'] | None = None,
            out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """The maximum, mean, sum or p-norm of every window of `kernel` pixels.

    data (N, C, *image) -> (N, C, *out), or channels last as `layout` says.  out is
    (image + 2 pad - kernel) / stride + 1, rounded down ('valid') or up ('full'), or image / stride
    rounded up ('same', 1-D without pad only).  `global_pool` makes the window the whole image.

    The stride is 1 unless given.  A mean is over the pixels of the window that lie in the image and
    its padding, with `count_include_pad` False in the image alone.  'lp' is the p-th root of the
    sum of p-th powers, p_value 1, 2 or 3, without absolute values, as in MXNet.  The gradient of a
    maximum goes to the first of equal pixels.  A window without any pixel gives the lowest number,
    or 0.  (Real MXNet's float32 mean counts clipped windows one way forward, another way backward.)

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
        pixels added at both ends of each image axis; (): none
    p_value
        the p of Lp pooling
    layout
        order of the axes, such as NCHW or NHWC; None: channels first
    """

def Pooling_v1(data: NDArray, kernel: Sequence[int] | int = (),
               pool_type: Literal['avg', 'max', 'sum'] = 'max', global_pool: bool | int = False,
               pooling_convention: Literal['full', 'valid'] = 'valid',
               stride: Sequence[int] | int = (), pad: Sequence[int] | int = (),
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Pooling as it was before MXNet 0.9: kept for old files, computed with NumPy.

    2-D, data (N, C, H, W).  It differs from Pooling: zeros of the padding take part in a maximum,
    means are over the whole kernel wherever it is, and equal maxima all get the gradient.

    Parameters
    ----------
    kernel
        size of the window along each image axis
    pool_type
        the reduction of a window: its maximum, mean, sum or Lp norm
    global_pool
        one window over the whole image
    pooling_convention
        how output sizes are rounded: 'valid' down, 'full' up, 'same' to ceil(size / stride)
    stride
        step of the window along each image axis; (): 1
    pad
        pixels added at both ends of each image axis; (): none
    """

def ProposalMaskTarget(rois: NDArray, gt_boxes: NDArray | None = None,
                       gt_polys: NDArray | None = None, valid_ranges: NDArray | None = None,
                       num_classes: int = ..., batch_images: int = ..., image_rois: int = ...,
                       fg_thresh: float = ..., bg_thresh_hi: float = ...,
                       bg_thresh_lo: float = ..., proposal_without_gt: bool | int = ...,
                       fg_fraction: float = 0.25, class_agnostic: bool | int = False,
                       output_iou: bool | int = False,
                       bbox_mean: Sequence[float] | float = (0.0, 0.0, 0.0, 0.0),
                       bbox_std: Sequence[float] | float = (0.1, 0.1, 0.2, 0.2),
                       bbox_weight: Sequence[float] | float = (1.0, 1.0, 1.0, 1.0),
                       ohem: bool | int = False, filter_scales: bool | int = False,
                       mask_size: int = ..., num_args: int = 3, output_ratio: bool | int = False,
                       out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray | Any:
    """`ProposalTarget_v2` with masks of the regions that may be foreground.

    mask_target is (N, F, M, M), F = int(S fg_fraction), M = `mask_size`.  gt_polys (N, G, L) holds
    the polygons of each box: category, number of polygons, their lengths, and coordinates x, y, x,
    y, ...; valid_ranges (N, 2) is an input with `filter_scales` only.  A pixel of a mask is 1 if
    its center is inside of a polygon (even-odd rule), -1 in rows without a region.  match_gt_iou
    comes with `output_iou`, and with `output_ratio` also mask_ratio (N, F): the part of the
    object's area that the region shows.

    Parameters
    ----------
    num_classes
        how many classes, the background included
    batch_images
        how many images; not read
    image_rois
        how many regions of each image; -1: all
    fg_thresh
        least intersection over union of an object's region
    bg_thresh_hi
        intersection over union from which a region is no background
    bg_thresh_lo
        least intersection over union of the background
    proposal_without_gt
        the boxes do not join the regions
    fg_fraction
        largest share of the regions that are objects
    class_agnostic
        one set of offsets for all classes
    output_iou
        also return the intersections over union
    bbox_mean
        subtracted from offsets
    bbox_std
        offsets are divided by it
    bbox_weight
        weight of each of the four offsets
    ohem
        not supported, as in SimpleDet
    num_args
        number of tensors; functions count them
    """

def ProposalTarget(rois: NDArray, gt_boxes: NDArray, num_classes: int, batch_images: int,
                   image_rois: int, fg_thresh: float, bg_thresh_hi: float, bg_thresh_lo: float,
                   proposal_without_gt: bool | int, fg_fraction: float = 0.25,
                   class_agnostic: bool | int = False, output_iou: bool | int = False,
                   bbox_mean: Sequence[float] | float = (0.0, 0.0, 0.0, 0.0),
                   bbox_std: Sequence[float] | float = (0.1, 0.1, 0.2, 0.2),
                   bbox_weight: Sequence[float] | float = (1.0, 1.0, 1.0, 1.0),
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray | Any:
    """Samples regions of each image for training: rois, labels, targets and weights of offsets.

    rois (N, R, 4), of which those with bottom <= 0 are padding; gt_boxes (N, G, 5), rows (box,
    class), of which those with class -1 are padding.  The boxes join the regions, unless
    `proposal_without_gt`.  A region belongs to the box it overlaps most: it is foreground if
    intersection over union is at least `fg_thresh`, background if it is in [bg_thresh_lo,
    bg_thresh_hi).  Of S = `image_rois` regions int(S fg_fraction) at most are foreground, the
    others background; where these are too few, any that are no foreground fill up, repeatedly if
    need be.

    Outputs: roi_output (N, S, 4), label (N, S), 0 for background, bbox_target and bbox_weight
    (N, S, 4 num_classes): offsets less `bbox_mean` over `bbox_std`, and `bbox_weight`, in the
    columns of the label (with `class_agnostic` of class 1), else 0; with `output_iou` also
    match_gt_iou (N, S).  No gradient.  `batch_images` is not read: N tells.

    Parameters
    ----------
    num_classes
        how many classes, the background included
    batch_images
        how many images; not read
    image_rois
        how many regions of each image; -1: all
    fg_thresh
        least intersection over union of an object's region
    bg_thresh_hi
        intersection over union from which a region is no background
    bg_thresh_lo
        least intersection over union of the background
    proposal_without_gt
        the boxes do not join the regions
    fg_fraction
        largest share of the regions that are objects
    class_agnostic
        one set of offsets for all classes
    output_iou
        also return the intersections over union
    bbox_mean
        subtracted from offsets
    bbox_std
        offsets are divided by it
    bbox_weight
        weight of each of the four offsets
    """

def ProposalTarget_v2(rois: NDArray, gt_boxes: NDArray, valid_ranges: NDArray, num_classes: int,
                      batch_images: int, image_rois: int, fg_thresh: float, bg_thresh_hi: float,
                      bg_thresh_lo: float, proposal_without_gt: bool | int,
                      fg_fraction: float = 0.25, class_agnostic: bool | int = False,
                      output_iou: bool | int = False,
                      bbox_mean: Sequence[float] | float = (0.0, 0.0, 0.0, 0.0),
                      bbox_std: Sequence[float] | float = (0.1, 0.1, 0.2, 0.2),
                      bbox_weight: Sequence[float] | float = (1.0, 1.0, 1.0, 1.0),
                      ohem: bool | int = False, filter_scales: bool | int = False,
                      out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                     ) -> NDArray | Any:
    """`ProposalTarget` for training by scale.

    With `filter_scales` boxes join only if their area is within valid_ranges (N, 2), the squares of
    a row's smallest and largest side.  `image_rois` -1 keeps all regions, foreground first.

    Parameters
    ----------
    num_classes
        how many classes, the background included
    batch_images
        how many images; not read
    image_rois
        how many regions of each image; -1: all
    fg_thresh
        least intersection over union of an object's region
    bg_thresh_hi
        intersection over union from which a region is no background
    bg_thresh_lo
        least intersection over union of the background
    proposal_without_gt
        the boxes do not join the regions
    fg_fraction
        largest share of the regions that are objects
    class_agnostic
        one set of offsets for all classes
    output_iou
        also return the intersections over union
    bbox_mean
        subtracted from offsets
    bbox_std
        offsets are divided by it
    bbox_weight
        weight of each of the four offsets
    ohem
        not supported, as in SimpleDet
    """

def RNN(data: NDArray, parameters: NDArray | None = None, state: NDArray | None = None,
        state_cell: NDArray | None = None, sequence_length: NDArray | None = None,
        state_size: int = ..., num_layers: int = ..., bidirectional: bool | int = False,
        mode: Literal['gru', 'lstm', 'rnn_relu', 'rnn_tanh'] = ..., p: float = 0.0,
        state_outputs: bool | int = False, projection_size: int | None = None,
        lstm_state_clip_min: float | None = None, lstm_state_clip_max: float | None = None,
        lstm_state_clip_nan: bool | int = False, use_sequence_length: bool | int = False,
        out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray | Any:
    """Stacked recurrent layers over all steps of data (T, N, I).

        rnn    h = tanh(a), or max(a, 0);  a = i2h x + i2h_bias + h2h h' + h2h_bias
        lstm   i, f, o = sigmoid(a), u = tanh(a);  c = f c' + i u;  h = o tanh(c)
        gru    r, z = sigmoid(a);  n = tanh(i2h x + i2h_bias + r (h2h h' + h2h_bias));
               h = (1 - z) n + z h'

    each gate with its own rows of i2h and h2h; `parameters` is the vector of all weights and biases
    (see `rnn_weights`).  state and state_cell (L D, N, H) are h' and c' of the first step, D = 2 if
    bidirectional: the second direction goes from the last step to the first.  Output (T, N, D H),
    and with `state_outputs` the last states, shaped like the first ones.

    With `projection_size` R (lstm) h is projected to h2r h, of size R instead of H.  `p` is the
    probability of dropout between layers in training.  With `use_sequence_length`, sample n has
    sequence_length[n] steps: its outputs after them are 0, its last states are those of its own
    last step, where its second direction begins.  `lstm_state_clip_min` and `_max` bound c; with
    `lstm_state_clip_nan` NaN becomes the lower bound.

    The hidden output holds what the backward pass reads: gates, cells, outputs of lower layers.

    Parameters
    ----------
    state_size
        length of the hidden state
    num_layers
        number of stacked layers
    mode
        which of the variants the text above describes
    lstm_state_clip_max
        the cell state is clipped to at most this
    use_sequence_length
        the call has this input as well: lengths of the sequences
    """

def ROIPooling(data: NDArray, rois: NDArray, pooled_size: Sequence[int] | int,
               spatial_scale: float, out: NDArray | Sequence[NDArray] | None = None,
               name: str | None = None) -> NDArray | Any:
    """The maximum of every bin of regions; data (N, C, H, W), rois (R, 5) -> (R, C, PH, PW).

    Coordinates are multiplied by `spatial_scale` and rounded; a region includes its right and
    bottom pixels, and is at least one pixel large.  Bins may overlap by a pixel; an empty one gives
    0.  The gradient goes to the first of equal maxima, rois get none.  NaN is no maximum: a bin of
    NaN alone, or of -inf, gives the lowest float32.  The hidden output is where the maxima are.

    Parameters
    ----------
    pooled_size
        height and width of the result for each region
    spatial_scale
        size of the feature map over that of the image the regions refer to
    """

def Reshape(data: NDArray, shape: Sequence[int] | int = (), reverse: bool | int = False,
            target_shape: Sequence[int] | int = (), keep_highest: bool | int = False,
            out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """A tensor in another shape: its elements keep their order.

    `shape` holds sizes and codes (see `reshape_target`).  In the older `target_shape` 0 is the
    dimension to infer, and `keep_highest` copies the first dimension in any case.

    Parameters
    ----------
    shape
        shape of the result
    reverse
        read `shape` from the right
    """

def SVMOutput(data: NDArray, label: NDArray, margin: float = 1.0,
              regularization_coefficient: float = 1.0, use_linear: bool | int = False,
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """y = data; gradient of the hinge loss of every class against `label`, one against the rest.

    data (..., K), label (...).  The score of the label's class should be above `margin`, every
    other one below -margin.  A class that misses that by s > 0 has the gradient 2 s C, or C with
    `use_linear`, C being `regularization_coefficient`; negative for the class of the label.
    """

def SequenceLast(data: NDArray, sequence_length: NDArray | None = None,
                 use_sequence_length: bool | int = False, axis: int = 0,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """The last step of every sequence: data (T, N, ...) -> (N, ...); 0 for a sequence of length 0.

    `axis` is time's, 0 or 1.  (MXNet reads before the data where a length is 0.)

    Parameters
    ----------
    use_sequence_length
        the call has this input as well: lengths of the sequences
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def SequenceMask(data: NDArray, sequence_length: NDArray | None = None,
                 use_sequence_length: bool | int = False, value: float = 0.0, axis: int = 0,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """data (T, N, ...), with `value` for every step after a sequence's end.

    `axis` is time's, 0 or 1.  The gradient is that of the output, 0 for masked steps.

    Parameters
    ----------
    use_sequence_length
        the call has this input as well: lengths of the sequences
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def SequenceReverse(data: NDArray, sequence_length: NDArray | None = None,
                    use_sequence_length: bool | int = False, axis: int = 0,
                    out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                   ) -> NDArray:
    """data (T, N, ...) with the steps of every sequence in reverse order, those after it in place.

    Time is axis 0, the only value `axis` may have.

    Parameters
    ----------
    use_sequence_length
        the call has this input as well: lengths of the sequences
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def SliceChannel(data: NDArray, num_outputs: int, axis: int = 1, squeeze_axis: bool | int = False,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray | Any:
    """`num_outputs` equal pieces along `axis`; `squeeze_axis` drops it where they have size 1.

    Shapes: data (2, 6), num_outputs=3, axis=1 -> three times (2, 2).

    Parameters
    ----------
    num_outputs
        number of outputs
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    squeeze_axis
        drop the axis that is split, of length 1 in each piece
    """

def SoftmaxActivation(data: NDArray, mode: Literal['channel', 'instance'] = 'instance',
                      out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                     ) -> NDArray:
    """softmax over axis 1 of data (N, C, ...) in mode "channel", over the last axis in "instance".

    As in MXNet 1.9.1 on the CPU, the backward pass takes it to be over axis 1 in either mode; for
    "instance" that is the derivative only if data is (N, K).

    Parameters
    ----------
    mode
        which of the variants the text above describes
    """

def SoftmaxOutput(data: NDArray, label: NDArray, grad_scale: float = 1.0,
                  ignore_label: float = -1.0, multi_output: bool | int = False,
                  use_ignore: bool | int = False, preserve_shape: bool | int = False,
                  normalization: Literal['batch', 'null', 'valid'] = 'null',
                  out_grad: bool | int = False, smooth_alpha: float = 0.0,
                  out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                 ) -> NDArray:
    """softmax, with the gradient of its cross entropy to `label`: scale (y - onehot(label)).

    data (N, K), label (N,).  `multi_output` makes axis 1 of data (N, K, D, ...) the classes, with
    label (N, D ...), (N, 1, D, ...) or (N, D * ...).  `preserve_shape` makes the last axis the
    classes, with a label for each position; without either data is (N, rest) and, as in MXNet, the
    first N labels are read.  A label shaped like data holds probabilities: gradient
    grad_scale (y - label), never normalised.

    scale is grad_scale divided by 1 ("null"), by the number of labels ("batch"), or by the number
    of labels that are not `ignore_label`, even without `use_ignore` ("valid").  "null" with
    `multi_output` divides by the positions of a sample.  With `use_ignore` positions with
    `ignore_label` have no gradient.
    Labels are truncated to integers.  One that is neither a class nor `ignore_label` is an error;
    with NBMOD_CHECK_LABELS=0, and on GPUs, its gradient is scale y.
    `smooth_alpha` is the part of the target that the other classes share (not for `multi_output`).

    With `out_grad` the gradient is multiplied by that of the output, which `backward` must then be
    given.  (MXNet 1.9.1 multiplies by the output itself, and reads no gradient of it.)

    Parameters
    ----------
    normalization
        what the gradient is divided by
    """

def SpatialTransformer(data: NDArray, loc: NDArray, target_shape: Sequence[int] | int = (0, 0),
                       transform_type: Literal['affine'] = ...,
                       sampler_type: Literal['bilinear'] = ...,
                       cudnn_off: bool | int | None = None,
                       out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray | Any:
    """BilinearSampler of data (N, C, H, W) and the affine GridGenerator of loc (N, 6).

    The output is (N, C, OH, OW), (OH, OW) = `target_shape`; output 1, hidden, is the grid.

    Parameters
    ----------
    transform_type
        'affine': the input is an affine matrix, 2 x 3; 'warp': an optical flow
    sampler_type
        interpolation; only bilinear
    cudnn_off
        accepted for old files; has no effect
    """

def SwapAxis(data: NDArray, dim1: int = 0, dim2: int = 0,
             out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Axes `dim1` and `dim2` exchanged.

    Shapes: data (2, 3, 4), dim1=0, dim2=2 -> (4, 3, 2).
    """

def UpSampling(*data: NDArray, scale: int = ..., num_filter: int = 0,
               sample_type: Literal['bilinear', 'nearest'] = ...,
               multi_input_mode: Literal['concat', 'sum'] = 'concat', num_args: int = ...,
               workspace: int = 512, out: NDArray | Sequence[NDArray] | None = None,
               name: str | None = None) -> NDArray:
    """`scale` times as high and wide; data (N, C, H, W).

    'nearest' repeats pixels.  All of its `num_args` inputs are resized to the size of the first
    times scale, then concatenated along channels ('concat') or added ('sum').  'bilinear' has one
    input and a weight (C, 1, K, K), K = 2 scale - scale % 2; it is a depthwise deconvolution with a
    stride of `scale`, and weights that interpolate.  (`num_filter` is C in MXNet; here it may be
    omitted.)

    Parameters
    ----------
    scale
        factor of height and width
    num_filter
        number of filters: channels of the output
    sample_type
        'nearest' repeats pixels, 'bilinear' interpolates
    multi_input_mode
        several inputs are concatenated, or added
    num_args
        number of tensors; functions count them
    workspace
        accepted for old files; has no effect
    """

def abs(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
       ) -> NDArray:
    """Absolute value; its gradient at 0 is 0.

    x = data
    y = abs(x)
    gx = where(x > 0, gy, where(x < 0, -gy, 0))

    Shapes: all tensors have one shape.
    """

def adam_update(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, lr: float,
                beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08, wd: float = 0.0,
                rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                lazy_update: bool | int = True, out: NDArray | Sequence[NDArray] | None = None,
                name: str | None = None) -> NDArray:
    """x = clipped(rescale_grad g + wd w);  mean = beta1 mean + (1 - beta1) x;
    var = beta2 var + (1 - beta2) x^2;  w = w - lr mean / (sqrt(var) + epsilon).

    Kingma and Ba (2015) without bias correction, which the optimizer puts into lr.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    beta1
        decay rate of the mean of gradients
    beta2
        decay rate of the mean of their squares
    epsilon
        added to the denominator
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    lazy_update
        with sparse gradients, rows without a gradient are not updated
    """

def add_n(*args: NDArray, num_args: int = ..., out: NDArray | Sequence[NDArray] | None = None,
          name: str | None = None) -> NDArray:
    """The sum of any number of tensors of one shape, from left to right.  Every gradient is gy.

    Parameters
    ----------
    num_args
        number of tensors; functions count them
    """

def all_finite(data: NDArray, init_output: bool | int = True,
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """output = 1 if every element of data is a finite number, else 0; output (1,), float32.

    With `init_output=False` an output that holds 0 already stays 0.

    Shapes: data of any shape.
    """

def amp_cast(data: NDArray, dtype: DTypeLike, out: NDArray | Sequence[NDArray] | None = None,
             name: str | None = None) -> NDArray:
    """Cast for mixed precision: float16 and float32 are converted, other types left alone.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    dtype
        element type of the result
    """

def amp_multicast(*data: NDArray, num_outputs: int = ..., cast_narrow: bool | int = False,
                  out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                 ) -> NDArray | Any:
    """Convert the float16 and float32 among some tensors to the widest of their types.

    `cast_narrow` converts to the narrowest instead.  Tensors of other types are left alone.

    Shapes: every output has the shape of its input.

    Parameters
    ----------
    num_outputs
        number of outputs
    """

def arccos(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
          ) -> NDArray:
    """Inverse of cos, in radians.

    x = data
    y = arccos(x)
    gx = -gy / sqrt(1 - x * x)

    Shapes: all tensors have one shape.
    """

def arccosh(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> NDArray:
    """Inverse of cosh.

    x = data
    y = arccosh(x)
    gx = gy / sqrt(x * x - 1)

    Shapes: all tensors have one shape.
    """

def arcsin(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
          ) -> NDArray:
    """Inverse of sin, in radians.

    x = data
    y = arcsin(x)
    gx = gy / sqrt(1 - x * x)

    Shapes: all tensors have one shape.
    """

def arcsinh(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> NDArray:
    """Inverse of sinh.

    x = data
    y = arcsinh(x)
    gx = gy / sqrt(1 + x * x)

    Shapes: all tensors have one shape.
    """

def arctan(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
          ) -> NDArray:
    """Inverse of tan, in radians.

    x = data
    y = arctan(x)
    gx = gy / (1 + x * x)

    Shapes: all tensors have one shape.
    """

def arctanh(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> NDArray:
    """Inverse of tanh.

    x = data
    y = arctanh(x)
    gx = gy / (1 - x * x)

    Shapes: all tensors have one shape.
    """

def argmax(data: NDArray, axis: int | None = None, keepdims: bool | int = False,
           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Index of the first maximum along `axis`, in the type of the data; None: of the flat array.

    NaN counts as the maximum.  No gradient.

    Shapes: data (2, 3), axis=1 -> (2,), with keepdims (2, 1); no axis: (1,).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    keepdims
        axes that are reduced stay, with length 1
    """

def argmax_channel(data: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                   name: str | None = None) -> NDArray:
    """argmax along axis 1.  No gradient.

    Shapes: data (2, 3, 4) -> (2, 4).
    """

def argmin(data: NDArray, axis: int | None = None, keepdims: bool | int = False,
           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Index of the first minimum along `axis`, in the type of the data; None: of the flat array.

    NaN counts as the minimum.  No gradient.

    Shapes: data (2, 3), axis=1 -> (2,), with keepdims (2, 1); no axis: (1,).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    keepdims
        axes that are reduced stay, with length 1
    """

def argsort(data: NDArray, axis: int | None = -1, is_ascend: bool | int = True,
            dtype: DTypeLike = 'float32', out: NDArray | Sequence[NDArray] | None = None,
            name: str | None = None) -> NDArray | Any:
    """The positions along `axis` of the elements in order, of data's shape; (N,) with axis None.

    Positions are of type `dtype`, in which large ones are rounded or wrap around.  Equal elements
    stay in order; NaN comes last.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    is_ascend
        smallest first
    dtype
        element type of the result
    """

def batch_dot(lhs: NDArray, rhs: NDArray, transpose_a: bool | int = False,
              transpose_b: bool | int = False,
              forward_stype: Literal['csr', 'default', 'row_sparse'] | None = None,
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Products of stacks of matrices (..., M, K) and (..., K, N): (..., M, N).

    Parameters
    ----------
    transpose_a
        swap the last two axes of the first matrix
    transpose_b
        swap the last two axes of the second matrix
    forward_stype
        accepted for old files; has no effect
    """

def batch_take(a: NDArray, indices: NDArray, out: NDArray | Sequence[NDArray] | None = None,
               name: str | None = None) -> NDArray:
    """a[i, indices[i]] for `a` (..., K), with one index for each row of it; clipped."""

def broadcast_add(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                  name: str | None = None) -> NDArray:
    """Sum.  a and b broadcast.

    a, b = lhs, rhs
    y = a + b
    ga = gy
    gb = gy

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_axis(data: NDArray, axis: Sequence[int] | int = (), size: Sequence[int] | int = (),
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
    """`data` repeated `size[i]` times along `axis[i]`, where it must have size 1.

    Shapes: data (2, 1), axis=(1,), size=(3,) -> (2, 3).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def broadcast_div(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                  name: str | None = None) -> NDArray:
    """Quotient; that of integers is truncated.  a and b broadcast.

    a, b = lhs, rhs
    y = a / b
    ga = gy / b
    gb = -gy * a / (b * b)

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_equal(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                    name: str | None = None) -> NDArray:
    """1 where a is b, else 0.  a and b broadcast.

    a, b = lhs, rhs
    y = where(a == b, 1, 0)
    ga = 0
    gb = 0

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_greater(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                      name: str | None = None) -> NDArray:
    """1 where a is above b, else 0.  a and b broadcast.

    a, b = lhs, rhs
    y = where(a > b, 1, 0)
    ga = 0
    gb = 0

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_greater_equal(lhs: NDArray, rhs: NDArray,
                            out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                           ) -> NDArray:
    """1 where a is not below b, else 0.  a and b broadcast.

    a, b = lhs, rhs
    y = where(a >= b, 1, 0)
    ga = 0
    gb = 0

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_hypot(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                    name: str | None = None) -> NDArray:
    """sqrt(a^2 + b^2).  a and b broadcast.

    a, b = lhs, rhs
    y = hypot(a, b)
    ga = gy * a / y
    gb = gy * b / y

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_lesser(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                     name: str | None = None) -> NDArray:
    """1 where a is below b, else 0.  a and b broadcast.

    a, b = lhs, rhs
    y = where(a < b, 1, 0)
    ga = 0
    gb = 0

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_lesser_equal(lhs: NDArray, rhs: NDArray,
                           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                          ) -> NDArray:
    """1 where a is not above b, else 0.  a and b broadcast.

    a, b = lhs, rhs
    y = where(a <= b, 1, 0)
    ga = 0
    gb = 0

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_like(lhs: NDArray, rhs: NDArray, lhs_axes: Sequence[int] | int | None = None,
                   rhs_axes: Sequence[int] | int | None = None,
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
    """`lhs` repeated to the shape of `rhs`, along all axes or from `rhs_axes` to `lhs_axes`."""

def broadcast_logical_and(lhs: NDArray, rhs: NDArray,
                          out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                         ) -> NDArray:
    """1 where neither is 0, else 0.  a and b broadcast.

    a, b = lhs, rhs
    y = where(a != 0, where(b != 0, 1, 0), 0)
    ga = 0
    gb = 0

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_logical_or(lhs: NDArray, rhs: NDArray,
                         out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                        ) -> NDArray:
    """1 where a or b is not 0, else 0.  a and b broadcast.

    a, b = lhs, rhs
    y = where(a != 0, 1, where(b != 0, 1, 0))
    ga = 0
    gb = 0

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_logical_xor(lhs: NDArray, rhs: NDArray,
                          out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                         ) -> NDArray:
    """1 where exactly one of a and b is not 0, else 0.  a and b broadcast.

    a, b = lhs, rhs
    y = where((a != 0) == (b != 0), 0, 1)
    ga = 0
    gb = 0

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_maximum(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                      name: str | None = None) -> NDArray:
    """The larger; the gradient of a tie is a's.  a and b broadcast.

    a, b = lhs, rhs
    y = maximum(a, b)
    ga = where(a >= b, gy, 0)
    gb = where(a < b, gy, 0)

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_minimum(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                      name: str | None = None) -> NDArray:
    """The smaller; the gradient of a tie is a's.  a and b broadcast.

    a, b = lhs, rhs
    y = minimum(a, b)
    ga = where(a <= b, gy, 0)
    gb = where(a > b, gy, 0)

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_mod(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                  name: str | None = None) -> NDArray:
    """Remainder with the sign of the divisor; 0 where that is 0.  Over integers its gradient is 0.  a and b broadcast.

    a, b = lhs, rhs
    y = mod(a, b)
    ga = gy
    gb = -gy * floor(a / b)

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_mul(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                  name: str | None = None) -> NDArray:
    """Product.  a and b broadcast.

    a, b = lhs, rhs
    y = a * b
    ga = gy * b
    gb = gy * a

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_not_equal(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                        name: str | None = None) -> NDArray:
    """1 where a is not b, else 0.  a and b broadcast.

    a, b = lhs, rhs
    y = where(a != b, 1, 0)
    ga = 0
    gb = 0

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_power(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                    name: str | None = None) -> NDArray:
    """a to the power of b.  a and b broadcast.

    a, b = lhs, rhs
    y = a ** b
    ga = gy * b * a ** (b - 1)
    gb = gy * a ** b * log(a)

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_sub(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                  name: str | None = None) -> NDArray:
    """Difference.  a and b broadcast.

    a, b = lhs, rhs
    y = a - b
    ga = gy
    gb = -gy

    Shapes: lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated.
    """

def broadcast_to(data: NDArray, shape: Sequence[int] | int = (),
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """`data` repeated to `shape`, of the same rank; 0 there keeps the dimension.

    Parameters
    ----------
    shape
        shape of the result
    """

def cast_storage(data: NDArray, stype: Literal['csr', 'default', 'row_sparse'],
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """`data` in the storage type `stype`, of the same shape and elements.

    Dense arrays are converted to any type, and arrays of any type to dense ones.

    Shapes: data and output have one shape.
    """

def cbrt(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
        ) -> NDArray:
    """Cube root.

    x = data
    y = cbrt(x)
    gx = gy / (3 * y * y)

    Shapes: all tensors have one shape.
    """

def ceil(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
        ) -> NDArray:
    """The smallest whole number not below x.

    x = data
    y = ceil(x)
    gx = 0

    Shapes: all tensors have one shape.
    """

def clip(data: NDArray, a_min: float, a_max: float, out: NDArray | Sequence[NDArray] | None = None,
         name: str | None = None) -> NDArray:
    """x clamped to [`a_min`, `a_max`].  The gradient passes where x is within these bounds.

    y = a_max where x > a_max, else a_min where x < a_min, else x

    Shapes: all tensors have one shape.
    """

def col2im(data: NDArray, output_size: Sequence[int] | int, kernel: Sequence[int] | int,
           stride: Sequence[int] | int = (), dilate: Sequence[int] | int = (),
           pad: Sequence[int] | int = (), out: NDArray | Sequence[NDArray] | None = None,
           name: str | None = None) -> NDArray:
    """data (N, C taps, positions) -> (N, C, *output_size): columns of im2col added up.

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
    """

def cos(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
       ) -> NDArray:
    """Cosine of x radians.

    x = data
    y = cos(x)
    gx = -gy * sin(x)

    Shapes: all tensors have one shape.
    """

def cosh(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
        ) -> NDArray:
    """Hyperbolic cosine.

    x = data
    y = cosh(x)
    gx = gy * sinh(x)

    Shapes: all tensors have one shape.
    """

def degrees(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> NDArray:
    """Radians as degrees.

    x = data
    y = x * 57.29577951308232
    gx = gy * 57.29577951308232

    Shapes: all tensors have one shape.
    """

def depth_to_space(data: NDArray, block_size: int, out: NDArray | Sequence[NDArray] | None = None,
                   name: str | None = None) -> NDArray:
    """(N, b b C, H, W) to (N, C, H b, W b): channel (i b + j) C + c goes to offset (i, j).

    Parameters
    ----------
    block_size
        side of the square of pixels that becomes channels, or the reverse
    """

def diag(data: NDArray, k: int = 0, axis1: int = 0, axis2: int = 1,
         out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Diagonal `k` of the planes (axis1, axis2), as last axis; of a vector, the matrix that has it
    on diagonal `k`.
    """

def dot(lhs: NDArray, rhs: NDArray, transpose_a: bool | int = False,
        transpose_b: bool | int = False,
        forward_stype: Literal['csr', 'default', 'row_sparse'] | None = None,
        out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Sums products over the last axis of `lhs` and the first of `rhs`; all other axes remain.

    `transpose_a` sums over the first axis of lhs instead, `transpose_b` over the last of rhs.  Two
    vectors give shape (1,).  The result of arrays has the storage type `forward_stype`; None: the
    one that follows from theirs.

    Parameters
    ----------
    transpose_a
        swap the last two axes of the first matrix
    transpose_b
        swap the last two axes of the second matrix
    forward_stype
        accepted for old files; has no effect
    """

def elemwise_add(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                 name: str | None = None) -> NDArray:
    """Sum.

    a, b = lhs, rhs
    y = a + b
    ga = gy
    gb = gy

    Shapes: all tensors have one shape.
    """

def elemwise_div(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                 name: str | None = None) -> NDArray:
    """Quotient; that of integers is truncated.

    a, b = lhs, rhs
    y = a / b
    ga = gy / b
    gb = -gy * a / (b * b)

    Shapes: all tensors have one shape.
    """

def elemwise_mul(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                 name: str | None = None) -> NDArray:
    """Product.

    a, b = lhs, rhs
    y = a * b
    ga = gy * b
    gb = gy * a

    Shapes: all tensors have one shape.
    """

def elemwise_sub(lhs: NDArray, rhs: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                 name: str | None = None) -> NDArray:
    """Difference.

    a, b = lhs, rhs
    y = a - b
    ga = gy
    gb = -gy

    Shapes: all tensors have one shape.
    """

def erf(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
       ) -> NDArray:
    """The error function.

    x = data
    y = erf(x)
    gx = gy * 1.1283791670955126 * exp(-x * x)

    Shapes: all tensors have one shape.
    """

def erfinv(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
          ) -> NDArray:
    """Inverse of erf.

    x = data
    y = erfinv(x)
    gx = gy * 0.886226925452758 * exp(y * y)

    Shapes: all tensors have one shape.
    """

def exp(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
       ) -> NDArray:
    """e to the power of x.

    x = data
    y = exp(x)
    gx = gy * y

    Shapes: all tensors have one shape.
    """

def expand_dims(data: NDArray, axis: int, out: NDArray | Sequence[NDArray] | None = None,
                name: str | None = None) -> NDArray:
    """A dimension of size 1 inserted before `axis` (-1: at the end).

    Shapes: data (2, 3), axis=1 -> (2, 1, 3).

    Parameters
    ----------
    axis
        position of the new axis; -1: at the end
    """

def expm1(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
         ) -> NDArray:
    """exp(x) - 1, accurate near 0.

    x = data
    y = expm1(x)
    gx = gy * exp(x)

    Shapes: all tensors have one shape.
    """

def fill_element_0index(lhs: NDArray, mhs: NDArray, rhs: NDArray,
                        out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                       ) -> NDArray:
    """`lhs` (N, K) with lhs[i, rhs[i]] = mhs[i].  No gradient."""

def fix(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
       ) -> NDArray:
    """The nearest whole number towards 0.

    x = data
    y = trunc(x)
    gx = 0

    Shapes: all tensors have one shape.
    """

def floor(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
         ) -> NDArray:
    """The largest whole number not above x.

    x = data
    y = floor(x)
    gx = 0

    Shapes: all tensors have one shape.
    """

def ftml_update(weight: NDArray, grad: NDArray, d: NDArray, v: NDArray, z: NDArray, lr: float,
                beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-08, t: int = ...,
                wd: float = 0.0, rescale_grad: float = 1.0, clip_grad: float = -1.0,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """x = clipped(rescale_grad g + wd w);  v = beta2 v + (1 - beta2) x^2;
    d' = (1 - beta1^t) / lr (sqrt(v / (1 - beta2^t)) + epsilon);
    z = beta1 z + (1 - beta1) x - (d' - beta1 d) w;  w = -z / d';  d = d'.

    Follow the moving leader, Zheng and Kwok (2017).

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    beta1
        decay rate of the mean of gradients
    beta2
        decay rate of the mean of their squares
    epsilon
        added to the denominator
    t
        number of this update, from 1
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_grad
        largest absolute value of rescaled gradients; negative: no limit
    """

def ftrl_update(weight: NDArray, grad: NDArray, z: NDArray, n: NDArray, lr: float,
                lamda1: float = 0.01, beta: float = 1.0, wd: float = 0.0,
                rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """x = clipped(rescale_grad g);  z = z + x - (sqrt(n + x^2) - sqrt(n)) w / lr;  n = n + x^2;
    w = (sign(z) lamda1 - z) / ((beta + sqrt(n)) / lr + wd) if |z| > lamda1, else 0.

    Follow the regularized leader, McMahan et al. (2013).

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    """

def gamma(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
         ) -> NDArray:
    """The gamma function.

    x = data
    y = gamma(x)
    gx = gy * y * digamma(x)

    Shapes: all tensors have one shape.
    """

def gammaln(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> NDArray:
    """Logarithm of |gamma(x)|.

    x = data
    y = gammaln(x)
    gx = gy * digamma(x)

    Shapes: all tensors have one shape.
    """

def gather_nd(data: NDArray, indices: NDArray, axis: int | None = None,
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """data[indices[0], indices[1], ...] for `indices` (M, ...): (*indices[1:], *data[M:]).

    Negative indices count from the end; others outside are an error.  `axis` has no effect, as in
    MXNet, which ignores it: programs pass it.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def hard_sigmoid(data: NDArray, alpha: float = 0.2, beta: float = 0.5,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """A piecewise linear sigmoid: y = alpha x + beta, clamped to [0, 1].

    Shapes: all tensors have one shape.
    """

def im2col(data: NDArray, kernel: Sequence[int] | int, stride: Sequence[int] | int = (),
           dilate: Sequence[int] | int = (), pad: Sequence[int] | int = (),
           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """data (N, C, ...) -> (N, C taps, positions): what every window of size `kernel` shows.

    One to three spatial axes; a convolution is the product of its weight with these columns.

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
    """

def khatri_rao(*args: NDArray, num_args: int = ..., out: NDArray | Sequence[NDArray] | None = None,
               name: str | None = None) -> NDArray:
    """Column by column, the Kronecker product of matrices (M1, N), (M2, N), ...: (M1 M2 ..., N).

    Parameters
    ----------
    num_args
        number of tensors; functions count them
    """

def lamb_update_phase1(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray,
                       beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-06,
                       t: int = ..., bias_correction: bool | int = True, wd: float = ...,
                       rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                       out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray:
    """x = clipped(rescale_grad g);  mean = beta1 mean + (1 - beta1) x;
    var = beta2 var + (1 - beta2) x^2;  output = m / (sqrt(v) + epsilon) + wd w
    with m = mean / (1 - beta1^t) and v = var / (1 - beta2^t), or mean and var themselves without
    bias correction.

    The step of LAMB before it is scaled.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    beta1
        decay rate of the mean of gradients
    beta2
        decay rate of the mean of their squares
    epsilon
        added to the denominator
    t
        number of this update, from 1
    bias_correction
        correct the bias of means that start at 0
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    """

def lamb_update_phase2(weight: NDArray, g: NDArray, r1: NDArray, r2: NDArray, lr: float,
                       lower_bound: float = -1.0, upper_bound: float = -1.0,
                       out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray:
    """w = w - lr r1 / r2 g, with r1 kept within lower_bound and upper_bound where these are not
    negative, and r1 / r2 = 1 if either is 0.

    g is the output of phase 1, r1 the length of the weight and r2 that of g, both of one element.

    Shapes: weight, g and output have one shape, r1 and r2 have one element.

    Parameters
    ----------
    lr
        learning rate
    lower_bound
        lower limit of the norm of the weight; negative: none
    upper_bound
        upper limit of the norm of the weight; negative: none
    """

def log(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
       ) -> NDArray:
    """Natural logarithm.

    x = data
    y = log(x)
    gx = gy / x

    Shapes: all tensors have one shape.
    """

def log10(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
         ) -> NDArray:
    """Logarithm to base 10.

    x = data
    y = log10(x)
    gx = gy / (2.302585092994046 * x)

    Shapes: all tensors have one shape.
    """

def log1p(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
         ) -> NDArray:
    """log(1 + x), accurate near 0.

    x = data
    y = log1p(x)
    gx = gy / (1 + x)

    Shapes: all tensors have one shape.
    """

def log2(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
        ) -> NDArray:
    """Logarithm to base 2.

    x = data
    y = log2(x)
    gx = gy / (0.6931471805599453 * x)

    Shapes: all tensors have one shape.
    """

def log_softmax(data: NDArray, axis: int = -1, temperature: float | None = None,
                dtype: DTypeLike | None = None, use_length: bool | int = False,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """y = log(softmax(x / temperature)) along `axis`; `use_length` has no effect, as in MXNet.

    Shapes: data and output have one shape.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    dtype
        element type of the result
    """

def logical_not(data: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                name: str | None = None) -> NDArray:
    """1 where x is 0, else 0.

    x = data
    y = where(x == 0, 1, 0)
    gx = 0

    Shapes: all tensors have one shape.
    """

def make_loss(data: NDArray, out: NDArray | Sequence[NDArray] | None = None,
              name: str | None = None) -> NDArray:
    """y = x, the value of a loss: its gradient is 1 everywhere, whatever the head gradient.

    Shapes: data and output have one shape.
    """

def max(data: NDArray, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
        exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
        name: str | None = None) -> NDArray:
    """Maximum over axes; NaN wins.

    Shapes: data (2, 3, 4), axis=1 -> (2, 4), with keepdims (2, 1, 4); no axis: (1,).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    keepdims
        axes that are reduced stay, with length 1
    exclude
        reduce all axes but those of `axis`
    """

def mean(data: NDArray, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
         exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
         name: str | None = None) -> NDArray:
    """Mean over axes; of integers, the wrapped sum divided towards zero.

    Shapes: data (2, 3, 4), axis=1 -> (2, 4), with keepdims (2, 1, 4); no axis: (1,).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    keepdims
        axes that are reduced stay, with length 1
    exclude
        reduce all axes but those of `axis`
    """

def min(data: NDArray, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
        exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
        name: str | None = None) -> NDArray:
    """Minimum over axes; NaN wins.

    Shapes: data (2, 3, 4), axis=1 -> (2, 4), with keepdims (2, 1, 4); no axis: (1,).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    keepdims
        axes that are reduced stay, with length 1
    exclude
        reduce all axes but those of `axis`
    """

def moments(data: NDArray, axes: Sequence[int] | int | None = None, keepdims: bool | int = False,
            out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> list[NDArray]:
    """Mean and population variance over `axes`, which must be given.

    Shapes: data (2, 3), axes=(1,) -> mean (2,), var (2,); with keepdims (2, 1).

    Parameters
    ----------
    keepdims
        axes that are reduced stay, with length 1
    """

def mp_lamb_update_phase1(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray,
                          weight32: NDArray, beta1: float = 0.9, beta2: float = 0.999,
                          epsilon: float = 1e-06, t: int = ..., bias_correction: bool | int = True,
                          wd: float = ..., rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                          out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                         ) -> NDArray:
    """`lamb_update_phase1` for the master weight32; the step is float32.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    beta1
        decay rate of the mean of gradients
    beta2
        decay rate of the mean of their squares
    epsilon
        added to the denominator
    t
        number of this update, from 1
    bias_correction
        correct the bias of means that start at 0
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    """

def mp_lamb_update_phase2(weight: NDArray, g: NDArray, r1: NDArray, r2: NDArray, weight32: NDArray,
                          lr: float, lower_bound: float = -1.0, upper_bound: float = -1.0,
                          out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                         ) -> NDArray:
    """`lamb_update_phase2` of the master weight32; the new weight is its rounded copy.

    Shapes: weight, g and output have one shape, r1 and r2 have one element.

    Parameters
    ----------
    lr
        learning rate
    lower_bound
        lower limit of the norm of the weight; negative: none
    upper_bound
        upper limit of the norm of the weight; negative: none
    """

def mp_nag_mom_update(weight: NDArray, grad: NDArray, mom: NDArray, weight32: NDArray, lr: float,
                      momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0,
                      clip_gradient: float = -1.0, out: NDArray | Sequence[NDArray] | None = None,
                      name: str | None = None) -> NDArray:
    """`nag_mom_update` of the master weight32; the new weight is its rounded copy.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    momentum
        decay rate of the moving average, or of the step
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    """

def mp_sgd_mom_update(weight: NDArray, grad: NDArray, mom: NDArray, weight32: NDArray, lr: float,
                      momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0,
                      clip_gradient: float = -1.0, lazy_update: bool | int = True,
                      out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                     ) -> NDArray:
    """`sgd_mom_update` of the master weight32; the new weight is its rounded copy.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    momentum
        decay rate of the moving average, or of the step
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    lazy_update
        with sparse gradients, rows without a gradient are not updated
    """

def mp_sgd_update(weight: NDArray, grad: NDArray, weight32: NDArray, lr: float, wd: float = 0.0,
                  rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                  lazy_update: bool | int = True, out: NDArray | Sequence[NDArray] | None = None,
                  name: str | None = None) -> NDArray:
    """`sgd_update` of the master weight32; the new weight is its rounded copy.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    lazy_update
        with sparse gradients, rows without a gradient are not updated
    """

def multi_all_finite(*data: NDArray, num_arrays: int = 1, init_output: bool | int = True,
                     out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                    ) -> NDArray:
    """output = 1 if every element of every tensor is a finite number, else 0; output (1,), float32.

    With `init_output=False` an output that holds 0 already stays 0.

    Shapes: tensors of any shapes.

    Parameters
    ----------
    num_arrays
        number of tensors
    """

def multi_lars(lrs: NDArray, weights_sum_sq: NDArray, grads_sum_sq: NDArray, wds: NDArray,
               eta: float, eps: float, rescale_grad: float = 1.0,
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Rates of layers, You et al. (2017), from the squared lengths of weights and gradients:
    output_i = lrs_i eta |w_i| / (rescale_grad |g_i| + wds_i |w_i| + eps), or lrs_i where either
    length is 0.  All tensors have one shape, with an element for every layer.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    eta
        the trust coefficient: norm of a step relative to that of the weight
    eps
        added to the denominator
    rescale_grad
        gradients are multiplied by this
    """

def multi_mp_sgd_mom_update(*data: NDArray, lrs: Sequence[float] | float = ...,
                            wds: Sequence[float] | float = ..., momentum: float = 0.0,
                            rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                            num_weights: int = 1, out: NDArray | Sequence[NDArray] | None = None,
                            name: str | None = None) -> NDArray | Any:
    """`mp_sgd_mom_update` of every weight (weight_i, grad_i, mom_i, weight32_i).

    Shapes: all tensors of one weight have its shape.

    Parameters
    ----------
    lrs
        learning rate of each weight
    wds
        weight decay of each weight
    momentum
        decay rate of the moving average, or of the step
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    num_weights
        number of weights
    """

def multi_mp_sgd_update(*data: NDArray, lrs: Sequence[float] | float = ...,
                        wds: Sequence[float] | float = ..., rescale_grad: float = 1.0,
                        clip_gradient: float = -1.0, num_weights: int = 1,
                        out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                       ) -> NDArray | Any:
    """`mp_sgd_update` of every weight (weight_i, grad_i, weight32_i).

    Shapes: all tensors of one weight have its shape.

    Parameters
    ----------
    lrs
        learning rate of each weight
    wds
        weight decay of each weight
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    num_weights
        number of weights
    """

def multi_sgd_mom_update(*data: NDArray, lrs: Sequence[float] | float = ...,
                         wds: Sequence[float] | float = ..., momentum: float = 0.0,
                         rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                         num_weights: int = 1, out: NDArray | Sequence[NDArray] | None = None,
                         name: str | None = None) -> NDArray | Any:
    """`sgd_mom_update` of every weight (weight_i, grad_i, mom_i).

    Shapes: all tensors of one weight have its shape.

    Parameters
    ----------
    lrs
        learning rate of each weight
    wds
        weight decay of each weight
    momentum
        decay rate of the moving average, or of the step
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    num_weights
        number of weights
    """

def multi_sgd_update(*data: NDArray, lrs: Sequence[float] | float = ...,
                     wds: Sequence[float] | float = ..., rescale_grad: float = 1.0,
                     clip_gradient: float = -1.0, num_weights: int = 1,
                     out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                    ) -> NDArray | Any:
    """`sgd_update` of every weight (weight_i, grad_i).

    Shapes: all tensors of one weight have its shape.

    Parameters
    ----------
    lrs
        learning rate of each weight
    wds
        weight decay of each weight
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    num_weights
        number of weights
    """

def multi_sum_sq(*data: NDArray, num_arrays: int = ...,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """output_i = sum of the squares of tensor i; output (num_arrays,), float32.

    Shapes: tensors of any shapes.

    Parameters
    ----------
    num_arrays
        number of tensors
    """

def nag_mom_update(weight: NDArray, grad: NDArray, mom: NDArray, lr: float, momentum: float = 0.0,
                   wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
    """x = clipped(rescale_grad g);  y = lr (x + wd w);  w = w + momentum (momentum mom - y) - y;
    mom = momentum mom - lr (x + wd w) with the new w.

    Nesterov's accelerated gradient with the velocity taken at the next point.  That the velocity
    decays with the new weight is what MXNet does whenever the output is the weight itself, as it
    is in training; nbmod does it always.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    momentum
        decay rate of the moving average, or of the step
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    """

def nanprod(data: NDArray, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
            exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
            name: str | None = None) -> NDArray:
    """Product over axes in which NaN counts as 1 and gets no gradient.

    Shapes: data (2, 3, 4), axis=1 -> (2, 4), with keepdims (2, 1, 4); no axis: (1,).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    keepdims
        axes that are reduced stay, with length 1
    exclude
        reduce all axes but those of `axis`
    """

def nansum(data: NDArray, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
           exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
           name: str | None = None) -> NDArray:
    """Sum over axes in which NaN counts as 0 and gets no gradient.

    Shapes: data (2, 3, 4), axis=1 -> (2, 4), with keepdims (2, 1, 4); no axis: (1,).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    keepdims
        axes that are reduced stay, with length 1
    exclude
        reduce all axes but those of `axis`
    """

def negative(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
            ) -> NDArray:
    """The negative.

    x = data
    y = -x
    gx = -gy

    Shapes: all tensors have one shape.
    """

def norm(data: NDArray, ord: int = 2, axis: Sequence[int] | int | None = None,
         out_dtype: Literal['float16', 'float32', 'float64', 'int32', 'int64', 'int8'] | None = None,
         keepdims: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
         name: str | None = None) -> NDArray:
    """L1 norm (sum of magnitudes) or L2 norm (root of the sum of squares) over axes.

    Squares are summed in float64, so they neither overflow nor lose digits; of integers the true
    norm is cut to an integer (MXNet's own integer norm is off: 5 for (3, 4, 5)).
    The gradient of a zero L2 norm is NaN, as in MXNet.

    Parameters
    ----------
    ord
        order of the norm: 1 or 2
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    out_dtype
        element type of the result; None: that of the data
    keepdims
        axes that are reduced stay, with length 1
    """

def one_hot(indices: NDArray, depth: int, on_value: float = 1.0, off_value: float = 0.0,
            dtype: DTypeLike = 'float32', out: NDArray | Sequence[NDArray] | None = None,
            name: str | None = None) -> NDArray:
    """`on_value` at the index, `off_value` elsewhere, along a new last axis of size `depth`.

    An index outside, and NaN, gives a row of `off_value`.  No gradient.

    Shapes: indices (2, 3) -> (2, 3, depth).

    Parameters
    ----------
    dtype
        element type of the result
    """

def ones_like(data: NDArray, out: NDArray | Sequence[NDArray] | None = None,
              name: str | None = None) -> NDArray:
    """Ones of the shape and type of the input."""

def pick(data: NDArray, index: NDArray, axis: int | None = -1, keepdims: bool | int = False,
         mode: Literal['clip', 'wrap'] = 'clip', out: NDArray | Sequence[NDArray] | None = None,
         name: str | None = None) -> NDArray:
    """The element at `index` along `axis`, for every position of the other axes.

    Shapes: data (2, 3), index (2,), axis=1 -> (2,), with keepdims (2, 1).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    keepdims
        axes that are reduced stay, with length 1
    mode
        which of the variants the text above describes
    """

def preloaded_multi_mp_sgd_mom_update(*data: NDArray, momentum: float = 0.0,
                                      rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                                      num_weights: int = 1,
                                      out: NDArray | Sequence[NDArray] | None = None,
                                      name: str | None = None) -> NDArray | Any:
    """`multi_mp_sgd_mom_update` with tensors lrs and wds of shape (num_weights,).

    Shapes: all tensors of one weight have its shape, lrs and wds are (num_weights,).

    Parameters
    ----------
    momentum
        decay rate of the moving average, or of the step
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    num_weights
        number of weights
    """

def preloaded_multi_mp_sgd_update(*data: NDArray, rescale_grad: float = 1.0,
                                  clip_gradient: float = -1.0, num_weights: int = 1,
                                  out: NDArray | Sequence[NDArray] | None = None,
                                  name: str | None = None) -> NDArray | Any:
    """`multi_mp_sgd_update` with tensors lrs and wds of shape (num_weights,).

    Shapes: all tensors of one weight have its shape, lrs and wds are (num_weights,).

    Parameters
    ----------
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    num_weights
        number of weights
    """

def preloaded_multi_sgd_mom_update(*data: NDArray, momentum: float = 0.0,
                                   rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                                   num_weights: int = 1,
                                   out: NDArray | Sequence[NDArray] | None = None,
                                   name: str | None = None) -> NDArray | Any:
    """`multi_sgd_mom_update` with tensors lrs and wds of shape (num_weights,).

    Shapes: all tensors of one weight have its shape, lrs and wds are (num_weights,).

    Parameters
    ----------
    momentum
        decay rate of the moving average, or of the step
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    num_weights
        number of weights
    """

def preloaded_multi_sgd_update(*data: NDArray, rescale_grad: float = 1.0,
                               clip_gradient: float = -1.0, num_weights: int = 1,
                               out: NDArray | Sequence[NDArray] | None = None,
                               name: str | None = None) -> NDArray | Any:
    """`multi_sgd_update` with tensors lrs and wds of shape (num_weights,).

    Shapes: all tensors of one weight have its shape, lrs and wds are (num_weights,).

    Parameters
    ----------
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    num_weights
        number of weights
    """

def prod(data: NDArray, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
         exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
         name: str | None = None) -> NDArray:
    """Product over axes.  The gradient is g y / x, so it is NaN where x is 0, as in MXNet.

    Shapes: data (2, 3, 4), axis=1 -> (2, 4), with keepdims (2, 1, 4); no axis: (1,).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    keepdims
        axes that are reduced stay, with length 1
    exclude
        reduce all axes but those of `axis`
    """

def radians(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> NDArray:
    """Degrees as radians.

    x = data
    y = x * 0.017453292519943295
    gx = gy * 0.017453292519943295

    Shapes: all tensors have one shape.
    """

def rcbrt(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
         ) -> NDArray:
    """Reciprocal of the cube root.

    x = data
    y = 1 / cbrt(x)
    gx = gy * y * y * y * y / -3

    Shapes: all tensors have one shape.
    """

def reciprocal(data: NDArray, out: NDArray | Sequence[NDArray] | None = None,
               name: str | None = None) -> NDArray:
    """1 / x.

    x = data
    y = 1 / x
    gx = -gy * y * y

    Shapes: all tensors have one shape.
    """

def relu(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
        ) -> NDArray:
    """x where it is positive, else 0; NaN, and its gradient, is NaN.

    x = data
    y = where(x <= 0, 0, x)
    gx = where(y > 0, gy, y)

    Shapes: all tensors have one shape.
    """

def repeat(data: NDArray, repeats: int, axis: int | None = None,
           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Every index along `axis` `repeats` times in a row; axis None: every element, flattened.

    Shapes: data (2, 3), repeats=2, axis=1 -> (2, 6).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def reset_arrays(*data: NDArray, num_arrays: int = ...,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> list[NDArray]:
    """Every element of every tensor becomes 0, in place; there is no output.

    Shapes: tensors of any shapes.

    Parameters
    ----------
    num_arrays
        number of tensors
    """

def reshape_like(lhs: NDArray, rhs: NDArray, lhs_begin: int | None = None,
                 lhs_end: int | None = None, rhs_begin: int | None = None,
                 rhs_end: int | None = None, out: NDArray | Sequence[NDArray] | None = None,
                 name: str | None = None) -> NDArray:
    """`lhs` in the shape of `rhs`.

    With `lhs_begin`, ... dimensions [lhs_begin, lhs_end) of lhs are replaced by dimensions
    [rhs_begin, rhs_end) of rhs; None is the first and the one past the last.
    """

def reverse(data: NDArray, axis: Sequence[int] | int,
            out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """The elements in reverse order along each of `axis`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def rint(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
        ) -> NDArray:
    """The nearest whole number, halves down.

    x = data
    y = where(x - floor(x) <= ceil(x) - x, floor(x), ceil(x))
    gx = 0

    Shapes: all tensors have one shape.
    """

def rmsprop_update(weight: NDArray, grad: NDArray, n: NDArray, lr: float, gamma1: float = 0.95,
                   epsilon: float = 1e-08, wd: float = 0.0, rescale_grad: float = 1.0,
                   clip_gradient: float = -1.0, clip_weights: float = -1.0,
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
    """x = clipped(rescale_grad g + wd w);  n = gamma1 n + (1 - gamma1) x^2;
    w = w - lr x / sqrt(n + epsilon), then clipped to clip_weights if that is not negative.

    Tieleman and Hinton (2012).

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    epsilon
        added to the denominator
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    """

def rmspropalex_update(weight: NDArray, grad: NDArray, n: NDArray, g: NDArray, delta: NDArray,
                       lr: float, gamma1: float = 0.95, gamma2: float = 0.9,
                       epsilon: float = 1e-08, wd: float = 0.0, rescale_grad: float = 1.0,
                       clip_gradient: float = -1.0, clip_weights: float = -1.0,
                       out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray:
    """x = clipped(rescale_grad g + wd w);  n = gamma1 n + (1 - gamma1) x^2;
    g = gamma1 g + (1 - gamma1) x;  delta = gamma2 delta - lr x / sqrt(n - g^2 + epsilon);
    w = w + delta, then clipped to clip_weights if that is not negative.

    The centred form with momentum of Graves (2013); the state g is the mean gradient.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    epsilon
        added to the denominator
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    """

def round(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
         ) -> NDArray:
    """The nearest whole number, halves away from 0.

    x = data
    y = trunc(x) - where(abs(x - trunc(x)) >= 0.5, where(x > 0, -1, 1), 0)
    gx = 0

    Shapes: all tensors have one shape.
    """

def rsqrt(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
         ) -> NDArray:
    """Reciprocal of the square root.

    x = data
    y = 1 / sqrt(x)
    gx = -0.5 * gy * y * y * y

    Shapes: all tensors have one shape.
    """

def scatter_nd(data: NDArray, indices: NDArray, shape: Sequence[int] | int,
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Zeros of `shape` with data[k] at indices[:, k]; of equal indices the last one counts.

    Indices lose their fractions first, so that -0.5 is 0; to `gather_nd` it is the last, as in
    MXNet.

    Parameters
    ----------
    shape
        shape of the result
    """

def sgd_mom_update(weight: NDArray, grad: NDArray, mom: NDArray, lr: float, momentum: float = 0.0,
                   wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                   lazy_update: bool | int = True, out: NDArray | Sequence[NDArray] | None = None,
                   name: str | None = None) -> NDArray:
    """mom = momentum mom - lr (clipped(rescale_grad g) + wd w);  w = w + mom.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    momentum
        decay rate of the moving average, or of the step
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    lazy_update
        with sparse gradients, rows without a gradient are not updated
    """

def sgd_update(weight: NDArray, grad: NDArray, lr: float, wd: float = 0.0,
               rescale_grad: float = 1.0, clip_gradient: float = -1.0,
               lazy_update: bool | int = True, out: NDArray | Sequence[NDArray] | None = None,
               name: str | None = None) -> NDArray:
    """w = w - lr (clipped(rescale_grad g) + wd w).

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    lazy_update
        with sparse gradients, rows without a gradient are not updated
    """

def shape_array(data: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                name: str | None = None) -> NDArray:
    """The shape of `data` as a 1-D int64 array.  No gradient."""

def sigmoid(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> NDArray:
    """The logistic function.

    x = data
    y = 1 / (1 + exp(-x))
    gx = gy * y * (1 - y)

    Shapes: all tensors have one shape.
    """

def sign(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
        ) -> NDArray:
    """-1, 0 or 1.

    x = data
    y = where(x > 0, 1, where(x < 0, -1, 0))
    gx = 0

    Shapes: all tensors have one shape.
    """

def signsgd_update(weight: NDArray, grad: NDArray, lr: float, wd: float = 0.0,
                   rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
    """w = (1 - lr wd) w - lr sign(g), with sign(0) = sign(NaN) = 0.

    Bernstein et al. (2018).  Scale and magnitude of the gradient do not matter: `rescale_grad` and
    `clip_gradient` are read and ignored, even a negative scale, as in MXNet.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    """

def signum_update(weight: NDArray, grad: NDArray, mom: NDArray, lr: float, momentum: float = 0.0,
                  wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                  wd_lh: float = 0.0, out: NDArray | Sequence[NDArray] | None = None,
                  name: str | None = None) -> NDArray:
    """mom = momentum mom - (1 - momentum) (clipped(rescale_grad g) + wd w);
    w = (1 - lr wd_lh) w + lr sign(mom).

    Bernstein et al. (2018); `wd_lh` is decay apart from the gradient, of Loshchilov and Hutter.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    momentum
        decay rate of the moving average, or of the step
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    """

def sin(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
       ) -> NDArray:
    """Sine of x radians.

    x = data
    y = sin(x)
    gx = gy * cos(x)

    Shapes: all tensors have one shape.
    """

def sinh(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
        ) -> NDArray:
    """Hyperbolic sine.

    x = data
    y = sinh(x)
    gx = gy * cosh(x)

    Shapes: all tensors have one shape.
    """

def size_array(data: NDArray, out: NDArray | Sequence[NDArray] | None = None,
               name: str | None = None) -> NDArray:
    """The number of elements of `data` as a (1,) int64 array.  No gradient."""

def slice(data: NDArray, begin: Sequence[int | None] | int, end: Sequence[int | None] | int,
          step: Sequence[int | None] | int = (), out: NDArray | Sequence[NDArray] | None = None,
          name: str | None = None) -> NDArray:
    """data[begin[0]:end[0]:step[0], ...] as in Python, None and negative values included.

    Shapes: data (5, 4), begin=(1, None), end=(3, None) -> (2, 4).

    Parameters
    ----------
    begin
        first index along each axis; None: from the start
    end
        index after the last along each axis; None: to the end
    step
        step along each axis
    """

def slice_axis(data: NDArray, axis: int, begin: int, end: int | None,
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Indices [begin, end) along `axis`; negative ones count from the end, end None is the end.

    Shapes: data (5, 4), axis=0, begin=1, end=-1 -> (3, 4).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    begin
        first index along each axis; None: from the start
    end
        index after the last along each axis; None: to the end
    """

def slice_like(data: NDArray, shape_like: NDArray, axes: Sequence[int] | int = (),
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """The leading part of `data`, as large as `shape_like` along `axes` (none: along all).

    Negative axes count from the end of `data`, for both.

    Shapes: data (5, 4), shape_like (2, 3), axes=(1,) -> (5, 3).
    """

def smooth_l1(data: NDArray, scalar: float = 1.0, is_int: bool | int = True,
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Smooth L1 loss with `scalar` for sigma: quadratic within 1 / sigma^2 of 0, linear beyond.

    y = 0.5 (sigma x)^2   where |x| <= 1 / sigma^2,   else |x| - 0.5 / sigma^2

    Shapes: all tensors have one shape.

    Parameters
    ----------
    scalar
        the number
    is_int
        with integer data the number is truncated to an integer
    """

def softmax(data: NDArray, length: NDArray | None = None, axis: int = -1,
            temperature: float | None = None, dtype: DTypeLike | None = None,
            use_length: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
            name: str | None = None) -> NDArray:
    """y = exp(x / temperature) / (sum of the same along `axis`).

    With `use_length` an integer tensor `length`, shaped like data without `axis`, says how many
    leading elements take part; y is 0 for the others.  `dtype` is the type of y.

    Shapes: data and output have one shape.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    dtype
        element type of the result
    """

def softmax_cross_entropy(data: NDArray, label: NDArray,
                          out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                         ) -> NDArray:
    """y (1,) = - sum over rows of log(softmax(data)[row, label[row]]); data (N, K), label (N,).

    Labels that are no class are ignored; probabilities below 1e-8 count as 1e-8.
    """

def softmin(data: NDArray, axis: int = -1, temperature: float | None = None,
            dtype: DTypeLike | None = None, use_length: bool | int = False,
            out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """y = softmax(-x / temperature) along `axis`; `use_length` has no effect, as in MXNet.

    Shapes: data and output have one shape.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    dtype
        element type of the result
    """

def softsign(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
            ) -> NDArray:
    """A smooth step from -1 to 1.

    x = data
    y = x / (1 + abs(x))
    gx = gy / ((1 + abs(x)) * (1 + abs(x)))

    Shapes: all tensors have one shape.
    """

def sort(data: NDArray, axis: int | None = -1, is_ascend: bool | int = True,
         out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray | Any:
    """data in order along `axis`, of the same shape; all of it, (N,), with axis None.

    The sort is stable; NaN comes last.  The gradient is the inverse permutation.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    is_ascend
        smallest first
    """

def space_to_depth(data: NDArray, block_size: int, out: NDArray | Sequence[NDArray] | None = None,
                   name: str | None = None) -> NDArray:
    """(N, C, H b, W b) to (N, b b C, H, W): the inverse of depth_to_space.

    Parameters
    ----------
    block_size
        side of the square of pixels that becomes channels, or the reverse
    """

def sqrt(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
        ) -> NDArray:
    """Square root.

    x = data
    y = sqrt(x)
    gx = 0.5 * gy / y

    Shapes: all tensors have one shape.
    """

def square(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
          ) -> NDArray:
    """Square.

    x = data
    y = x * x
    gx = 2 * x * gy

    Shapes: all tensors have one shape.
    """

def squeeze(data: NDArray, axis: Sequence[int] | int | None = None,
            out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Without the dimensions `axis`, which must have size 1; None: without all of size 1.

    If nothing remains the shape is (1,).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def stack(*data: NDArray, axis: int = 0, num_args: int = ...,
          out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Inputs of one shape stacked along a new `axis`.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    num_args
        number of tensors; functions count them
    """

def sum(data: NDArray, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
        exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
        name: str | None = None) -> NDArray:
    """Sum over axes, in the input's type (integers wrap).

    Shapes: data (2, 3, 4), axis=1 -> (2, 4), with keepdims (2, 1, 4); no axis: (1,).

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    keepdims
        axes that are reduced stay, with length 1
    exclude
        reduce all axes but those of `axis`
    """

def take(a: NDArray, indices: NDArray, axis: int = 0,
         mode: Literal['clip', 'raise', 'wrap'] = 'clip',
         out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Slices of `a` along `axis` at `indices`: (before, *indices, after).

    `mode`: indices out of range are clipped, wrapped around, or an error.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    mode
        which of the variants the text above describes
    """

def tan(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
       ) -> NDArray:
    """Tangent of x radians.

    x = data
    y = tan(x)
    gx = gy * (1 + y * y)

    Shapes: all tensors have one shape.
    """

def tanh(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
        ) -> NDArray:
    """Hyperbolic tangent.

    x = data
    y = tanh(x)
    gx = gy * (1 - y * y)

    Shapes: all tensors have one shape.
    """

def tile(data: NDArray, reps: Sequence[int] | int, out: NDArray | Sequence[NDArray] | None = None,
         name: str | None = None) -> NDArray:
    """The whole of `data` `reps[i]` times along axis i; the shorter of shape and reps is filled
    with ones at the left.
    """

def topk(data: NDArray, axis: int | None = -1, k: int = 1,
         ret_typ: Literal['both', 'indices', 'mask', 'value'] = 'indices',
         is_ascend: bool | int = False, dtype: DTypeLike = 'float32',
         out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray | Any:
    """The k largest elements along `axis`, in descending order; the smallest with `is_ascend`.

    data (..., K, ...) -> (..., k, ...), or from data taken flat (k,) with axis None.  k below 1 is
    all.  `ret_typ` selects the outputs: 'indices', 'value', 'both' (values, then indices), or a
    'mask' of data's shape, 1 at the elements chosen.  Indices are of type `dtype`, in which large
    ones are rounded or wrap around.  Values pass their gradient to the elements that they are.
    Equal elements stay in order; NaN comes last.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    k
        number of elements; less than 1: all
    is_ascend
        smallest first
    dtype
        element type of the result
    """

def transpose(data: NDArray, axes: Sequence[int] | int = (),
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Axes in the order `axes`; none given reverses them.

    Shapes: data (2, 3, 4), axes=(1, 0, 2) -> (3, 2, 4).
    """

def trunc(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
         ) -> NDArray:
    """x without its fraction.

    x = data
    y = trunc(x)
    gx = 0

    Shapes: all tensors have one shape.
    """

def where(condition: NDArray, x: NDArray, y: NDArray,
          out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """x where the condition is not 0, else y.

    The condition has the shape of x and y, or is a vector that chooses along their first
    dimension; it may be of any type, and its gradient is 0.

    Shapes: x, y and output have one shape.
    """

def zeros_like(data: NDArray, out: NDArray | Sequence[NDArray] | None = None,
               name: str | None = None) -> NDArray:
    """Zeros of the shape and type of the input."""

def BBoxNorm(data: NDArray, label: NDArray,
             normalization: Literal['null', 'batch', 'valid'] = 'valid',
             out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """data itself; its gradient is divided by one more than the number of labels from 1 up.

    data (N, 4 A, P): a loss of the boxes of A anchors at P positions; label (N, A P).  With
    normalization "batch" the gradient is divided by N, with "null" it is not divided.

    Parameters
    ----------
    normalization
        what the gradient is divided by
    """

BatchNorm_v1 = BatchNorm

def BroadcastScale(data: NDArray, scaler: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                   name: str | None = None) -> NDArray:
    """data times scaler, whose axes of size 1 are repeated; the gradient of scaler is 0.

    data and scaler have 4 axes.

    Shapes: data (2, 3, 4, 4), scaler (1, 3, 1, 1) -> (2, 3, 4, 4).
    """

CuDNNBatchNorm = BatchNorm

def DecodeBBox(rois: NDArray, bbox_pred: NDArray, im_info: NDArray,
               bbox_mean: Sequence[float] | float = (0.0, 0.0, 0.0, 0.0),
               bbox_std: Sequence[float] | float = (0.1, 0.1, 0.2, 0.2),
               class_agnostic: bool | int = True,
               bbox_decode_type: Literal['xywh', 'xyxy'] = 'xywh',
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """The boxes that a second stage predicts: rois (N, R, 4), bbox_pred (N, R, 4 K) -> (N, R, 4 K).

    Offsets are multiplied by bbox_std and added to bbox_mean.  They move the center and scale the
    size ("xywh"), or move the corners in units of the size ("xyxy"); boxes are clipped to the
    image, im_info (N, 3).  With `class_agnostic` only the second class is decoded: (N, R, 4).

    Parameters
    ----------
    bbox_mean
        subtracted from offsets
    bbox_std
        offsets are divided by it
    class_agnostic
        one set of offsets for all classes
    bbox_decode_type
        offsets of center and size, or of corners
    """

ElementWiseSum = add_n

def FocalLoss(data: NDArray, label: NDArray, alpha: float = 0.25, gamma: float = 2.0,
              grad_scale: float = 1.0, normalization: Literal['null', 'batch', 'valid'] = 'null',
              out_grad: bool | int = False, workspace: int = 256,
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """sigmoid(data), with the gradient of the focal loss (Lin et al. 2017) against label.

    data (N, A, K): scores of K classes for A anchors; label (N, A): 0 for the background, k for
    class k - 1 of data, -1 for an anchor that is ignored.  Of the class of the label the loss is
    -alpha (1 - p)^gamma log(p), of the others -(1 - alpha) p^gamma log(1 - p).  Its gradient is
    multiplied by `grad_scale` and divided by 1 ("null"), by N ("batch"), or by one more than the
    number of anchors of objects ("valid"); with `out_grad` it is also multiplied by the gradient of
    the output.  `workspace` changes nothing.

    Parameters
    ----------
    normalization
        what the gradient is divided by
    workspace
        accepted for old files; has no effect
    """

def GenAnchor(cls_prob: NDArray, scales: Sequence[float] | float = (4.0, 8.0, 16.0, 32.0),
              ratios: Sequence[float] | float = (0.5, 1.0, 2.0), feature_stride: int = 16,
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """The anchors of a feature map: (H W A, 4), rows (left, top, right, bottom).

    A is the number of scales times that of ratios.  Of cls_prob (N, C, H, W) only H and W matter.

    Parameters
    ----------
    scales
        sizes of the anchors, in strides
    ratios
        height over width of the anchors
    feature_stride
        pixels of the image per pixel of the feature map
    """

def GenProposalRetina(cls_prob: NDArray, bbox_pred: NDArray, im_info: NDArray, anchors: NDArray,
                      num_anchors: int, rpn_pre_nms_top_n: int = 6000, rpn_min_size: int = 16,
                      feature_stride: int = 16, thresh: float = 0.0,
                      anchor_mean: Sequence[float] | float = (0.0, 0.0, 0.0, 0.0),
                      anchor_std: Sequence[float] | float = (1.0, 1.0, 1.0, 1.0),
                      iou_loss: bool | int = False, output_one_hot: bool | int = True,
                      batch_wise_anchor: bool | int = False, workspace: int = 256,
                      out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                     ) -> list[NDArray]:
    """The best boxes of one level of RetinaNet: (N, P, 4) and scores (N, P, K + 1).

    P = rpn_pre_nms_top_n.  cls_prob (N, A K, H, W) for A = `num_anchors` and K classes, bbox_pred
    (N, 4 A, H, W), im_info (N, 3), anchors (H W A, 4), or (N, H W A, 4) with
    `batch_wise_anchor`.  Offsets are multiplied by anchor_std and added to anchor_mean, with
    `iou_loss` instead added to the corners.  Pairs of an anchor and a class are sorted by score;
    those not above `thresh`, and boxes smaller than rpn_min_size times the scale of the image, are
    left out, and rows left over are 0.  A score is in the column of its class, after one for the
    background; without `output_one_hot` there is one column.  `workspace` changes nothing.

    Parameters
    ----------
    rpn_pre_nms_top_n
        number of boxes of the highest scores that suppression gets
    rpn_min_size
        smaller boxes are dropped
    feature_stride
        pixels of the image per pixel of the feature map
    iou_loss
        the predictions are corners' offsets, as trained with an IoU loss
    workspace
        accepted for old files; has no effect
    """

def Proposal_v2(cls_prob: NDArray, bbox_pred: NDArray, im_info: NDArray, valid_ranges: NDArray,
                rpn_pre_nms_top_n: int = 6000, rpn_post_nms_top_n: int = 300,
                threshold: float = 0.7, rpn_min_size: int = 16,
                scales: Sequence[float] | float = (4.0, 8.0, 16.0, 32.0),
                ratios: Sequence[float] | float = (0.5, 1.0, 2.0), feature_stride: int = 16,
                output_score: bool | int = False, iou_loss: bool | int = False,
                workspace: int = 256, filter_scales: bool | int = False,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
               ) -> NDArray | Any:
    """Region proposals (N, P, 4) and scores (N, P, 1), P = rpn_post_nms_top_n.

    As `_contrib_MultiProposal`, but rois are by image and without its number, and rows that are
    left over are 0.  With `filter_scales` boxes whose area is outside of valid_ranges (N, 2), the
    squares of a row's smallest and largest side, get score -1 too.  `workspace` changes nothing.

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
    workspace
        accepted for old files; has no effect
    """

def Proposal_v3(cls_prob: NDArray, bbox_pred: NDArray, im_info: NDArray,
                rpn_pre_nms_top_n: int = 6000, rpn_post_nms_top_n: int = 300,
                threshold: float = 0.7, rpn_min_size: int = 16,
                scales: Sequence[float] | float = (4.0, 8.0, 16.0, 32.0),
                ratios: Sequence[float] | float = (0.5, 1.0, 2.0), feature_stride: int = 16,
                output_score: bool | int = False, iou_loss: bool | int = False,
                is_train: bool | int = False, workspace: int = 256,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
               ) -> NDArray | Any:
    """Region proposals (N, P, 4) and scores (N, P, 1) as in Detectron, P = rpn_post_nms_top_n.

    Anchors are rounded to even; offsets move the middle of a box that is one pixel larger, and
    enlarge it at most by 1000 / 16.  A box smaller than max(rpn_min_size, 1) pixels of the original
    image on a side, or whose center is outside of the image, grows by as much and gets score -1,
    but keeps its place among the `rpn_pre_nms_top_n` best, and suppresses others; an overlap equal
    to the threshold suppresses as well.  With `iou_loss` anchors outside of the image come last.
    Rows that are left over repeat proposals with `is_train`, otherwise they are 0.  `workspace`
    changes nothing.

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
    workspace
        accepted for old files; has no effect
    """

def Quantization_int8(data: NDArray, minmax: NDArray, quant_mode: Literal['minmax'] = 'minmax',
                      is_weight: bool | int = True, is_weight_perchannel: bool | int = False,
                      delay_quant: int = 0, ema_decay: float = 0.99,
                      grad_mode: Literal['ste', 'clip'] = 'ste', fix_act_scale: bool | int = False,
                      out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                     ) -> NDArray:
    """data rounded to 255 levels of -minmax to minmax: training for 8-bit inference.

    The auxiliary state minmax (1,) is the largest absolute value: of this batch if `is_weight`,
    else an average over batches, which keeps `ema_decay` of itself (the first batch sets a state
    below 1e-6).  It changes in training only, and not with `fix_act_scale`.  Activations beyond it
    are clipped.  The first `delay_quant` training steps of an executor leave data as it is.

    The gradient is that of the output, unchanged ("ste", the straight-through estimator); for
    activations with `grad_mode` "clip" it is 0 outside of the range.  `quant_mode` has one value;
    `is_weight_perchannel` is not supported.
    """

def ROIAlign_v2(data: NDArray, rois: NDArray, pooled_size: Sequence[int] | int,
                spatial_scale: float, out: NDArray | Sequence[NDArray] | None = None,
                name: str | None = None) -> NDArray | Any:
    """The largest interpolated value in every bin of regions: (N, R, C, PH, PW).

    data (N, C, H, W), rois (N, R, 4): R regions of each image, multiplied by `spatial_scale`.  A
    bin, clipped to the image, has points at one and two thirds of its height and width; an empty
    one is 0.  The gradient goes to the point that was the largest; rois have none.

    Parameters
    ----------
    pooled_size
        height and width of the result for each region
    spatial_scale
        size of the feature map over that of the image the regions refer to
    """

def SigmoidCrossEntropy(data: NDArray, label: NDArray, grad_scale: float = 1.0,
                        normalization: Literal['null', 'valid'] = 'valid',
                        out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                       ) -> NDArray:
    """The mean binary cross entropy of each sample: data and label (N, ...) give (N,).

    Labels are probabilities of the logits in data, or -1 where they are ignored; the mean is over
    the others (plus 1e-5).  The gradient is `grad_scale` times that of the mean, or with
    normalization "null" of the sum; it does not depend on the gradient of the output.

    Parameters
    ----------
    normalization
        what the gradient is divided by
    """

Softmax = SoftmaxOutput

broadcast_axes = broadcast_axis

broadcast_minus = broadcast_sub

broadcast_plus = broadcast_add

cast = Cast

choose_element_0index = pick

concat = Concat

crop = slice

ctc_loss = CTCLoss

def cumsum(a: NDArray, axis: int | None = None, dtype: DTypeLike | None = None,
           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """y[..., i, ...] = a[..., 0, ...] + ... + a[..., i, ...] along `axis`.

    Without `axis`, a is flattened first: the output is (size,).  The output has type `dtype`, that
    of a by default (int64 for bool), and sums of float16 are taken in float32.  The gradient is the
    same sum from the end.

    Parameters
    ----------
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    dtype
        element type of the result
    """

flatten = Flatten

flip = reverse

def identity(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
            ) -> NDArray:
    """y = x;  gx = gy.

    Shapes: data and output have one shape.
    """

def linalg_det(A: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
              ) -> NDArray | Any:
    """Determinants of A (..., N, N): (...), or (1,) of a single matrix.

    The gradient of a singular matrix is 0, as in MXNet.
    """

def linalg_extractdiag(A: NDArray, offset: int = 0, out: NDArray | Sequence[NDArray] | None = None,
                       name: str | None = None) -> NDArray:
    """Diagonal number `offset` (above the main one if positive) of A: (..., N, N) -> (..., L).

    Parameters
    ----------
    offset
        which diagonal: 0 the main one, positive ones above it
    """

def linalg_extracttrian(A: NDArray, offset: int = 0, lower: bool | int = True,
                        out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                       ) -> NDArray:
    """A triangle of A: (..., N, N) -> (..., L (L + 1) / 2), L = N - |offset|.

    It begins at diagonal number `offset`: the upper one, column by column, if that is positive, the
    lower one, row by row, if negative, else the one that `lower` says.

    Parameters
    ----------
    offset
        which diagonal: 0 the main one, positive ones above it
    lower
        the triangle that is read: the lower one, else the upper one
    """

def linalg_gelqf(A: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                 name: str | None = None) -> list[NDArray]:
    """A = L Q, L lower triangular (..., M, M), rows of Q (..., M, N) orthonormal; outputs Q, L.

    A is (..., M, N), M <= N, of full rank.
    """

def linalg_gemm(A: NDArray, B: NDArray, C: NDArray, transpose_a: bool | int = False,
                transpose_b: bool | int = False, alpha: float = 1.0, beta: float = 1.0,
                axis: int = -2, out: NDArray | Sequence[NDArray] | None = None,
                name: str | None = None) -> NDArray:
    """alpha A B + beta C for stacks of matrices, as gemm2.

    Shapes: A (..., M, K), B (..., K, N), C (..., M, N) -> (..., M, N).

    Parameters
    ----------
    transpose_a
        swap the last two axes of the first matrix
    transpose_b
        swap the last two axes of the second matrix
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def linalg_gemm2(A: NDArray, B: NDArray, transpose_a: bool | int = False,
                 transpose_b: bool | int = False, alpha: float = 1.0, axis: int = -2,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """alpha A B for stacks of matrices; rows lie along `axis`, columns along the last axis.

    Shapes: A (..., M, K), B (..., K, N) -> (..., M, N).

    Parameters
    ----------
    transpose_a
        swap the last two axes of the first matrix
    transpose_b
        swap the last two axes of the second matrix
    axis
        the axis, or axes, that the op works along; negative ones count from the end
    """

def linalg_inverse(A: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                   name: str | None = None) -> NDArray:
    """A^-1.

    Shapes: A (..., N, N) -> (..., N, N).
    """

def linalg_makediag(A: NDArray, offset: int = 0, out: NDArray | Sequence[NDArray] | None = None,
                    name: str | None = None) -> NDArray:
    """Matrices with A on diagonal number `offset`: (..., L) -> (..., N, N), N = L + |offset|.

    Parameters
    ----------
    offset
        which diagonal: 0 the main one, positive ones above it
    """

def linalg_maketrian(A: NDArray, offset: int = 0, lower: bool | int = True,
                     out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                    ) -> NDArray:
    """Matrices with A for a triangle, as extracttrian: (..., L (L + 1) / 2) -> (..., N, N).

    Parameters
    ----------
    offset
        which diagonal: 0 the main one, positive ones above it
    lower
        the triangle that is read: the lower one, else the upper one
    """

def linalg_potrf(A: NDArray, lower: bool | int = True,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """Cholesky factor: lower triangular L of A = L L^T, or with `lower=False` U of A = U^T U.

    Only that triangle of A is read.

    Shapes: A (..., N, N) -> (..., N, N).

    Parameters
    ----------
    lower
        the triangle that is read: the lower one, else the upper one
    """

def linalg_potri(A: NDArray, lower: bool | int = True,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """The inverse of the matrix whose factor potrf gives: (A A^T)^-1 of a lower triangular A, or
    with `lower=False` (A^T A)^-1 of an upper one.  Only that triangle of A is read.

    Shapes: A (..., N, N) -> (..., N, N).

    Parameters
    ----------
    lower
        the triangle that is read: the lower one, else the upper one
    """

def linalg_slogdet(A: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                   name: str | None = None) -> NDArray | Any:
    """Sign and log |det A| of A (..., N, N): (...) each, or (1,) of a single matrix.

    A singular matrix has sign 0, -inf and, as in MXNet, gradient 0.
    """

def linalg_sumlogdiag(A: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                      name: str | None = None) -> NDArray:
    """Sum of the logarithms of the diagonal: A (..., N, N) -> (...), or (1,) of a single matrix."""

def linalg_syevd(A: NDArray, out: NDArray | Sequence[NDArray] | None = None,
                 name: str | None = None) -> list[NDArray]:
    """Symmetric A = U^T diag(w) U; outputs U (..., N, N), eigenvectors in rows, and w (..., N).

    Eigenvalues ascend; the largest element of each eigenvector is positive.  Only the lower
    triangle of A (..., N, N) is read.
    """

def linalg_syrk(A: NDArray, transpose: bool | int = False, alpha: float = 1.0,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """alpha A A^T, with `transpose` alpha A^T A.

    Shapes: A (..., M, N) -> (..., M, M), with transpose (..., N, N).

    Parameters
    ----------
    transpose
        A^T A instead of A A^T
    """

def linalg_trmm(A: NDArray, B: NDArray, transpose: bool | int = False,
                rightside: bool | int = False, lower: bool | int = True, alpha: float = 1.0,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """alpha T B, with `rightside` alpha B T; T is the lower triangle of A, or upper, or transposed.


    Shapes: A (..., N, N), B (..., N, M), with rightside (..., M, N) -> as B.

    Parameters
    ----------
    transpose
        the triangular matrix is transposed
    lower
        the triangle that is read: the lower one, else the upper one
    """

def linalg_trsm(A: NDArray, B: NDArray, transpose: bool | int = False,
                rightside: bool | int = False, lower: bool | int = True, alpha: float = 1.0,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """X of T X = alpha B, with `rightside` of X T = alpha B; T as in trmm.

    Shapes: A (..., N, N), B (..., N, M), with rightside (..., M, N) -> as B.

    Parameters
    ----------
    transpose
        the triangular matrix is transposed
    lower
        the triangle that is read: the lower one, else the upper one
    """

max_axis = max

min_axis = min

def normal(loc: float = 0.0, scale: float = 1.0, shape: Sequence[int] | int | None = None,
           ctx: Context | str | None = '', dtype: DTypeLike | None = None,
           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """Samples of the normal distribution of mean `loc` and standard deviation `scale`.

    Shapes: -> `shape`; (1,) without it.

    Parameters
    ----------
    loc
        mean
    scale
        standard deviation
    shape
        shape of the result
    ctx
        the context of the result, where there is no input to follow
    dtype
        element type of the result
    """

pad = Pad

def random_exponential(lam: float = 1.0, shape: Sequence[int] | int | None = None,
                       ctx: Context | str | None = '', dtype: DTypeLike | None = None,
                       out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray:
    """Samples of the exponential distribution of rate `lam`, mean 1 / lam.

    Shapes: -> `shape`; (1,) without it.

    Parameters
    ----------
    lam
        rate
    shape
        shape of the result
    ctx
        the context of the result, where there is no input to follow
    dtype
        element type of the result
    """

def random_gamma(alpha: float = 1.0, beta: float = 1.0, shape: Sequence[int] | int | None = None,
                 ctx: Context | str | None = '', dtype: DTypeLike | None = None,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """Samples of the gamma distribution of shape `alpha` and scale `beta`, mean alpha beta.

    Shapes: -> `shape`; (1,) without it.

    Parameters
    ----------
    alpha
        shape of the gamma distribution, or dispersion of the negative binomial one
    beta
        scale of the gamma distribution
    shape
        shape of the result
    ctx
        the context of the result, where there is no input to follow
    dtype
        element type of the result
    """

def random_generalized_negative_binomial(mu: float = 1.0, alpha: float = 1.0,
                                         shape: Sequence[int] | int | None = None,
                                         ctx: Context | str | None = '',
                                         dtype: DTypeLike | None = None,
                                         out: NDArray | Sequence[NDArray] | None = None,
                                         name: str | None = None) -> NDArray:
    """Counts of mean mu and variance mu + alpha mu^2.

    Shapes: -> `shape`; (1,) without it.

    Parameters
    ----------
    mu
        mean
    alpha
        shape of the gamma distribution, or dispersion of the negative binomial one
    shape
        shape of the result
    ctx
        the context of the result, where there is no input to follow
    dtype
        element type of the result
    """

def random_negative_binomial(k: int = 1, p: float = 1.0, shape: Sequence[int] | int | None = None,
                             ctx: Context | str | None = '', dtype: DTypeLike | None = None,
                             out: NDArray | Sequence[NDArray] | None = None,
                             name: str | None = None) -> NDArray:
    """Failures before the k-th success of trials that succeed with probability p.

    Shapes: -> `shape`; (1,) without it.

    Parameters
    ----------
    k
        number of successes
    p
        probability of success
    shape
        shape of the result
    ctx
        the context of the result, where there is no input to follow
    dtype
        element type of the result
    """

random_normal = normal

def random_pdf_dirichlet(sample: NDArray, alpha: NDArray, is_log: bool | int = False,
                         out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                        ) -> NDArray:
    """gamma(sum of alpha) times the product of x_i^(alpha_i - 1) / gamma(alpha_i) over i < k.

    Shapes: sample (d1, ..., dm, draws..., k), alpha (d1, ..., dm, k) -> (d1, ..., dm, draws...).

    Parameters
    ----------
    is_log
        densities are given as logarithms
    """

def random_pdf_exponential(sample: NDArray, lam: NDArray, is_log: bool | int = False,
                           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                          ) -> NDArray:
    """lam exp(-lam x).

    Shapes: sample (d1, ..., dm, draws...), parameters (d1, ..., dm) -> as sample.

    Parameters
    ----------
    is_log
        densities are given as logarithms
    """

def random_pdf_gamma(sample: NDArray, alpha: NDArray, beta: NDArray, is_log: bool | int = False,
                     out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                    ) -> NDArray:
    """beta^alpha x^(alpha - 1) exp(-beta x) / gamma(alpha); beta is a rate.

    Shapes: sample (d1, ..., dm, draws...), parameters (d1, ..., dm) -> as sample.

    Parameters
    ----------
    is_log
        densities are given as logarithms
    """

def random_pdf_generalized_negative_binomial(sample: NDArray, mu: NDArray, alpha: NDArray,
                                             is_log: bool | int = False,
                                             out: NDArray | Sequence[NDArray] | None = None,
                                             name: str | None = None) -> NDArray:
    """The negative binomial one with k = 1 / alpha and p = 1 / (1 + alpha mu).

    Shapes: sample (d1, ..., dm, draws...), parameters (d1, ..., dm) -> as sample.

    Parameters
    ----------
    is_log
        densities are given as logarithms
    """

def random_pdf_negative_binomial(sample: NDArray, k: NDArray, p: NDArray,
                                 is_log: bool | int = False,
                                 out: NDArray | Sequence[NDArray] | None = None,
                                 name: str | None = None) -> NDArray:
    """gamma(x + k) / (x! gamma(k)) p^k (1 - p)^x; the sample, a count, gets no gradient.

    Shapes: sample (d1, ..., dm, draws...), parameters (d1, ..., dm) -> as sample.

    Parameters
    ----------
    is_log
        densities are given as logarithms
    """

def random_pdf_normal(sample: NDArray, mu: NDArray, sigma: NDArray, is_log: bool | int = False,
                      out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                     ) -> NDArray:
    """exp(-(x - mu)^2 / (2 sigma^2)) / (sigma sqrt(2 pi)).

    Shapes: sample (d1, ..., dm, draws...), parameters (d1, ..., dm) -> as sample.

    Parameters
    ----------
    is_log
        densities are given as logarithms
    """

def random_pdf_poisson(sample: NDArray, lam: NDArray, is_log: bool | int = False,
                       out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray:
    """lam^x exp(-lam) / x!; the sample, a count, gets no gradient.

    Shapes: sample (d1, ..., dm, draws...), parameters (d1, ..., dm) -> as sample.

    Parameters
    ----------
    is_log
        densities are given as logarithms
    """

def random_pdf_uniform(sample: NDArray, low: NDArray, high: NDArray, is_log: bool | int = False,
                       out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray:
    """1 / (high - low), whether or not the sample lies between them.

    Shapes: sample (d1, ..., dm, draws...), parameters (d1, ..., dm) -> as sample.

    Parameters
    ----------
    is_log
        densities are given as logarithms
    """

def random_poisson(lam: float = 1.0, shape: Sequence[int] | int | None = None,
                   ctx: Context | str | None = '', dtype: DTypeLike | None = None,
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
    """Samples of the Poisson distribution of rate `lam`: counts, as floating-point numbers.

    Shapes: -> `shape`; (1,) without it.

    Parameters
    ----------
    lam
        rate
    shape
        shape of the result
    ctx
        the context of the result, where there is no input to follow
    dtype
        element type of the result
    """

def random_randint(low: int, high: int, shape: Sequence[int] | int | None = None,
                   ctx: Context | str | None = '', dtype: DTypeLike | None = None,
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
    """Integers of [low, high), all equally likely.

    Shapes: -> `shape`; (1,) without it.

    Parameters
    ----------
    low
        lower limit
    high
        upper limit, exclusive
    shape
        shape of the result
    ctx
        the context of the result, where there is no input to follow
    dtype
        element type of the result
    """

def random_uniform(low: float = 0.0, high: float = 1.0, shape: Sequence[int] | int | None = None,
                   ctx: Context | str | None = '', dtype: DTypeLike | None = None,
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
    """Samples of the uniform distribution over [low, high).

    Shapes: -> `shape`; (1,) without it.

    Parameters
    ----------
    low
        lower limit
    high
        upper limit, exclusive
    shape
        shape of the result
    ctx
        the context of the result, where there is no input to follow
    dtype
        element type of the result
    """

def ravel_multi_index(data: NDArray, shape: Sequence[int] | int,
                      out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                     ) -> NDArray:
    """Flat indices of the positions in the columns of `data` (M, ...) in a tensor of `shape`.

    No gradient; no check of the range.

    Parameters
    ----------
    shape
        shape of the array that the indices are in
    """

reshape = Reshape

def sample_exponential(lam: NDArray, shape: Sequence[int] | int = (),
                       dtype: DTypeLike | None = None,
                       out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray:
    """Row i: exponentially distributed with rate lam_i.

    Shapes: parameters (2,), shape=(3,) -> (2, 3).

    Parameters
    ----------
    shape
        shape of the result
    dtype
        element type of the result
    """

def sample_gamma(alpha: NDArray, beta: NDArray, shape: Sequence[int] | int = (),
                 dtype: DTypeLike | None = None, out: NDArray | Sequence[NDArray] | None = None,
                 name: str | None = None) -> NDArray:
    """Row i: gamma distributed with shape alpha_i and scale beta_i.

    Shapes: parameters (2,), shape=(3,) -> (2, 3).

    Parameters
    ----------
    shape
        shape of the result
    dtype
        element type of the result
    """

def sample_generalized_negative_binomial(mu: NDArray, alpha: NDArray,
                                         shape: Sequence[int] | int = (),
                                         dtype: DTypeLike | None = None,
                                         out: NDArray | Sequence[NDArray] | None = None,
                                         name: str | None = None) -> NDArray:
    """Row i: counts of mean mu_i and variance mu_i + alpha_i mu_i^2.

    Shapes: parameters (2,), shape=(3,) -> (2, 3).

    Parameters
    ----------
    shape
        shape of the result
    dtype
        element type of the result
    """

def sample_multinomial(data: NDArray, shape: Sequence[int] | int = (),
                       get_prob: bool | int = False, dtype: DTypeLike = 'int32',
                       out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray | Any:
    """Categories drawn from rows of probabilities: data (..., K) gives (...) + shape.

    `get_prob` adds the log probabilities of the samples as a second output; through them, and
    only through them, the gradient grad / p reaches `data` (REINFORCE).  Rows are taken to sum to
    one, as in MXNet; what is missing falls to the last category.

    Parameters
    ----------
    shape
        shape of the result
    dtype
        element type of the result
    """

def sample_negative_binomial(k: NDArray, p: NDArray, shape: Sequence[int] | int = (),
                             dtype: DTypeLike | None = None,
                             out: NDArray | Sequence[NDArray] | None = None,
                             name: str | None = None) -> NDArray:
    """Row i: failures before success number k_i, each trial succeeding with probability p_i.

    Shapes: parameters (2,), shape=(3,) -> (2, 3).

    Parameters
    ----------
    shape
        shape of the result
    dtype
        element type of the result
    """

def sample_normal(mu: NDArray, sigma: NDArray, shape: Sequence[int] | int = (),
                  dtype: DTypeLike | None = None, out: NDArray | Sequence[NDArray] | None = None,
                  name: str | None = None) -> NDArray:
    """Row i: normally distributed with mean mu_i and standard deviation sigma_i.

    Shapes: parameters (2,), shape=(3,) -> (2, 3).

    Parameters
    ----------
    shape
        shape of the result
    dtype
        element type of the result
    """

def sample_poisson(lam: NDArray, shape: Sequence[int] | int = (), dtype: DTypeLike | None = None,
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
    """Row i: Poisson distributed with rate lam_i.

    Shapes: parameters (2,), shape=(3,) -> (2, 3).

    Parameters
    ----------
    shape
        shape of the result
    dtype
        element type of the result
    """

def sample_uniform(low: NDArray, high: NDArray, shape: Sequence[int] | int = (),
                   dtype: DTypeLike | None = None, out: NDArray | Sequence[NDArray] | None = None,
                   name: str | None = None) -> NDArray:
    """Row i: uniformly distributed over [low_i, high_i).

    Shapes: parameters (2,), shape=(3,) -> (2, 3).

    Parameters
    ----------
    shape
        shape of the result
    dtype
        element type of the result
    """

def shuffle(data: NDArray, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
           ) -> NDArray:
    """The slices of `data` along its first axis, in random order.

    Shapes: data and output have one shape.
    """

split = SliceChannel

stop_gradient = BlockGrad

sum_axis = sum

swapaxes = SwapAxis

uniform = random_uniform

def unravel_index(data: NDArray, shape: Sequence[int] | int,
                  out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                 ) -> NDArray:
    """Positions (M, ...) in a tensor of `shape` of the flat indices `data`.  No gradient.

    The first dimension of `shape` is not used, so it may be unknown (-1).

    Parameters
    ----------
    shape
        shape of the array that the indices are in
    """

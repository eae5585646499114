# Written by `python docs/generate_stubs.py`.
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import DTypeLike

from ...context import Context
from ..symbol import Symbol
from . import NodeAttributes
from typing_extensions import Unpack
from .contrib import AdaptiveAvgPooling2D as _contrib_AdaptiveAvgPooling2D
from .contrib import BatchNormWithReLU as _contrib_BatchNormWithReLU
from .contrib import BilinearResize2D as _contrib_BilinearResize2D
from .contrib import DeformableConvolution as _contrib_DeformableConvolution
from .contrib import DeformablePSROIPooling as _contrib_DeformablePSROIPooling
from .contrib import GroupNorm as _contrib_GroupNorm
from .contrib import ModulatedDeformableConvolution as _contrib_ModulatedDeformableConvolution
from .contrib import MultiBoxDetection as _contrib_MultiBoxDetection
from .contrib import MultiBoxPrior as _contrib_MultiBoxPrior
from .contrib import MultiBoxTarget as _contrib_MultiBoxTarget
from .contrib import MultiProposal as _contrib_MultiProposal
from .contrib import PSROIPooling as _contrib_PSROIPooling
from .contrib import Proposal as _contrib_Proposal
from .contrib import ROIAlign as _contrib_ROIAlign
from .contrib import RROIAlign as _contrib_RROIAlign
from .contrib import SparseEmbedding as _contrib_SparseEmbedding
from .contrib import SyncBatchNorm as _contrib_SyncBatchNorm
from .contrib import allclose as _contrib_allclose
from .contrib import arange_like as _contrib_arange_like
from .contrib import bipartite_matching as _contrib_bipartite_matching
from .contrib import boolean_mask as _contrib_boolean_mask
from .contrib import box_decode as _contrib_box_decode
from .contrib import box_encode as _contrib_box_encode
from .contrib import box_iou as _contrib_box_iou
from .contrib import box_nms as _contrib_box_nms
from .contrib import box_nms as _contrib_box_non_maximum_suppression
from .contrib import calibrate_entropy as _contrib_calibrate_entropy
from .contrib import count_sketch as _contrib_count_sketch
from .contrib import dequantize as _contrib_dequantize
from .contrib import div_sqrt_dim as _contrib_div_sqrt_dim
from .contrib import fft as _contrib_fft
from .contrib import getnnz as _contrib_getnnz
from .contrib import gradientmultiplier as _contrib_gradientmultiplier
from .contrib import group_adagrad_update as _contrib_group_adagrad_update
from .contrib import hawkesll as _contrib_hawkesll
from .contrib import ifft as _contrib_ifft
from .contrib import index_array as _contrib_index_array
from .contrib import index_copy as _contrib_index_copy
from .contrib import interleaved_matmul_encdec_qk as _contrib_interleaved_matmul_encdec_qk
from .contrib import interleaved_matmul_encdec_valatt as _contrib_interleaved_matmul_encdec_valatt
from .contrib import interleaved_matmul_selfatt_qk as _contrib_interleaved_matmul_selfatt_qk
from .contrib import interleaved_matmul_selfatt_valatt as _contrib_interleaved_matmul_selfatt_valatt
from .contrib import intgemm_fully_connected as _contrib_intgemm_fully_connected
from .contrib import intgemm_maxabsolute as _contrib_intgemm_maxabsolute
from .contrib import intgemm_prepare_data as _contrib_intgemm_prepare_data
from .contrib import intgemm_prepare_weight as _contrib_intgemm_prepare_weight
from .contrib import intgemm_take_weight as _contrib_intgemm_take_weight
from .contrib import quadratic as _contrib_quadratic
from .contrib import quantize as _contrib_quantize
from .contrib import quantize_asym as _contrib_quantize_asym
from .contrib import quantize_v2 as _contrib_quantize_v2
from .contrib import quantized_act as _contrib_quantized_act
from .contrib import quantized_batch_norm as _contrib_quantized_batch_norm
from .contrib import quantized_concat as _contrib_quantized_concat
from .contrib import quantized_conv as _contrib_quantized_conv
from .contrib import quantized_elemwise_add as _contrib_quantized_elemwise_add
from .contrib import quantized_elemwise_mul as _contrib_quantized_elemwise_mul
from .contrib import quantized_embedding as _contrib_quantized_embedding
from .contrib import quantized_flatten as _contrib_quantized_flatten
from .contrib import quantized_fully_connected as _contrib_quantized_fully_connected
from .contrib import quantized_pooling as _contrib_quantized_pooling
from .contrib import requantize as _contrib_requantize
from .contrib import round_ste as _contrib_round_ste
from .contrib import round_ste as _sparse__contrib_round_ste
from .contrib import sign_ste as _contrib_sign_ste
from .contrib import sign_ste as _sparse__contrib_sign_ste
from .image import adjust_lighting as _image_adjust_lighting
from .image import crop as _image_crop
from .image import flip_left_right as _image_flip_left_right
from .image import flip_top_bottom as _image_flip_top_bottom
from .image import normalize as _image_normalize
from .image import random_brightness as _image_random_brightness
from .image import random_color_jitter as _image_random_color_jitter
from .image import random_contrast as _image_random_contrast
from .image import random_flip_left_right as _image_random_flip_left_right
from .image import random_flip_top_bottom as _image_random_flip_top_bottom
from .image import random_hue as _image_random_hue
from .image import random_lighting as _image_random_lighting
from .image import random_saturation as _image_random_saturation
from .image import resize as _image_resize
from .image import to_tensor as _image_to_tensor
from .op import BBoxNorm as _contrib_BBoxNorm
from .op import BlockGrad as _sparse_stop_gradient
from .op import BroadcastScale as _contrib_BroadcastScale
from .op import CTCLoss as _contrib_CTCLoss
from .op import CTCLoss as _contrib_ctc_loss
from .op import Concat as _sparse_concat
from .op import DecodeBBox as _contrib_DecodeBBox
from .op import Embedding as _sparse_Embedding
from .op import FocalLoss as _contrib_FocalLoss
from .op import FullyConnected as _sparse_FullyConnected
from .op import GenAnchor as _contrib_GenAnchor
from .op import GenProposalRetina as _contrib_GenProposalRetina
from .op import LinearRegressionOutput as _sparse_LinearRegressionOutput
from .op import LogisticRegressionOutput as _sparse_LogisticRegressionOutput
from .op import MAERegressionOutput as _sparse_MAERegressionOutput
from .op import ProposalMaskTarget as _contrib_ProposalMaskTarget
from .op import ProposalTarget as _contrib_ProposalTarget
from .op import ProposalTarget_v2 as _contrib_ProposalTarget_v2
from .op import Proposal_v2 as _contrib_Proposal_v2
from .op import Proposal_v3 as _contrib_Proposal_v3
from .op import Quantization_int8 as _contrib_Quantization_int8
from .op import ROIAlign_v2 as _contrib_ROIAlign_v2
from .op import SigmoidCrossEntropy as _contrib_SigmoidCrossEntropy
from .op import abs as _sparse_abs
from .op import adam_update as _sparse_adam_update
from .op import add_n as _sparse_ElementWiseSum
from .op import add_n as _sparse_add_n
from .op import arccos as _sparse_arccos
from .op import arccosh as _sparse_arccosh
from .op import arcsin as _sparse_arcsin
from .op import arcsinh as _sparse_arcsinh
from .op import arctan as _sparse_arctan
from .op import arctanh as _sparse_arctanh
from .op import broadcast_add as _sparse_broadcast_add
from .op import broadcast_add as _sparse_broadcast_plus
from .op import broadcast_div as _sparse_broadcast_div
from .op import broadcast_mul as _sparse_broadcast_mul
from .op import broadcast_sub as _sparse_broadcast_minus
from .op import broadcast_sub as _sparse_broadcast_sub
from .op import cast_storage as _sparse_cast_storage
from .op import cbrt as _sparse_cbrt
from .op import ceil as _sparse_ceil
from .op import clip as _sparse_clip
from .op import cos as _sparse_cos
from .op import cosh as _sparse_cosh
from .op import cumsum as _np_cumsum
from .op import degrees as _sparse_degrees
from .op import dot as _sparse_dot
from .op import elemwise_add as _Plus
from .op import elemwise_add as _add
from .op import elemwise_add as _plus
from .op import elemwise_add as _sparse_elemwise_add
from .op import elemwise_div as _Div
from .op import elemwise_div as _div
from .op import elemwise_div as _sparse_elemwise_div
from .op import elemwise_mul as _Mul
from .op import elemwise_mul as _mul
from .op import elemwise_mul as _sparse_elemwise_mul
from .op import elemwise_sub as _Minus
from .op import elemwise_sub as _minus
from .op import elemwise_sub as _sparse_elemwise_sub
from .op import elemwise_sub as _sub
from .op import exp as _sparse_exp
from .op import expm1 as _sparse_expm1
from .op import fix as _sparse_fix
from .op import floor as _sparse_floor
from .op import ftrl_update as _sparse_ftrl_update
from .op import gamma as _sparse_gamma
from .op import gammaln as _sparse_gammaln
from .op import identity as _copy
from .op import linalg_det as _linalg_det
from .op import linalg_extractdiag as _linalg_extractdiag
from .op import linalg_extracttrian as _linalg_extracttrian
from .op import linalg_gelqf as _linalg_gelqf
from .op import linalg_gemm as _linalg_gemm
from .op import linalg_gemm2 as _linalg_gemm2
from .op import linalg_inverse as _linalg_inverse
from .op import linalg_makediag as _linalg_makediag
from .op import linalg_maketrian as _linalg_maketrian
from .op import linalg_potrf as _linalg_potrf
from .op import linalg_potri as _linalg_potri
from .op import linalg_slogdet as _linalg_slogdet
from .op import linalg_sumlogdiag as _linalg_sumlogdiag
from .op import linalg_syevd as _linalg_syevd
from .op import linalg_syrk as _linalg_syrk
from .op import linalg_trmm as _linalg_trmm
from .op import linalg_trsm as _linalg_trsm
from .op import log as _sparse_log
from .op import log10 as _sparse_log10
from .op import log1p as _sparse_log1p
from .op import log2 as _sparse_log2
from .op import make_loss as _sparse_make_loss
from .op import mean as _sparse_mean
from .op import negative as _sparse_negative
from .op import norm as _sparse_norm
from .op import normal as _random_normal
from .op import radians as _sparse_radians
from .op import random_exponential as _random_exponential
from .op import random_gamma as _random_gamma
from .op import random_generalized_negative_binomial as _random_generalized_negative_binomial
from .op import random_negative_binomial as _random_negative_binomial
from .op import random_pdf_dirichlet as _random_pdf_dirichlet
from .op import random_pdf_exponential as _random_pdf_exponential
from .op import random_pdf_gamma as _random_pdf_gamma
from .op import random_pdf_generalized_negative_binomial as _random_pdf_generalized_negative_binomial
from .op import random_pdf_negative_binomial as _random_pdf_negative_binomial
from .op import random_pdf_normal as _random_pdf_normal
from .op import random_pdf_poisson as _random_pdf_poisson
from .op import random_pdf_uniform as _random_pdf_uniform
from .op import random_poisson as _random_poisson
from .op import random_randint as _random_randint
from .op import random_uniform as _random_uniform
from .op import ravel_multi_index as _ravel_multi_index
from .op import relu as _sparse_relu
from .op import rint as _sparse_rint
from .op import round as _sparse_round
from .op import rsqrt as _sparse_rsqrt
from .op import sample_exponential as _sample_exponential
from .op import sample_gamma as _sample_gamma
from .op import sample_generalized_negative_binomial as _sample_generalized_negative_binomial
from .op import sample_multinomial as _sample_multinomial
from .op import sample_negative_binomial as _sample_negative_binomial
from .op import sample_normal as _sample_normal
from .op import sample_poisson as _sample_poisson
from .op import sample_uniform as _sample_uniform
from .op import sgd_mom_update as _sparse_sgd_mom_update
from .op import sgd_update as _sparse_sgd_update
from .op import shuffle as _shuffle
from .op import sigmoid as _sparse_sigmoid
from .op import sign as _sparse_sign
from .op import sin as _sparse_sin
from .op import sinh as _sparse_sinh
from .op import slice as _sparse_slice
from .op import sqrt as _sparse_sqrt
from .op import square as _sparse_square
from .op import sum as _sparse_sum
from .op import tan as _sparse_tan
from .op import tanh as _sparse_tanh
from .op import trunc as _sparse_trunc
from .op import unravel_index as _unravel_index
from .op import where as _sparse_where
from .op import zeros_like as _sparse_zeros_like
from .random import exponential_like as _random_exponential_like
from .random import gamma_like as _random_gamma_like
from .random import generalized_negative_binomial_like as _random_generalized_negative_binomial_like
from .random import negative_binomial_like as _random_negative_binomial_like
from .random import normal_like as _random_normal_like
from .random import poisson_like as _random_poisson_like
from .random import uniform_like as _random_uniform_like
from .sparse import adagrad_update as _sparse_adagrad_update
from .sparse import retain as _sparse_retain

__all__: list[str] = ["_Div", "_DivScalar", "_Equal", "_EqualScalar", "_Greater",
                      "_GreaterEqualScalar", "_GreaterScalar", "_Greater_Equal", "_Hypot",
                      "_HypotScalar", "_Lesser", "_LesserEqualScalar", "_LesserScalar",
                      "_Lesser_Equal", "_LogicalAndScalar", "_LogicalOrScalar",
                      "_LogicalXorScalar", "_Logical_And", "_Logical_Or", "_Logical_Xor",
                      "_Maximum", "_MaximumScalar", "_Minimum", "_MinimumScalar", "_Minus",
                      "_MinusScalar", "_Mod", "_ModScalar", "_Mul", "_MulScalar",
                      "_NotEqualScalar", "_Not_Equal", "_Plus", "_PlusScalar", "_Power",
                      "_PowerScalar", "_RDivScalar", "_RMinusScalar", "_RModScalar",
                      "_RPowerScalar", "_adamw_update", "_add", "_arange", "_cond",
                      "_contrib_AdaptiveAvgPooling2D", "_contrib_BBoxNorm",
                      "_contrib_BatchNormWithReLU", "_contrib_BilinearResize2D",
                      "_contrib_BroadcastScale", "_contrib_CTCLoss", "_contrib_DecodeBBox",
                      "_contrib_DeformableConvolution", "_contrib_DeformablePSROIPooling",
                      "_contrib_FocalLoss", "_contrib_GenAnchor", "_contrib_GenProposalRetina",
                      "_contrib_GroupNorm", "_contrib_ModulatedDeformableConvolution",
                      "_contrib_MultiBoxDetection", "_contrib_MultiBoxPrior",
                      "_contrib_MultiBoxTarget", "_contrib_MultiProposal", "_contrib_PSROIPooling",
                      "_contrib_Proposal", "_contrib_ProposalMaskTarget",
                      "_contrib_ProposalTarget", "_contrib_ProposalTarget_v2",
                      "_contrib_Proposal_v2", "_contrib_Proposal_v3", "_contrib_Quantization_int8",
                      "_contrib_ROIAlign", "_contrib_ROIAlign_v2", "_contrib_RROIAlign",
                      "_contrib_SigmoidCrossEntropy", "_contrib_SparseEmbedding",
                      "_contrib_SyncBatchNorm", "_contrib_allclose", "_contrib_arange_like",
                      "_contrib_bipartite_matching", "_contrib_boolean_mask",
                      "_contrib_box_decode", "_contrib_box_encode", "_contrib_box_iou",
                      "_contrib_box_nms", "_contrib_box_non_maximum_suppression",
                      "_contrib_calibrate_entropy", "_contrib_count_sketch", "_contrib_ctc_loss",
                      "_contrib_dequantize", "_contrib_div_sqrt_dim", "_contrib_fft",
                      "_contrib_getnnz", "_contrib_gradientmultiplier",
                      "_contrib_group_adagrad_update", "_contrib_hawkesll", "_contrib_ifft",
                      "_contrib_index_array", "_contrib_index_copy",
                      "_contrib_interleaved_matmul_encdec_qk",
                      "_contrib_interleaved_matmul_encdec_valatt",
                      "_contrib_interleaved_matmul_selfatt_qk",
                      "_contrib_interleaved_matmul_selfatt_valatt",
                      "_contrib_intgemm_fully_connected", "_contrib_intgemm_maxabsolute",
                      "_contrib_intgemm_prepare_data", "_contrib_intgemm_prepare_weight",
                      "_contrib_intgemm_take_weight", "_contrib_quadratic", "_contrib_quantize",
                      "_contrib_quantize_asym", "_contrib_quantize_v2", "_contrib_quantized_act",
                      "_contrib_quantized_batch_norm", "_contrib_quantized_concat",
                      "_contrib_quantized_conv", "_contrib_quantized_elemwise_add",
                      "_contrib_quantized_elemwise_mul", "_contrib_quantized_embedding",
                      "_contrib_quantized_flatten", "_contrib_quantized_fully_connected",
                      "_contrib_quantized_pooling", "_contrib_requantize", "_contrib_round_ste",
                      "_contrib_sign_ste", "_copy", "_crop_assign", "_crop_assign_scalar",
                      "_cvcopyMakeBorder", "_cvimresize", "_div", "_div_scalar", "_equal",
                      "_equal_scalar", "_eye", "_foreach", "_full", "_grad_add", "_greater",
                      "_greater_equal", "_greater_equal_scalar", "_greater_scalar", "_histogram",
                      "_hypot", "_hypot_scalar", "_identity_with_attr_like_rhs",
                      "_image_adjust_lighting", "_image_crop", "_image_flip_left_right",
                      "_image_flip_top_bottom", "_image_normalize", "_image_random_brightness",
                      "_image_random_color_jitter", "_image_random_contrast",
                      "_image_random_flip_left_right", "_image_random_flip_top_bottom",
                      "_image_random_hue", "_image_random_lighting", "_image_random_saturation",
                      "_image_resize", "_image_to_tensor", "_lesser", "_lesser_equal",
                      "_lesser_equal_scalar", "_lesser_scalar", "_linalg_det",
                      "_linalg_extractdiag", "_linalg_extracttrian", "_linalg_gelqf",
                      "_linalg_gemm", "_linalg_gemm2", "_linalg_inverse", "_linalg_makediag",
                      "_linalg_maketrian", "_linalg_potrf", "_linalg_potri", "_linalg_slogdet",
                      "_linalg_sumlogdiag", "_linalg_syevd", "_linalg_syrk", "_linalg_trmm",
                      "_linalg_trsm", "_linspace", "_logical_and", "_logical_and_scalar",
                      "_logical_or", "_logical_or_scalar", "_logical_xor", "_logical_xor_scalar",
                      "_maximum", "_maximum_scalar", "_minimum", "_minimum_scalar", "_minus",
                      "_minus_scalar", "_mod", "_mod_scalar", "_mp_adamw_update", "_mul",
                      "_mul_scalar", "_multi_adamw_update", "_multi_lamb_update",
                      "_multi_mp_adamw_update", "_multi_mp_lamb_update", "_not_equal",
                      "_not_equal_scalar", "_np_cumsum", "_onehot_encode", "_ones", "_plus",
                      "_plus_scalar", "_power", "_power_scalar", "_random_exponential",
                      "_random_exponential_like", "_random_gamma", "_random_gamma_like",
                      "_random_generalized_negative_binomial",
                      "_random_generalized_negative_binomial_like", "_random_negative_binomial",
                      "_random_negative_binomial_like", "_random_normal", "_random_normal_like",
                      "_random_pdf_dirichlet", "_random_pdf_exponential", "_random_pdf_gamma",
                      "_random_pdf_generalized_negative_binomial", "_random_pdf_negative_binomial",
                      "_random_pdf_normal", "_random_pdf_poisson", "_random_pdf_uniform",
                      "_random_poisson", "_random_poisson_like", "_random_randint",
                      "_random_uniform", "_random_uniform_like", "_ravel_multi_index",
                      "_rdiv_scalar", "_rminus_scalar", "_rmod_scalar", "_rnn_param_concat",
                      "_rpower_scalar", "_sample_exponential", "_sample_gamma",
                      "_sample_generalized_negative_binomial", "_sample_multinomial",
                      "_sample_negative_binomial", "_sample_normal", "_sample_poisson",
                      "_sample_uniform", "_sample_unique_zipfian", "_scatter_elemwise_div",
                      "_scatter_minus_scalar", "_scatter_plus_scalar", "_scatter_set_nd",
                      "_sg_mkldnn_conv", "_sg_mkldnn_fully_connected", "_shuffle", "_slice_assign",
                      "_slice_assign_scalar", "_sparse_ElementWiseSum", "_sparse_Embedding",
                      "_sparse_FullyConnected", "_sparse_LinearRegressionOutput",
                      "_sparse_LogisticRegressionOutput", "_sparse_MAERegressionOutput",
                      "_sparse__contrib_round_ste", "_sparse__contrib_sign_ste", "_sparse_abs",
                      "_sparse_adagrad_update", "_sparse_adam_update", "_sparse_add_n",
                      "_sparse_arccos", "_sparse_arccosh", "_sparse_arcsin", "_sparse_arcsinh",
                      "_sparse_arctan", "_sparse_arctanh", "_sparse_broadcast_add",
                      "_sparse_broadcast_div", "_sparse_broadcast_minus", "_sparse_broadcast_mul",
                      "_sparse_broadcast_plus", "_sparse_broadcast_sub", "_sparse_cast_storage",
                      "_sparse_cbrt", "_sparse_ceil", "_sparse_clip", "_sparse_concat",
                      "_sparse_cos", "_sparse_cosh", "_sparse_degrees", "_sparse_dot",
                      "_sparse_elemwise_add", "_sparse_elemwise_div", "_sparse_elemwise_mul",
                      "_sparse_elemwise_sub", "_sparse_exp", "_sparse_expm1", "_sparse_fix",
                      "_sparse_floor", "_sparse_ftrl_update", "_sparse_gamma", "_sparse_gammaln",
                      "_sparse_log", "_sparse_log10", "_sparse_log1p", "_sparse_log2",
                      "_sparse_make_loss", "_sparse_mean", "_sparse_negative", "_sparse_norm",
                      "_sparse_radians", "_sparse_relu", "_sparse_retain", "_sparse_rint",
                      "_sparse_round", "_sparse_rsqrt", "_sparse_sgd_mom_update",
                      "_sparse_sgd_update", "_sparse_sigmoid", "_sparse_sign", "_sparse_sin",
                      "_sparse_sinh", "_sparse_slice", "_sparse_sqrt", "_sparse_square",
                      "_sparse_stop_gradient", "_sparse_sum", "_sparse_tan", "_sparse_tanh",
                      "_sparse_trunc", "_sparse_where", "_sparse_zeros_like", "_split_v2",
                      "_square_sum", "_sub", "_unravel_index", "_while_loop", "_zeros",
                      "_zeros_without_dtype"]
def _adamw_update(weight: Symbol | None = None, grad: Symbol | None = None,
                  mean: Symbol | None = None, var: Symbol | None = None,
                  rescale_grad: Symbol | None = None, lr: float = ..., beta1: float = 0.9,
                  beta2: float = 0.999, epsilon: float = 1e-08, wd: float = 0.0, eta: float = ...,
                  clip_gradient: float = -1.0, name: str | None = None,
                  attr: dict[str, str] | None = None, out: None = None,
                  **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """x = clipped(rescale_grad g);  mean = beta1 mean + (1 - beta1) x;
    var = beta2 var + (1 - beta2) x^2;  w = w - eta (lr mean / (sqrt(var) + epsilon) + wd w).
    """

def _arange(start: float = ..., stop: float | None = None, step: float = 1.0, repeat: int = 1,
            infer_range: bool | int = False, ctx: Context | str | None = '',
            dtype: DTypeLike = 'float32', name: str | None = None,
            attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
           ) -> Symbol:
    """start, start + step, ... below `stop`, each `repeat` times, as (n,)."""

def _cond(data: Symbol | None = None, num_args: int = ..., num_outputs: int = ...,
          cond_input_locs: Sequence[int] | int = ..., then_input_locs: Sequence[int] | int = ...,
          else_input_locs: Sequence[int] | int = ..., name: str | None = None,
          attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
         ) -> Symbol:
    """then(free) if pred(free) is not 0, else else(free)."""

def _cvcopyMakeBorder(src: Symbol | None = None, top: int = ..., bot: int = ..., left: int = ...,
                      right: int = ..., type: int = 0, value: float = 0.0,
                      values: Sequence[float] | float = (), name: str | None = None,
                      attr: dict[str, str] | None = None, out: None = None,
                      **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """src (H, W, C) -> (top + H + bot, left + W + right, C): an image with pixels around it."""

def _cvimresize(src: Symbol | None = None, w: int = ..., h: int = ..., interp: int = 1,
                name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """src (H, W, C) -> (h, w, C); `interp` as for `_image_resize`.  No gradient."""

def _div_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Quotient; that of integers is truncated.  a is x, b is the scalar."""

def _equal(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
           attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
          ) -> Symbol:
    """1 where a is b, else 0."""

def _equal_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                  name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                  **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where a is b, else 0.  a is x, b is the scalar."""

def _eye(N: int = ..., M: int = 0, k: int = 0, ctx: Context | str | None = '',
         dtype: DTypeLike = 'float32', name: str | None = None, attr: dict[str, str] | None = None,
         out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """(N, M) with ones on diagonal `k`; M 0 is N."""

def _foreach(data: Symbol | None = None, num_args: int = ..., num_outputs: int = ...,
             num_out_data: int = ..., in_state_locs: Sequence[int] | int = ...,
             in_data_locs: Sequence[int] | int = ..., remain_locs: Sequence[int] | int = ...,
             name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
             **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """out_t, state_{t+1} = body(data_t, state_t, free) for every row t of `data`; outputs are the
    out_t, stacked along a new first axis, and the last states.
    """

def _full(shape: Sequence[int] | int | None = (), ctx: Context | str | None = '',
          dtype: DTypeLike = 'float32', value: float = ..., name: str | None = None,
          attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
         ) -> Symbol:
    """`shape` filled with `value`."""

def _grad_add(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
              attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Sum."""

def _greater(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
             attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
            ) -> Symbol:
    """1 where a is above b, else 0."""

def _greater_equal(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
                   attr: dict[str, str] | None = None, out: None = None,
                   **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where a is not below b, else 0."""

def _greater_equal_scalar(data: Symbol | None = None, scalar: float = 1.0,
                          is_int: bool | int = True, name: str | None = None,
                          attr: dict[str, str] | None = None, out: None = None,
                          **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where a is not below b, else 0.  a is x, b is the scalar."""

def _greater_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                    name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                    **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where a is above b, else 0.  a is x, b is the scalar."""

def _histogram(data: Symbol | None = None, bins: Symbol | None = None, bin_cnt: int | None = None,
               range: Sequence[float] | float | None = None, name: str | None = None,
               attr: dict[str, str] | None = None, out: None = None,
               **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """How many elements of data fall into each bin, (B,) int64, and the edges of the bins (B + 1,)."""

def _hypot(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
           attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
          ) -> Symbol:
    """sqrt(a^2 + b^2)."""

def _hypot_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                  name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                  **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """sqrt(a^2 + b^2).  a is x, b is the scalar."""

def _identity_with_attr_like_rhs(lhs: Symbol | None = None, rhs: Symbol | None = None,
                                 name: str | None = None, attr: dict[str, str] | None = None,
                                 out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y = lhs, which has the shape and type of rhs;  glhs = gy."""

def _lesser(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
            attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
           ) -> Symbol:
    """1 where a is below b, else 0."""

def _lesser_equal(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
                  attr: dict[str, str] | None = None, out: None = None,
                  **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where a is not above b, else 0."""

def _lesser_equal_scalar(data: Symbol | None = None, scalar: float = 1.0,
                         is_int: bool | int = True, name: str | None = None,
                         attr: dict[str, str] | None = None, out: None = None,
                         **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where a is not above b, else 0.  a is x, b is the scalar."""

def _lesser_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                   name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                   **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where a is below b, else 0.  a is x, b is the scalar."""

def _linspace(start: float = ..., stop: float = ..., num: int = ..., endpoint: bool | int = True,
              ctx: Context | str | None = '', dtype: DTypeLike = 'float32',
              name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`num` values evenly spaced from `start` to `stop`, with or without the latter, as (num,)."""

def _logical_and(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
                 attr: dict[str, str] | None = None, out: None = None,
                 **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where neither is 0, else 0."""

def _logical_and_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                        name: str | None = None, attr: dict[str, str] | None = None,
                        out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where neither is 0, else 0.  a is x, b is the scalar."""

def _logical_or(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
                attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where a or b is not 0, else 0."""

def _logical_or_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                       name: str | None = None, attr: dict[str, str] | None = None,
                       out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where a or b is not 0, else 0.  a is x, b is the scalar."""

def _logical_xor(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
                 attr: dict[str, str] | None = None, out: None = None,
                 **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where exactly one of a and b is not 0, else 0."""

def _logical_xor_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                        name: str | None = None, attr: dict[str, str] | None = None,
                        out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where exactly one of a and b is not 0, else 0.  a is x, b is the scalar."""

def _maximum(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
             attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
            ) -> Symbol:
    """The larger; the gradient of a tie is a's."""

def _maximum_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                    name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                    **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """The larger; the gradient of a tie is a's.  a is x, b is the scalar."""

def _minimum(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
             attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
            ) -> Symbol:
    """The smaller; the gradient of a tie is a's."""

def _minimum_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                    name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                    **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """The smaller; the gradient of a tie is a's.  a is x, b is the scalar."""

def _minus_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                  name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                  **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Difference.  a is x, b is the scalar."""

def _mod(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
         attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
        ) -> Symbol:
    """Remainder with the sign of the divisor; 0 where that is 0.  Over integers its gradient is 0."""

def _mod_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Remainder with the sign of the divisor; 0 where that is 0.  Over integers its gradient is 0.  a is x, b is the scalar."""

def _mp_adamw_update(weight: Symbol | None = None, grad: Symbol | None = None,
                     mean: Symbol | None = None, var: Symbol | None = None,
                     weight32: Symbol | None = None, rescale_grad: Symbol | None = None,
                     lr: float = ..., beta1: float = 0.9, beta2: float = 0.999,
                     epsilon: float = 1e-08, wd: float = 0.0, eta: float = ...,
                     clip_gradient: float = -1.0, name: str | None = None,
                     attr: dict[str, str] | None = None, out: None = None,
                     **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`_adamw_update` of the master weight32; the new weight is its rounded copy."""

def _mul_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Product.  a is x, b is the scalar."""

def _multi_adamw_update(*data: Symbol, lrs: Sequence[float] | float = ..., beta1: float = 0.9,
                        beta2: float = 0.999, epsilon: float = 1e-08,
                        wds: Sequence[float] | float = ..., etas: Sequence[float] | float = ...,
                        clip_gradient: float = -1.0, num_weights: int = 1, name: str | None = None,
                        attr: dict[str, str] | None = None, out: None = None,
                        **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`_adamw_update` of every weight (weight_i, grad_i, mean_i, var_i), with one rescale_grad."""

def _multi_lamb_update(*data: Symbol, learning_rates: Sequence[float] | float = ...,
                       beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-06,
                       wds: Sequence[float] | float = ..., rescale_grad: float = 1.0,
                       lower_bound: float = -1.0, upper_bound: float = -1.0,
                       clip_gradient: float = -1.0, bias_correction: bool | int = True,
                       step_count: Sequence[int] | int = ..., num_tensors: int = 1,
                       name: str | None = None, attr: dict[str, str] | None = None,
                       out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """LAMB, both phases of it, for every weight (weight_i, grad_i, mean_i, var_i); `step_count` are
    the steps t, counted from 1.
    """

def _multi_mp_adamw_update(*data: Symbol, lrs: Sequence[float] | float = ..., beta1: float = 0.9,
                           beta2: float = 0.999, epsilon: float = 1e-08,
                           wds: Sequence[float] | float = ..., etas: Sequence[float] | float = ...,
                           clip_gradient: float = -1.0, num_weights: int = 1,
                           name: str | None = None, attr: dict[str, str] | None = None,
                           out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`_mp_adamw_update` of every weight (weight_i, grad_i, mean_i, var_i, weight32_i)."""

def _multi_mp_lamb_update(*data: Symbol, learning_rates: Sequence[float] | float = ...,
                          beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-06,
                          wds: Sequence[float] | float = ..., rescale_grad: float = 1.0,
                          lower_bound: float = -1.0, upper_bound: float = -1.0,
                          clip_gradient: float = -1.0, bias_correction: bool | int = True,
                          step_count: Sequence[int] | int = ..., num_tensors: int = 1,
                          name: str | None = None, attr: dict[str, str] | None = None,
                          out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """LAMB with a master for every weight (weight_i, grad_i, mean_i, var_i, weight32_i)."""

def _not_equal(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
               attr: dict[str, str] | None = None, out: None = None,
               **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where a is not b, else 0."""

def _not_equal_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                      name: str | None = None, attr: dict[str, str] | None = None,
                      out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """1 where a is not b, else 0.  a is x, b is the scalar."""

def _onehot_encode(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
                   attr: dict[str, str] | None = None, out: None = None,
                   **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """One-hot rows of the indices `lhs` (N,), shaped and typed as `rhs` (N, K).  No gradient."""

def _ones(shape: Sequence[int] | int | None = (), ctx: Context | str | None = '',
          dtype: DTypeLike = 'float32', name: str | None = None,
          attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
         ) -> Symbol:
    """Ones of `shape`."""

def _plus_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                 name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                 **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Sum.  a is x, b is the scalar."""

def _power(lhs: Symbol | None = None, rhs: Symbol | None = None, name: str | None = None,
           attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
          ) -> Symbol:
    """a to the power of b."""

def _power_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                  name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                  **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """x to the power of the scalar.  Squares, cubes and roots are spelled out: they are fast."""

def _rdiv_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                 name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                 **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Quotient; that of integers is truncated.  a is the scalar, b is x."""

def _rminus_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                   name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                   **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Difference.  a is the scalar, b is x."""

def _rmod_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                 name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                 **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Remainder with the sign of the divisor; 0 where that is 0.  Over integers its gradient is 0.  a is the scalar, b is x."""

def _rnn_param_concat(*data: Symbol, num_args: int = ..., dim: int = 1, name: str | None = None,
                      attr: dict[str, str] | None = None, out: None = None,
                      **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Concat under the name that Gluon gives to the packing of RNN parameters."""

def _rpower_scalar(data: Symbol | None = None, scalar: float = 1.0, is_int: bool | int = True,
                   name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                   **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """a to the power of b.  a is the scalar, b is x."""

def _sample_unique_zipfian(range_max: int = ..., shape: Sequence[int] | int | None = None,
                           name: str | None = None, attr: dict[str, str] | None = None,
                           out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Distinct ids below `range_max` per row of `shape` = (rows, ids), small ones more likely."""

def _scatter_elemwise_div(lhs: Symbol | None = None, rhs: Symbol | None = None,
                          name: str | None = None, attr: dict[str, str] | None = None,
                          out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Quotient; that of integers is truncated."""

def _scatter_minus_scalar(data: Symbol | None = None, scalar: float = 1.0,
                          is_int: bool | int = True, name: str | None = None,
                          attr: dict[str, str] | None = None, out: None = None,
                          **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Difference.  a is x, b is the scalar."""

def _scatter_plus_scalar(data: Symbol | None = None, scalar: float = 1.0,
                         is_int: bool | int = True, name: str | None = None,
                         attr: dict[str, str] | None = None, out: None = None,
                         **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Sum.  a is x, b is the scalar."""

def _scatter_set_nd(lhs: Symbol | None = None, rhs: Symbol | None = None,
                    indices: Symbol | None = None, shape: Sequence[int] | int = ...,
                    name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                    **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`lhs` with rhs[k] put at indices[:, k].  No gradient."""

def _sg_mkldnn_conv(data: Symbol | None = None, with_bn: bool | int = False,
                    with_act: bool | int = False, with_sum: bool | int = False,
                    with_postsum_act: bool | int = False, quantized: bool | int = False,
                    min_calib_range: float | None = None, max_calib_range: float | None = None,
                    name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                    **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Convolution, then as the node's graph has them BatchNorm by its moving statistics, an
    activation, the sum with another tensor and another activation.
    """

def _sg_mkldnn_fully_connected(data: Symbol | None = None, quantized: bool | int = False,
                               enable_float_output: bool | int = False,
                               with_eltwise: bool | int = False,
                               min_calib_range: float | None = None,
                               max_calib_range: float | None = None,
                               channel_wise_quantize: bool | int | None = None,
                               name: str | None = None, attr: dict[str, str] | None = None,
                               out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """FullyConnected, and the activation that follows it in the node's graph."""

def _slice_assign(lhs: Symbol | None = None, rhs: Symbol | None = None,
                  begin: Sequence[int | None] | int = ..., end: Sequence[int | None] | int = ...,
                  step: Sequence[int | None] | int = (), name: str | None = None,
                  attr: dict[str, str] | None = None, out: None = None,
                  **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`lhs` with the region that `slice` selects replaced by `rhs`."""

def _slice_assign_scalar(data: Symbol | None = None, scalar: float = 0.0,
                         begin: Sequence[int | None] | int = ...,
                         end: Sequence[int | None] | int = ...,
                         step: Sequence[int | None] | int = (), name: str | None = None,
                         attr: dict[str, str] | None = None, out: None = None,
                         **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`data` with the region that `slice` selects set to `scalar`."""

def _split_v2(data: Symbol | None = None, indices: Sequence[int] | int = ..., axis: int = 1,
              squeeze_axis: bool | int = False, sections: int = 0, name: str | None = None,
              attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Pieces along `axis` that start at `indices`, or `sections` pieces as equal as can be."""

def _square_sum(data: Symbol | None = None, axis: Sequence[int] | int | None = None,
                keepdims: bool | int = False, exclude: bool | int = False, name: str | None = None,
                attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Sum of squares over axes; MXNet has it for row_sparse matrices only."""

def _while_loop(data: Symbol | None = None, num_args: int = ..., num_outputs: int = ...,
                num_out_data: int = ..., max_iterations: int = ...,
                cond_input_locs: Sequence[int] | int = ...,
                func_input_locs: Sequence[int] | int = ...,
                func_var_locs: Sequence[int] | int = ..., name: str | None = None,
                attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """while cond(state, free): out_t, state = func(state, free), at most `max_iterations` times."""

def _zeros(shape: Sequence[int] | int | None = (), ctx: Context | str | None = '',
           dtype: DTypeLike = 'float32', name: str | None = None,
           attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
          ) -> Symbol:
    """Zeros of `shape`."""

def _zeros_without_dtype(shape: Sequence[int] | int | None = None, ctx: Context | str | None = '',
                         dtype: DTypeLike | int = -1, name: str | None = None,
                         attr: dict[str, str] | None = None, out: None = None,
                         **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """Zeros whose type follows from use where `dtype`, a type's number, is -1."""

_DivScalar = _div_scalar

_Equal = _equal

_EqualScalar = _equal_scalar

_Greater = _greater

_GreaterEqualScalar = _greater_equal_scalar

_GreaterScalar = _greater_scalar

_Greater_Equal = _greater_equal

_Hypot = _hypot

_HypotScalar = _hypot_scalar

_Lesser = _lesser

_LesserEqualScalar = _lesser_equal_scalar

_LesserScalar = _lesser_scalar

_Lesser_Equal = _lesser_equal

_LogicalAndScalar = _logical_and_scalar

_LogicalOrScalar = _logical_or_scalar

_LogicalXorScalar = _logical_xor_scalar

_Logical_And = _logical_and

_Logical_Or = _logical_or

_Logical_Xor = _logical_xor

_Maximum = _maximum

_MaximumScalar = _maximum_scalar

_Minimum = _minimum

_MinimumScalar = _minimum_scalar

_MinusScalar = _minus_scalar

_Mod = _mod

_ModScalar = _mod_scalar

_MulScalar = _mul_scalar

_NotEqualScalar = _not_equal_scalar

_Not_Equal = _not_equal

_PlusScalar = _plus_scalar

_Power = _power

_PowerScalar = _power_scalar

_RDivScalar = _rdiv_scalar

_RMinusScalar = _rminus_scalar

_RModScalar = _rmod_scalar

_RPowerScalar = _rpower_scalar

_crop_assign = _slice_assign

_crop_assign_scalar = _slice_assign_scalar

"""The ops that must have a full row in the coverage table, by how often public code uses them."""

from __future__ import annotations

# Needed by most symbols and training scripts.
TIER_1 = """
Activation BatchNorm BatchNorm_v1 BlockGrad Cast Concat Convolution Convolution_v1 Crop Custom
Deconvolution Dropout Embedding Flatten FullyConnected L2Normalization LRN LeakyReLU
LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput MakeLoss Pooling Pooling_v1
RNN Reshape SliceChannel SoftmaxActivation SoftmaxOutput SwapAxis UpSampling _arange _copy
_div_scalar _full _maximum _maximum_scalar _minimum _minimum_scalar _minus_scalar _mul_scalar
_ones _plus_scalar _power _power_scalar _rdiv_scalar _rminus_scalar _rnn_param_concat
_rpower_scalar _zeros abs add_n argmax batch_dot broadcast_add broadcast_div broadcast_mul
broadcast_sub broadcast_to clip dot elemwise_add elemwise_div elemwise_mul elemwise_sub exp
expand_dims log log_softmax make_loss max mean min negative one_hot ones_like pick relu repeat
sigmoid slice slice_axis smooth_l1 softmax sqrt square squeeze stack sum take tanh tile
transpose where zeros_like
""".split()

# Needed by detection, segmentation, sequence models, pose.
TIER_2 = """
BilinearSampler CTCLoss GridGenerator GroupNorm IdentityAttachKLSparseReg InstanceNorm LayerNorm
Pad ROIPooling SVMOutput SequenceLast SequenceMask SequenceReverse SpatialTransformer
_contrib_AdaptiveAvgPooling2D _contrib_BilinearResize2D _contrib_DeformableConvolution
_contrib_DeformablePSROIPooling _contrib_ModulatedDeformableConvolution
_contrib_MultiBoxDetection _contrib_MultiBoxPrior _contrib_MultiBoxTarget _contrib_MultiProposal
_contrib_PSROIPooling _contrib_Proposal _contrib_ROIAlign _contrib_SyncBatchNorm
_contrib_box_decode _contrib_box_nms _equal_scalar _greater_scalar _lesser_scalar _linalg_gemm2
_random_normal _random_uniform _unravel_index arccos argmin argsort broadcast_axis
broadcast_equal broadcast_greater broadcast_greater_equal broadcast_lesser
broadcast_lesser_equal broadcast_like broadcast_logical_and broadcast_maximum broadcast_minimum
broadcast_mod broadcast_not_equal broadcast_power ceil cos floor gather_nd hard_sigmoid log2
norm prod reshape_like reverse round rsqrt shape_array sign sin slice_like softmax_cross_entropy
sort topk
""".split()

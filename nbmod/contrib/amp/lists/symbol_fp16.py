"""Which operators compute in float16 and which in float32, by MXNet's names and aliases."""

__all__ = ["CONDITIONAL_FP32_FUNCS", "FP16_FP32_FUNCS", "FP16_FUNCS", "FP32_FUNCS",
           "LOSS_OUTPUT_FUNCTIONS", "WIDEST_TYPE_CASTS"]

# Products, which gain most, and whose sums are accumulated in float32.
FP16_FUNCS = ["Convolution", "Deconvolution", "FullyConnected", "RNN"]

# (operator, parameter, values): float32 for these values.
CONDITIONAL_FP32_FUNCS = [("Activation", "act_type", ["softrelu"]),
                          ("LeakyReLU", "act_type", ["elu", "selu"])]

LOSS_OUTPUT_FUNCTIONS = ["SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput",
                         "MAERegressionOutput"]

# Exponentials, sums of many elements, losses, distributions and optimizers.
FP32_FUNCS = """
    _contrib_count_sketch _contrib_ctc_loss _contrib_CTCLoss _contrib_DeformableConvolution
    _contrib_DeformablePSROIPooling _contrib_fft _contrib_hawkesll _contrib_MultiBoxDetection
    _contrib_MultiBoxPrior _contrib_MultiBoxTarget _contrib_SyncBatchNorm _Hypot _hypot
    _hypot_scalar _HypotScalar _linalg_det _linalg_extractdiag _linalg_extracttrian
    _linalg_gelqf _linalg_gemm _linalg_gemm2 _linalg_inverse _linalg_makediag _linalg_maketrian
    _linalg_potrf _linalg_potri _linalg_slogdet _linalg_sumlogdiag _linalg_syevd _linalg_syrk
    _linalg_trmm _linalg_trsm _Native _NDArray _power _Power _power_scalar _PowerScalar
    _rdiv_scalar _RDivScalar _rpower_scalar _RPowerScalar _sparse_arccos _sparse_arcsin
    _sparse_arctanh _sparse_cosh _sparse_exp _sparse_expm1 _sparse_gamma _sparse_gammaln
    _sparse_LinearRegressionOutput _sparse_log _sparse_log10 _sparse_log1p _sparse_log2
    _sparse_LogisticRegressionOutput _sparse_MAERegressionOutput _sparse_make_loss _sparse_mean
    _sparse_norm _sparse_rsqrt _sparse_square _sparse_tan _square_sum arccos arcsin arctanh
    argsort broadcast_hypot broadcast_power Convolution_v1 cosh ctc_loss CTCLoss Custom erfinv
    exp expm1 gamma gammaln GroupNorm IdentityAttachKLSparseReg InstanceNorm khatri_rao
    L2Normalization LayerNorm linalg_det linalg_extractdiag linalg_extracttrian linalg_gelqf
    linalg_gemm linalg_gemm2 linalg_inverse linalg_makediag linalg_maketrian linalg_potrf
    linalg_potri linalg_slogdet linalg_sumlogdiag linalg_syrk linalg_trmm linalg_trsm
    LinearRegressionOutput log log10 log1p log2 log_softmax LogisticRegressionOutput LRN
    MAERegressionOutput make_loss MakeLoss mean moments nanprod nansum norm prod rcbrt
    reciprocal rsqrt sinh smooth_l1 softmax Softmax softmax_cross_entropy SoftmaxActivation
    SoftmaxOutput softmin square sum sum_axis SVMOutput tan topk
""".split()

# Operators on several tensors of one type.
WIDEST_TYPE_CASTS = """
    _contrib_box_iou _contrib_box_nms _contrib_box_non_maximum_suppression
    _contrib_dgl_adjacency _contrib_dgl_csr_neighbor_non_uniform_sample
    _contrib_dgl_csr_neighbor_uniform_sample _contrib_dgl_graph_compact _contrib_dgl_subgraph
    _contrib_edge_id _contrib_interleaved_matmul_encdec_qk
    _contrib_interleaved_matmul_encdec_valatt _contrib_interleaved_matmul_selfatt_qk
    _contrib_interleaved_matmul_selfatt_valatt _contrib_MultiProposal _contrib_Proposal
    _contrib_PSROIPooling _contrib_ROIAlign _Div _div _equal _Equal _greater _Greater
    _greater_equal _Greater_Equal _Lesser _lesser _Lesser_Equal _lesser_equal _logical_and
    _Logical_And _Logical_Or _logical_or _Logical_Xor _logical_xor _maximum _Maximum _Minimum
    _minimum _minus _Minus _mod _Mod _mul _Mul _Not_Equal _not_equal _Plus _plus
    _random_pdf_dirichlet _random_pdf_exponential _random_pdf_gamma
    _random_pdf_generalized_negative_binomial _random_pdf_negative_binomial _random_pdf_normal
    _random_pdf_poisson _random_pdf_uniform _scatter_elemwise_div _sparse_add_n
    _sparse_broadcast_add _sparse_broadcast_div _sparse_broadcast_minus _sparse_broadcast_mul
    _sparse_broadcast_plus _sparse_broadcast_sub _sparse_dot _sparse_ElementWiseSum
    _sparse_elemwise_add _sparse_elemwise_div _sparse_elemwise_mul _sparse_elemwise_sub
    _sparse_sum _sparse_where _sub add_n batch_dot broadcast_add broadcast_div broadcast_equal
    broadcast_greater broadcast_greater_equal broadcast_lesser broadcast_lesser_equal
    broadcast_logical_and broadcast_logical_or broadcast_logical_xor broadcast_maximum
    broadcast_minimum broadcast_minus broadcast_mod broadcast_mul broadcast_not_equal
    broadcast_plus broadcast_sub Concat concat Correlation dot ElementWiseSum elemwise_add
    elemwise_div elemwise_mul elemwise_sub random_pdf_dirichlet random_pdf_exponential
    random_pdf_gamma random_pdf_generalized_negative_binomial random_pdf_negative_binomial
    random_pdf_normal random_pdf_poisson random_pdf_uniform stack where
""".split()

# Operators that are safe in the type that they are given.
FP16_FP32_FUNCS = """
    _adamw_update _add _arange _broadcast_backward _CachedOp _cond
    _contrib_AdaptiveAvgPooling2D _contrib_BilinearResize2D _contrib_bipartite_matching
    _contrib_boolean_mask _contrib_dequantize _contrib_div_sqrt_dim _contrib_getnnz
    _contrib_gradientmultiplier _contrib_group_adagrad_update _contrib_ifft
    _contrib_index_array _contrib_index_copy _contrib_quadratic _contrib_quantize
    _contrib_quantize_v2 _contrib_quantized_act _contrib_quantized_concat
    _contrib_quantized_conv _contrib_quantized_elemwise_add _contrib_quantized_flatten
    _contrib_quantized_fully_connected _contrib_quantized_pooling _contrib_requantize
    _contrib_SparseEmbedding _copy _copyto _crop_assign _crop_assign_scalar _CrossDeviceCopy
    _CustomFunction _cvcopyMakeBorder _cvimdecode _cvimread _cvimresize _div_scalar _DivScalar
    _equal_scalar _EqualScalar _eye _foreach _full _grad_add _greater_equal_scalar
    _greater_scalar _GreaterEqualScalar _GreaterScalar _histogram _identity_with_attr_like_rhs
    _image_adjust_lighting _image_crop _image_flip_left_right _image_flip_top_bottom
    _image_normalize _image_random_brightness _image_random_color_jitter _image_random_contrast
    _image_random_flip_left_right _image_random_flip_top_bottom _image_random_hue
    _image_random_lighting _image_random_saturation _image_resize _image_to_tensor _imdecode
    _lesser_equal_scalar _lesser_scalar _LesserEqualScalar _LesserScalar _linspace
    _logical_and_scalar _logical_or_scalar _logical_xor_scalar _LogicalAndScalar
    _LogicalOrScalar _LogicalXorScalar _maximum_scalar _MaximumScalar _minimum_scalar
    _MinimumScalar _minus_scalar _MinusScalar _mod_scalar _ModScalar _mp_adamw_update
    _mul_scalar _MulScalar _NoGradient _not_equal_scalar _NotEqualScalar _onehot_encode _ones
    _plus_scalar _PlusScalar _random_exponential _random_exponential_like _random_gamma
    _random_gamma_like _random_generalized_negative_binomial
    _random_generalized_negative_binomial_like _random_negative_binomial
    _random_negative_binomial_like _random_normal _random_normal_like _random_poisson
    _random_poisson_like _random_randint _random_uniform _random_uniform_like
    _ravel_multi_index _rminus_scalar _RMinusScalar _rmod_scalar _RModScalar _rnn_param_concat
    _sample_exponential _sample_gamma _sample_generalized_negative_binomial _sample_multinomial
    _sample_negative_binomial _sample_normal _sample_poisson _sample_uniform
    _sample_unique_zipfian _scatter_minus_scalar _scatter_plus_scalar _scatter_set_nd
    _set_value _sg_mkldnn_conv _sg_mkldnn_fully_connected _shuffle _slice_assign
    _slice_assign_scalar _sparse_abs _sparse_adagrad_update _sparse_adam_update _sparse_arccosh
    _sparse_arcsinh _sparse_arctan _sparse_cast_storage _sparse_cbrt _sparse_ceil _sparse_clip
    _sparse_concat _sparse_cos _sparse_degrees _sparse_Embedding _sparse_fix _sparse_floor
    _sparse_ftrl_update _sparse_FullyConnected _sparse_negative _sparse_radians _sparse_relu
    _sparse_retain _sparse_rint _sparse_round _sparse_sgd_mom_update _sparse_sgd_update
    _sparse_sigmoid _sparse_sign _sparse_sin _sparse_sinh _sparse_slice _sparse_sqrt
    _sparse_stop_gradient _sparse_tanh _sparse_trunc _sparse_zeros_like _split_v2
    _split_v2_backward _TensorRT _unravel_index _while_loop _zeros _zeros_without_dtype abs
    adam_update all_finite amp_cast amp_multicast arccosh arcsinh arctan argmax argmax_channel
    argmin batch_take BatchNorm BatchNorm_v1 BilinearSampler BlockGrad broadcast_axes
    broadcast_axis broadcast_like broadcast_to Cast cast cast_storage cbrt ceil
    choose_element_0index clip cos crop Crop CuDNNBatchNorm degrees depth_to_space diag Dropout
    Embedding erf expand_dims fill_element_0index fix flatten Flatten flip floor ftml_update
    ftrl_update gather_nd GridGenerator hard_sigmoid identity logical_not max max_axis min
    min_axis mp_sgd_mom_update mp_sgd_update multi_all_finite multi_mp_sgd_mom_update
    multi_mp_sgd_update multi_sgd_mom_update multi_sgd_update negative normal one_hot ones_like
    pad Pad pick Pooling Pooling_v1 radians random_exponential random_gamma
    random_generalized_negative_binomial random_negative_binomial random_normal random_poisson
    random_randint random_uniform ravel_multi_index relu repeat Reshape reshape reshape_like
    reverse rint rmsprop_update rmspropalex_update ROIPooling round sample_exponential
    sample_gamma sample_generalized_negative_binomial sample_multinomial
    sample_negative_binomial sample_normal sample_poisson sample_uniform scatter_nd
    SequenceLast SequenceMask SequenceReverse sgd_mom_update sgd_update shape_array shuffle
    sigmoid sign signsgd_update signum_update sin size_array slice slice_axis slice_like
    SliceChannel softsign sort space_to_depth SpatialTransformer split sqrt squeeze
    stop_gradient swapaxes SwapAxis take tanh tile transpose trunc uniform unravel_index
    UpSampling zeros_like
""".split()

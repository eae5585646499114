"""Compatibility with old scripts: import paths, attributes, signatures.

The paths and attributes are those that public code uses, private ones included. Signatures are
compared with MXNet's, for everything its modules define; missing or different ones are listed.
"""

from __future__ import annotations

import fnmatch

import pytest

import nbmod as mx
from tests.execution.test_startup import run
from tests.programs import surface

PATHS = """
    :AttrScope :Context :MXNetError :attribute :base :callback :context :contrib.nd
    :contrib.ndarray :contrib.sym :contrib.symbol :cpu :cpu_pinned
    :current_context :executor :executor_manager :gpu :init.InitDesc :init.Xavier :initializer
    :io :kv.create :kvstore :lr_scheduler :metric :mod.Module :model :module :mon.Monitor
    :monitor :name :nd._internal :nd.contrib :nd.linalg :nd.op :nd.random.uniform :nd.save
    :ndarray :optimizer :random :registry :rnd.seed :sym.Group :sym.Variable :sym._internal
    :sym.contrib :sym.linalg :sym.load :sym.load_json :sym.op :symbol
    attribute:AttrScope.current
    base:MXNetError base:_as_list base:integer_types base:numeric_types base:string_types
    callback:LogValidationMetricsCallback callback:ProgressBar callback:Speedometer
    callback:do_checkpoint callback:log_train_metric callback:module_checkpoint
    context:Context context:cpu context:gpu context:num_gpus context:current_context
    contrib.svrg_optimization.svrg_module:SVRGModule
    executor:Executor ndarray.utils:array ndarray.utils:load ndarray.utils:zeros
    executor_manager:_check_arguments executor_manager:_load_data executor_manager:_load_label
    executor_manager:_split_input_slice executor_manager:DataParallelExecutorGroup
    executor_manager:DataParallelExecutorManager model:FeedForward
    gluon.contrib.cnn.conv_layers:DeformableConvolution
    gluon.contrib.data.sampler:IntervalSampler gluon.contrib.data.text:WikiText2
    gluon.contrib.data:text gluon.contrib.nn.basic_layers:HybridConcurrent
    gluon.contrib.nn.basic_layers:SyncBatchNorm gluon.contrib.nn:Identity
    gluon.contrib.rnn.conv_rnn_cell:Conv2DLSTMCell gluon.contrib.rnn.rnn_cell:dynamic_unroll
    gluon.contrib.rnn:VariationalDropoutCell gluon.contrib:estimator
    gluon.contrib.estimator:Estimator gluon.contrib.estimator.estimator:Estimator
    gluon.contrib.estimator:BatchProcessor gluon.contrib.estimator:EpochEnd
    gluon.contrib.estimator.batch_processor:BatchProcessor
    gluon.contrib.estimator.event_handler:CheckpointHandler
    gluon.contrib.estimator.event_handler:EventHandler
    gluon.contrib.estimator.event_handler:_check_event_handlers
    gluon.contrib.estimator.utils:_check_metrics
    contrib.amp.amp:_amp_initialized gluon.data.dataloader:ForkingPickler
    gluon.data.dataloader:_MultiWorkerIter gluon.data.vision.datasets:image
    gluon.model_zoo.model_store:_model_sha1 gluon.utils:replace_file
    gluon.data.dataset:_DownloadedDataset gluon.nn.conv_layers:_Conv gluon.nn.conv_layers:_Pooling
    gluon.nn.conv_layers:_infer_weight_shape gluon.model_zoo.vision.densenet:_make_dense_block
    gluon.model_zoo.vision.densenet:_make_dense_layer gluon.rnn.rnn_cell:_cells_begin_state
    gluon.model_zoo.vision.densenet:_make_transition gluon.rnn.rnn_cell:_format_sequence
    gluon.rnn.rnn_cell:_get_begin_state gluon.rnn.rnn_cell:_mask_sequence_variable_length
    image.image:_get_interp_method metric:ndarray module.module:load_checkpoint
    gluon.block:_flatten gluon.loss:_apply_weighting gluon.loss:_reshape_like
    gluon.parameter:tensor_types gluon.utils:HookHandle gluon.utils:_brief_print_list
    gluon.utils:_get_repo_file_url gluon.utils:_get_repo_url gluon.utils:_indent
    gluon.utils:shape_is_known
    initializer:InitDesc initializer:Initializer initializer:register
    io:DataBatch io:DataDesc io:DataIter io:NDArrayIter io:ResizeIter
    io.io:DataBatch io.io:DataDesc io.io:DataIter io.io:NDArrayIter io.io:ResizeIter
    kvstore:KVStore kvstore:KVStoreBase kvstore:create kvstore.base:KVStoreBase
    kvstore.kvstore:KVStore
    metric:check_label_shapes metric:np metric:create metric:EvalMetric metric:CustomMetric
    misc:FactorScheduler
    model:BatchEndParam model:_create_kvstore model:_initialize_kvstore model:_update_params
    model:_update_params_on_kvstore model:load_checkpoint model:load_params model:save_checkpoint
    module:SequentialModule.META_TAKE_LABELS module:SequentialModule.META_AUTO_WIRING
    module:BaseModule module:BucketingModule module:Module module:PythonLossModule
    module:PythonModule module:SequentialModule
    module.base_module:BaseModule module.base_module:_as_list
    module.base_module:_check_input_names module.base_module:_parse_data_desc
    module.bucketing_module:BucketingModule
    module.executor_group:DataParallelExecutorGroup module.module:Module
    module.python_module:PythonLossModule module.python_module:PythonModule
    module.sequential_module:SequentialModule
    monitor:Monitor name:NameManager.current name:Prefix
    ndarray:NDArray ndarray:array ndarray:zeros ndarray.ndarray:NDArray ndarray.ndarray:array
    ndarray.ndarray:concatenate
    optimizer:Optimizer optimizer:Updater optimizer:get_updater optimizer:create
    operator:CustomOp operator:CustomOpProp operator:register
    optimizer:register optimizer.optimizer:Optimizer optimizer.optimizer:SGD
    random:seed random:uniform random:normal
    registry:get_alias_func registry:get_create_func registry:get_register_func
    rnn:BucketSentenceIter rnn:FusedRNNCell rnn:LSTMCell rnn:SequentialRNNCell
    rnn:encode_sentences rnn:load_rnn_checkpoint rnn:do_rnn_checkpoint rnn.io:BucketSentenceIter
    rnn.io:encode_sentences rnn.rnn:save_rnn_checkpoint rnn.rnn_cell:BaseRNNCell
    rnn.rnn_cell:RNNParams rnn.rnn_cell:ZoneoutCell rnn.rnn_cell:ConvLSTMCell :rnn
    contrib.text.vocab:Vocabulary contrib.text.utils:count_tokens_from_str
    contrib.text.embedding:_TokenEmbedding contrib:text
    profiler:set_config profiler:set_state profiler:dump profiler:profiler_set_config
    engine:bulk engine:set_bulk_size :engine :runtime runtime:feature_list
    visualization:plot_network visualization:print_summary
    symbol:Symbol symbol.symbol:Symbol symbol.symbol:Variable symbol.symbol:Group
""".split()

ATTRIBUTES = {
    "module": """_arg_params _aux_names _aux_params _context _data_names _data_shapes _exec_group
        _fixed_param_names _kvstore _label_names _label_shapes _optimizer _output_names
        _param_names _params_dirty _preload_opt_states _reset_bind _state_names _symbol
        _sync_params_from_devices _update_on_kvstore _updater _work_load_list binded
        for_training inputs_need_grad label_names logger optimizer_initialized
        params_initialized symbol""".split(),
    "buckets": """_buckets _context _curr_bucket_key _curr_module _default_bucket_key
        _fixed_param_names _grad_req _group2ctxs _monitor _params_dirty _reset_bind _state_names
        _sym_gen _work_load_list binded logger optimizer_initialized params_initialized""".split(),
    "row": "_label_shapes _meta_keys _metas _modules binded logger".split(),
    "loss": """_data_names _data_shapes _grad_func _label_names _label_shapes _labels _name
        _output_names _output_shapes _scores _scores_grad _backward_impl _compute_output_shapes
        binded logger""".split(),
    "group": """arg_names aux_arrays aux_names batch_size bind_exec contexts data_arrays
        data_layouts data_names data_shapes decide_slices execs fixed_param_names for_training
        grad_arrays grad_req input_grad_arrays inputs_need_grad label_arrays label_layouts
        label_names label_shapes output_layouts output_names param_arrays param_names slices
        state_arrays state_names symbol workload""".split(),
    "executor": """arg_arrays arg_dict aux_arrays aux_dict backward copy_params_from debug_str
        forward grad_arrays grad_dict output_dict outputs reshape set_monitor_callback""".split(),
    "optimizer": """_get_lr _get_lrs _get_wd _get_wds _index_update_count _update_count
        begin_num_update clip_gradient idx2name learning_rate lr lr_mult lr_scheduler
        multi_precision num_update rescale_grad set_learning_rate set_lr_mult set_wd_mult wd
        wd_mult""".split(),
    "updater": "get_states optimizer set_states states states_synced".split(),
    "batch": "bucket_key data index label pad provide_data provide_label".split(),
    "symbol": "__call__ __copy__ __deepcopy__ __iter__ __len__ _set_attr name".split(),
    "array": "context ctx dtype ndim shape size stype T grad handle".split(),
    "layer": """_active _cached_graph _children _clear_cached_op _collect_params_with_prefix
        _empty_prefix _flags _in_format _out_format _params _prefix _reg_params _scope
        name params prefix""".split(),
    "parameter": """_check_and_get _ctx_list _ctx_map _data _deferred_init _finish_deferred_init
        _grad _grad_req _init_grad _load_init _reduce _var dtype grad_req init lr_mult name shape
        wd_mult""".split(),
    "parameters": "_params _shared prefix".split(),
}


def test_paths_can_be_imported(oracle):
    assert surface.absent("nbmod", PATHS) == []
    wrong = oracle.call("mx_scripts.run", "surface", "absent_paths", PATHS)
    assert wrong == []


def test_paths_can_be_imported_from_mxnet():
    missing = run("import nbmod; nbmod.as_mxnet(); from tests.programs import surface; "
                  f"print(surface.absent('mxnet', {PATHS!r}))")
    assert missing.strip() == "[]"


def test_paths_are_attributes_without_an_import():
    run("import nbmod as mx; mx.image.image.imread; mx.io.io.NDArrayIter; mx.io.utils._init_data")


def test_attributes_are_there(oracle):
    assert surface.absent_attributes(mx, ATTRIBUTES) == []
    assert oracle.call("mx_scripts.run", "surface", "absent_attributes", ATTRIBUTES) == []


MODULES = """
    attribute callback context executor executor_manager initializer io.io
    kvstore.base kvstore.kvstore
    lr_scheduler metric misc model
    module.base_module module.bucketing_module module.executor_group module.module
    module.python_module module.sequential_module contrib.svrg_optimization.svrg_module
    monitor name ndarray.ndarray ndarray.random operator optimizer.contrib optimizer.optimizer
    gluon.block gluon.contrib.cnn.conv_layers gluon.contrib.data.sampler gluon.contrib.data.text
    gluon.contrib.nn.basic_layers gluon.contrib.rnn.conv_rnn_cell gluon.contrib.rnn.rnn_cell
    gluon.data.dataloader gluon.data.dataset gluon.data.sampler
    gluon.data.vision.datasets gluon.data.vision.transforms
    gluon.loss gluon.parameter gluon.trainer gluon.utils gluon.nn.activations
    gluon.nn.basic_layers gluon.nn.conv_layers gluon.rnn.rnn_cell gluon.rnn.rnn_layer
    error ndarray_doc symbol_doc random contrib.text.embedding contrib.text.utils contrib.text.vocab
    registry rnn.io rnn.rnn rnn.rnn_cell
    symbol.symbol symbol.random image.image image.detection
    visualization engine runtime test_utils profiler
""".split()

ABSENT = """
    test_utils:check_gluon* test_utils:get_im2rec_path
    gluon.data.dataloader:*V1* gluon.data.dataloader:*_v1 gluon.data.dataloader:re*ndarray
    gluon.data.dataloader:ConnectionWrapper* gluon.data.dataloader:*Queue*
    gluon.rnn.rnn_cell:SequentialRNNCell.hybrid_forward
    symbol.symbol:Symbol.handle
    executor:Executor.*_dict ndarray_doc:*Doc symbol_doc:*Doc symbol_doc:*Doc.*
    metric:PearsonCorrelation.update_* *.as_np_ndarray ndarray.ndarray:DL*
    ndarray.ndarray:check_boolean_array_dimension ndarray.ndarray:get_*
    ndarray.ndarray:indexing_key_expand_implicit_axes contrib.text.embedding:*.pretrained_*_sha1
""".split()
"""Not here: parts that are still to come, NumPy's interface, DLPack, inner workings, and the texts
that MXNet adds to its documentation.  What an executor or a metric has only once it is made is
absent from its class."""

DIFFERENT = """
    test_utils:get_atol test_utils:get_rtol
    gluon.*.initialize gluon.rnn.rnn_cell:ModifierCell.hybrid_forward
    gluon.contrib.rnn.conv_rnn_cell:Conv?D*Cell
    executor:Executor executor:Executor.reshape kvstore.kvstore:KVStore ndarray.ndarray:NDArray
    symbol.symbol:Symbol symbol.symbol:Group ndarray.ndarray:from_numpy ndarray.ndarray:power
    metric:*.update optimizer.optimizer:SGLD optimizer.optimizer:ccSGD
    optimizer.optimizer:Test rnn.rnn_cell:*Conv*Cell
    module.bucketing_module:BucketingModule.save_checkpoint
    io.io:CSVIter io.io:LibSVMIter io.io:MNISTIter io.io:MXDataIter io.io:ImageDetRecordIter
    io.io:ImageRecord* image.image:imdecode image.image:imread image.image:imresize
    visualization:print_summary
""".split()
"""Other parameters: None for an initializer that all calls share, handles into C++, classes to
make, `_` for a name, `**kwargs` written out; the convolutional cells share one constructor, where
None stands for a class's own prefix or layout, and a number for one of each axis; checkpoints of
buckets take a Module's arguments in its order, in which `module_checkpoint` gives them; the summary
of a network has MXNet's widths only where they are given."""


def fits(theirs, ours):
    """Whether a call that MXNet's parameters allow means the same with ours.

    Ours may have more at the end. MXNet's placeholder for a default (`_NullType`) and its
    `Context` match any default of ours; a list, which it should not be, matches a tuple.
    """
    if not ours or not theirs:
        return not theirs
    if ours[0] == "*args":
        return True
    name, _, default = theirs[0].partition("=")
    if name == "**kwargs" and ours[-1] == name:
        return all("=" in more for more in ours[:-1])
    own_name, _, own_default = ours[0].partition("=")
    same = default in (own_default, "_NullType()", "Context()", "list()")
    return name == own_name and same and fits(theirs[1:], ours[1:])


def listed(path, patterns):
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


@pytest.fixture(scope="module")
def theirs(oracle):
    return oracle.call("mx_scripts.run", "surface", "offered", MODULES)


@pytest.mark.filterwarnings("ignore:Context.default_ctx:DeprecationWarning")
def test_everything_is_here_or_listed(theirs):
    missing = surface.absent("nbmod", list(theirs))
    assert [path for path in missing if not listed(path, ABSENT)] == []
    idle = [pattern for pattern in ABSENT if not listed_by(pattern, missing)]
    assert idle == [], "these are here now"


@pytest.mark.filterwarnings("ignore:Context.default_ctx:DeprecationWarning")
def test_signatures_are_mxnets(theirs):
    here = set(theirs) - set(surface.absent("nbmod", list(theirs)))
    other = {path: (theirs[path], ours) for path in sorted(here)
             if not fits(theirs[path], ours := surface.parameters(surface.find("nbmod", path)))}
    assert {path: both for path, both in other.items() if not listed(path, DIFFERENT)} == {}
    assert [pattern for pattern in DIFFERENT if not listed_by(pattern, other)] == []


REORDERED = "*.BatchNorm_v1 *.IdentityAttachKLSparseReg *._linspace".split()
"""MXNet's functions leave out auxiliary states, which are inputs here; there `_linspace` has the
parameters of `_arange`."""


def test_operators_take_their_arguments_in_mxnets_order(oracle):
    theirs, ours = oracle.call("mx_scripts.run", "surface", "operators"), surface.operators(mx)
    both = {path for path in theirs if path in ours and not theirs[path][0].startswith("*")}
    assert len(both) > 700
    tails = {"name", "attr", "out", "**kwargs"}
    other = {path: (theirs[path], ours[path]) for path in both
             if (given := [name for name in theirs[path] if name not in tails])
             != ours[path][:len(given)]}
    assert {path: pair for path, pair in other.items() if not listed(path, REORDERED)} == {}
    assert [pattern for pattern in REORDERED if not listed_by(pattern, other)] == []


def listed_by(pattern, paths):
    return any(listed(path, [pattern]) for path in paths)

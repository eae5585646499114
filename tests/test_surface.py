"""What old scripts import, poke into and pass by name: paths, attributes, signatures.

The paths and attributes are what public code really uses, private ones included. Signatures are
compared with MXNet's, for everything its modules define; what is not here, or differs, is listed.
"""

from __future__ import annotations

import fnmatch

import pytest

import nbmod as mx
from tests import surface
from tests.test_startup import run

PATHS = """
    :AttrScope :Context :MXNetError :attribute :base :callback :context :cpu :cpu_pinned
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
    executor:Executor
    executor_manager:_check_arguments executor_manager:_load_data executor_manager:_load_label
    executor_manager:_split_input_slice
    initializer:InitDesc initializer:Initializer initializer:register
    io:DataBatch io:DataDesc io:DataIter io:NDArrayIter io:ResizeIter
    io.io:DataBatch io.io:DataDesc io.io:DataIter io.io:NDArrayIter io.io:ResizeIter
    kvstore:KVStore kvstore:create kvstore.kvstore:KVStore
    metric:check_label_shapes metric:np metric:create metric:EvalMetric metric:CustomMetric
    misc:FactorScheduler
    model:BatchEndParam model:_create_kvstore model:_initialize_kvstore model:_update_params
    model:_update_params_on_kvstore model:load_checkpoint model:load_params model:save_checkpoint
    module:BaseModule module:Module
    module.base_module:BaseModule module.base_module:_as_list
    module.base_module:_check_input_names module.base_module:_parse_data_desc
    module.executor_group:DataParallelExecutorGroup module.module:Module
    monitor:Monitor name:NameManager.current name:Prefix
    ndarray:NDArray ndarray:array ndarray:zeros ndarray.ndarray:NDArray ndarray.ndarray:array
    ndarray.ndarray:concatenate
    optimizer:Optimizer optimizer:Updater optimizer:get_updater optimizer:create
    optimizer:register optimizer.optimizer:Optimizer optimizer.optimizer:SGD
    random:seed random:uniform random:normal
    registry:get_alias_func registry:get_create_func registry:get_register_func
    symbol:Symbol symbol.symbol:Symbol symbol.symbol:Variable symbol.symbol:Group
""".split()

ATTRIBUTES = {
    "module": """_arg_params _aux_names _aux_params _context _data_names _data_shapes _exec_group
        _fixed_param_names _kvstore _label_names _label_shapes _optimizer _output_names
        _param_names _params_dirty _preload_opt_states _reset_bind _state_names _symbol
        _sync_params_from_devices _update_on_kvstore _updater _work_load_list binded
        for_training inputs_need_grad label_names logger optimizer_initialized
        params_initialized symbol""".split(),
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
}


def test_paths_can_be_imported(oracle):
    assert surface.absent("nbmod", PATHS) == []
    wrong = oracle.call("mx_scripts.run", "surface", "absent_paths", PATHS)
    assert wrong == []


def test_paths_can_be_imported_from_mxnet():
    missing = run("import nbmod; nbmod.as_mxnet(); from tests import surface; "
                  f"print(surface.absent('mxnet', {PATHS!r}))")
    assert missing.strip() == "[]"


def test_attributes_are_there(oracle):
    assert surface.absent_attributes(mx, ATTRIBUTES) == []
    assert oracle.call("mx_scripts.run", "surface", "absent_attributes", ATTRIBUTES) == []


MODULES = """attribute callback context executor initializer io.io kvstore.kvstore lr_scheduler
    metric misc model module.base_module module.executor_group module.module monitor name
    ndarray.ndarray ndarray.random optimizer.optimizer random registry symbol.symbol
    symbol.random""".split()

ABSENT = """
    context:Context.default_ctx executor:Executor.get_optimized_symbol symbol.symbol:Symbol.handle
    executor:Executor.*_dict
    initializer:FusedRNN* io.io:PrefetchingIter* io.io:MXDataIter* io.io:CSVIter* io.io:Image*
    io.io:LibSVMIter* io.io:MNISTIter* model:FeedForward* ndarray.ndarray:imdecode
    optimizer.optimizer:*.set_lr_scale optimizer.optimizer:AdaDelta* optimizer.optimizer:Adamax*
    optimizer.optimizer:DCASGD* optimizer.optimizer:FTML* optimizer.optimizer:Ftrl*
    optimizer.optimizer:LAMB* optimizer.optimizer:LARS* optimizer.optimizer:LBSGD*
    optimizer.optimizer:Nadam* optimizer.optimizer:SGLD* optimizer.optimizer:Signum*
    kvstore.kvstore:KVStore.OPTIMIZER kvstore.kvstore:KVStore.kv_registry
    kvstore.kvstore:KVStore.register kvstore.kvstore:KVStore.row_sparse_pull
    metric:PearsonCorrelation.reset_micro metric:PearsonCorrelation.update_*
    metric:PCC.*sum_metric *.as_np_ndarray ndarray.ndarray:*dlpack* ndarray.ndarray:DL*
    ndarray.ndarray:check_boolean_array_dimension ndarray.ndarray:get_*
    ndarray.ndarray:indexing_key_expand_implicit_axes
""".split()
"""Not here: parts that are still to come, NumPy's interface, DLPack, and inner workings.  What an
executor or a metric has only once it is made is absent from its class."""

DIFFERENT = """
    executor:Executor executor:Executor.reshape kvstore.kvstore:KVStore ndarray.ndarray:NDArray
    symbol.symbol:Symbol symbol.symbol:Group ndarray.ndarray:from_numpy ndarray.ndarray:power
    metric:*.update
    optimizer.optimizer:ccSGD optimizer.optimizer:Test
""".split()
"""Other parameters: handles into C++, classes to make, `_` for a name, `**kwargs` written out."""


def fits(theirs, ours):
    """Whether a call that MXNet's parameters allow means the same with ours.

    Ours may have more at the end. MXNet's placeholder for a default (`_NullType`) and its
    `Context` fit whatever ours says.
    """
    if not ours or not theirs:
        return not theirs
    if ours[0] == "*args":
        return True
    name, _, default = theirs[0].partition("=")
    if name == "**kwargs" and ours[-1] == name:
        return all("=" in more for more in ours[:-1])
    own_name, _, own_default = ours[0].partition("=")
    same = default in (own_default, "_NullType()", "Context()")
    return name == own_name and same and fits(theirs[1:], ours[1:])


def listed(path, patterns):
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


@pytest.fixture(scope="module")
def theirs(oracle):
    return oracle.call("mx_scripts.run", "surface", "offered", MODULES)


def test_everything_is_here_or_listed(theirs):
    missing = surface.absent("nbmod", list(theirs))
    assert [path for path in missing if not listed(path, ABSENT)] == []
    idle = [pattern for pattern in ABSENT if not listed_by(pattern, missing)]
    assert idle == [], "these are here now"


def test_signatures_are_mxnets(theirs):
    here = set(theirs) - set(surface.absent("nbmod", list(theirs)))
    other = {path: (theirs[path], ours) for path in sorted(here)
             if not fits(theirs[path], ours := surface.parameters(surface.find("nbmod", path)))}
    assert {path: both for path, both in other.items() if not listed(path, DIFFERENT)} == {}
    assert [pattern for pattern in DIFFERENT if not listed_by(pattern, other)] == []


def listed_by(pattern, paths):
    return any(listed(path, [pattern]) for path in paths)

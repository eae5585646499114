# Written by `python docs/generate_stubs.py`.

from types import ModuleType

from nbmod.symbol.attribute import AttrScope as AttrScope
from nbmod.ndarray import NDArray as NDArray
from nbmod.serving import Predictor as Predictor
from nbmod.compat import as_mxnet as as_mxnet
import nbmod.symbol.attribute as attribute
import nbmod.autograd as autograd
import nbmod.base as base
import nbmod.callback as callback
import nbmod.context as context
import nbmod.contrib as contrib
import nbmod.convert as convert
import nbmod.compat.engine as engine
import nbmod.compat.error as error
from nbmod.core.config import exact as exact
import nbmod.executor as executor
import nbmod.compat.executor_manager as executor_manager
from nbmod.ops.jit import num_threads as get_num_threads
import nbmod.gluon as gluon
import nbmod.callback.history as history
import nbmod.image as image
import nbmod.image as img
import nbmod.initializer as init
import nbmod.initializer as initializer
import nbmod.io as io
from nbmod.compat.util import is_np_array as is_np_array
from nbmod.core.shape_semantics import is_np_shape as is_np_shape
import nbmod.kvstore as kv
import nbmod.kvstore as kvstore
import nbmod.compat.libinfo as libinfo
library: ModuleType
import nbmod.core.log as log
import nbmod.lr_scheduler as lr_scheduler
import nbmod.metric as metric
import nbmod.compat.misc as misc
import nbmod.module as mod
import nbmod.compat.model as model
import nbmod.module as module
import nbmod.callback.monitor as mon
import nbmod.callback.monitor as monitor
import nbmod.symbol.name as name
import nbmod.ndarray as nd
import nbmod.ndarray as ndarray
import nbmod.compat.ndarray_doc as ndarray_doc
notebook: ModuleType
from nbmod.compat.util import np_array as np_array
from nbmod.core.shape_semantics import np_shape as np_shape
from nbmod.core.config import numpy_first as numpy_first
import nbmod.onnx as onnx
import nbmod.operator as operator
import nbmod.optimizer as opt
import nbmod.optimizer as optimizer
import nbmod.profiler as profiler
import nbmod.random as random
import nbmod.recordio as recordio
from nbmod.operator.register_op import register_op as register_op
import nbmod.core.registry as registry
import nbmod.random as rnd
import nbmod.rnn as rnn
rtc: ModuleType
import nbmod.runtime as runtime
import nbmod.safetensors as safetensors
from nbmod.core.shape_semantics import set_np_shape as set_np_shape
from nbmod.ops.jit import set_num_threads as set_num_threads
import nbmod.sklearn as sklearn
import nbmod.symbol as sym
import nbmod.symbol as symbol
import nbmod.compat.symbol_doc as symbol_doc
import nbmod.test_utils as test_utils
th: ModuleType
from nbmod.operator.register_op import unregister_op as unregister_op
from nbmod.compat.util import use_np as use_np
from nbmod.compat.util import use_np_array as use_np_array
from nbmod.compat.util import use_np_shape as use_np_shape
import nbmod.compat.util as util
import nbmod.diagram.visualization as visualization
import nbmod.diagram.visualization as viz
from nbmod.ndarray import waitall as waitall
from nbmod.passes.switches import without_passes as without_passes

__all__: list[str] = ["AttrScope", "NDArray", "Predictor", "as_mxnet", "attribute", "autograd",
                      "base", "callback", "context", "contrib", "convert", "engine", "error",
                      "exact", "executor", "executor_manager", "get_num_threads", "gluon",
                      "history", "image", "img", "init", "initializer", "io", "is_np_array",
                      "is_np_shape", "kv", "kvstore", "libinfo", "library", "log", "lr_scheduler",
                      "metric", "misc", "mod", "model", "module", "mon", "monitor", "name", "nd",
                      "ndarray", "ndarray_doc", "notebook", "np_array", "np_shape", "numpy_first",
                      "onnx", "operator", "opt", "optimizer", "profiler", "random", "recordio",
                      "register_op", "registry", "rnd", "rnn", "rtc", "runtime", "safetensors",
                      "set_np_shape", "set_num_threads", "sklearn", "sym", "symbol", "symbol_doc",
                      "test_utils", "th", "unregister_op", "use_np", "use_np_array",
                      "use_np_shape", "util", "visualization", "viz", "waitall", "without_passes"]

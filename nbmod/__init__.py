"""nbmod: MXNet 1.x's symbolic engine, Module API and Gluon in plain Python on numpy and numba.

`import nbmod as mx`, which examples in docstrings take as given, loads numpy, the errors and the
contexts; everything else is imported when its name is first used, and compiled when it first runs.
"""

import typing as _typing
from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec

from .core.interrupts import deferred as _deferred

with _deferred():   # an import that is interrupted cannot be repeated
    import numpy as _numpy  # noqa: F401

from .base import MXNetError
from .context import Context, cpu, cpu_pinned, current_context, gpu, gpu_memory_info, num_gpus
from .core.config import CONFIG as _CONFIG
from .core.import_paths import ALIASES as _ALIASES
from .core.import_paths import install as _install_import_paths
from .core.short_tracebacks import install as _install_short_tracebacks

if _typing.TYPE_CHECKING:
    if not (__debug__ or _typing.TYPE_CHECKING):  # jedi alone reads this: names without submodules
        from ._faces import (  # noqa: F401, I001
            attribute, autograd, base, callback, context, contrib, convert, engine, error, executor,
            executor_manager, gluon, history, image, image as img, initializer as init, initializer,
            io, kvstore as kv, kvstore, libinfo, log, lr_scheduler, metric, misc, module as mod,
            model, module, monitor as mon, monitor, name, ndarray as nd, ndarray, ndarray_doc,
            notebook, onnx, operator, optimizer as opt, optimizer, profiler, random, recordio,
            registry, random as rnd, rnn, runtime, safetensors, sklearn, symbol as sym, symbol,
            symbol_doc, test_utils, util, visualization, visualization as viz)
    from . import _lazy_names  # written by docs/generate_stubs.py
    from ._lazy_names import *  # noqa: F403

__version__ = "0.2.0"

__all__ = ["Context", "MXNetError", "cpu", "cpu_pinned", "current_context", "gpu",
           "gpu_memory_info", "num_gpus", "__version__"]
if _typing.TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += _lazy_names.__all__

# Public name -> (module below this one, name in it or "" for the module itself).
_LAZY = {
    **{name: (name, "") for name in (
        "autograd", "base", "callback", "context", "contrib", "convert", "executor", "gluon",
        "image", "initializer", "io", "kvstore", "library", "lr_scheduler", "metric", "module",
        "ndarray", "notebook", "onnx", "operator", "optimizer", "profiler", "random", "recordio",
        "rnn", "rtc", "runtime", "safetensors", "sklearn", "symbol", "test_utils", "th")},
    **{name: (name, "") for name in _ALIASES if "." not in name and name != "mxnet_predict"},
    **{short: (module, "") for short, module in {
        "nd": "ndarray", "sym": "symbol", "mod": "module", "kv": "kvstore", "init": "initializer",
        "opt": "optimizer", "mon": "monitor", "rnd": "random", "viz": "visualization",
        "img": "image"}.items()},
    "AttrScope": ("symbol.attribute", "AttrScope"),
    "NDArray": ("ndarray", "NDArray"),
    "Predictor": ("serving", "Predictor"),
    "waitall": ("ndarray", "waitall"),
    **{name: ("core.shape_semantics", name)
       for name in ("is_np_shape", "np_shape", "set_np_shape")},
    **{name: ("compat.util", name) for name in (
        "is_np_array", "np_array", "use_np", "use_np_array", "use_np_shape")},
    "as_mxnet": ("compat", "as_mxnet"),
    "register_op": ("operator.register_op", "register_op"),
    "unregister_op": ("operator.register_op", "unregister_op"),
    "exact": ("core.config", "exact"),
    "numpy_first": ("core.config", "numpy_first"),
    "without_passes": ("passes.switches", "without_passes"),
    "get_num_threads": ("ops.jit", "num_threads"),
    "set_num_threads": ("ops.jit", "set_num_threads"),
}


# What MXNet has and nbmod has not -> what to use instead.
_ABSENT = {
    **dict.fromkeys(("np", "numpy", "npx", "numpy_extension"), "mx.nd, or NumPy itself"),
    "tvmop": "mx.register_op",
    "torch": "mx.operator.CustomOp",
}


def _load(name: str) -> _typing.Any:
    """Import what a public name stands for and keep it; AttributeError for any other name."""
    module, attribute = _LAZY.get(name, ("", ""))
    if not module or _find_spec(f"{__name__}.{module}") is None:
        hint = f"; not part of nbmod (yet): use {_ABSENT[name]}" if name in _ABSENT else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    with _deferred():
        value = _import_module(f"{__name__}.{module}")
    globals()[name] = getattr(value, attribute) if attribute else value
    return globals()[name]


_install_import_paths()
_install_short_tracebacks()

if not _typing.TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _load


def __dir__() -> list[str]:
    available = (name for name, (module, _) in _LAZY.items() if _find_spec(f"{__name__}.{module}"))
    return sorted({*__all__, *available})


if _CONFIG.profile:
    _import_module(f"{__name__}.profiler")

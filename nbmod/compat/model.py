"""MXNet's path to checkpoints, `FeedForward`, and the functions that update by a store."""

from ..checkpoint import load_checkpoint, load_params, save_checkpoint, verify_checkpoint
from ..module.base_module import BatchEndParam
from ..module.executor_group import _update_params
from ..module.resume import latest_epoch
from ..module.store_updates import _create_kvstore, _initialize_kvstore, _update_params_on_kvstore
from .feedforward import FeedForward

__all__ = ["BatchEndParam", "FeedForward", "latest_epoch", "load_checkpoint", "load_params",
           "save_checkpoint", "_create_kvstore", "_initialize_kvstore", "_update_params",
           "_update_params_on_kvstore", "verify_checkpoint"]
__dir__ = __all__.copy

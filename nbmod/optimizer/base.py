"""`Optimizer`: how one parameter is stepped, and the rates and counts that go with it.

A parameter is known by its index (an int, or its name under a kvstore).  Its learning rate is the
global one (fixed, or from the scheduler at the highest update count so far) times its multiplier,
which is looked up by index in `param_dict`, by index in `lr_mult`, or by the name that `idx2name`
gives the index.  Weight decay works the same way; names that do not end in `_weight` or `_gamma`
have multiplier 0 unless told otherwise.

Update counts are kept per device, because with several devices one optimizer steps the copies of a
parameter one after the other and each must see the same count.

An optimizer implements `create_state` and `update`; the arithmetic itself is an op of `ops.update`,
run on the weight in place by `step`.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from ..base import MXNetError, did_you_mean
from ..ndarray import NDArray, zeros
from ..ops.device import device_of
from ..ops.op import Call, Op, Spec

__all__ = ["Optimizer", "create", "register", "state_like", "step"]


def step(op: Op, weight: NDArray, grad: NDArray, *states: NDArray) -> None:
    """Run an update op, writing the new weight over the old one and changing the states in place.

    Goes past `nd.invoke`, whose caches would fill up with ops that differ in their rates only.
    """
    arrays = [weight, grad, *states]
    for name, array in zip(op.list_inputs(), arrays, strict=True):
        if array.shape != weight.shape:
            raise MXNetError(f"{op.name}: {name} has shape {array.shape}, expected that of the "
                             f"weight, {weight.shape}")
    device = device_of(weight.context)
    handles = [array.handle for array in arrays]
    specs = [Spec(handle.shape, np.dtype(handle.dtype)) for handle in handles]
    op.infer_type([spec.dtype for spec in specs], [None])
    scratch = [device.empty(*spec) for spec in device.scratch(op, specs, specs[:1])]
    device.run(op, handles, handles[:1], Call(scratch=scratch))


def state_like(weight: NDArray) -> NDArray:
    """Zeros of the weight's shape and type, where the weight is."""
    return zeros(weight.shape, ctx=weight.context, dtype=weight.dtype)


class Optimizer:
    """Base class of optimizers.

    `param_idx2name` maps indices to names; `sym` gives `lr_mult` and `wd_mult` attributes of its
    variables; `param_dict` maps indices to objects with `lr_mult` and `wd_mult`.  Gradients are
    multiplied by `rescale_grad` and, where `clip_gradient` is given, cut to that magnitude.
    `multi_precision` keeps float32 master copies of float16 weights.
    """

    opt_registry: ClassVar[dict[str, type[Optimizer]]] = {}

    def __init__(self, rescale_grad: float = 1.0, param_idx2name: dict | None = None,
                 wd: float = 0.0, clip_gradient: float | None = None,
                 learning_rate: float | None = None, lr_scheduler: Any = None, sym: Any = None,
                 begin_num_update: int = 0, multi_precision: bool = False,
                 param_dict: Mapping[Any, Any] | None = None):
        if not isinstance(param_idx2name or {}, dict):
            raise MXNetError("param_idx2name should be a dict of parameter indices to names, given "
                             f"{param_idx2name!r}")
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        self.lr = self._initial_rate(learning_rate)
        self.wd = wd
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        self._all_index_update_counts: dict[int, dict[Any, int]] = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.idx2name: dict[Any, str] = dict(param_idx2name or {})
        self.param_dict: Mapping[Any, Any] = param_dict or {}
        self.sym_info: tuple = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        # MXNet's optimizers have these two; a file of ours that MXNet reads must carry them.
        self.aggregate_num = 0
        self.allow_np_array = False
        self.set_lr_mult({})
        self.set_wd_mult({})

    def _initial_rate(self, learning_rate: float | None) -> float | None:
        if self.lr_scheduler is None:
            return 0.01 if learning_rate is None else learning_rate
        if learning_rate is not None and self.lr_scheduler.base_lr != learning_rate:
            logging.warning("learning rate from lr_scheduler has been overwritten by "
                            "learning_rate in optimizer.")
            self.lr_scheduler.base_lr = learning_rate
        return learning_rate

    # -- registry ---------------------------------------------------------------------------

    @staticmethod
    def register(klass: type[Optimizer]) -> type[Optimizer]:
        """Class decorator: let `create` find the class under its lower-cased name."""
        name = klass.__name__.lower()
        known = Optimizer.opt_registry.get(name, klass)
        if known is not klass:
            warnings.warn(f"new optimizer {klass.__module__}.{klass.__name__} replaces "
                          f"{known.__module__}.{known.__name__}", UserWarning, stacklevel=2)
        Optimizer.opt_registry[name] = klass
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> Optimizer:
        """The optimizer of that name (case does not matter), made with `kwargs`."""
        found = Optimizer.opt_registry.get(name.lower()) if isinstance(name, str) else None
        if found is None:
            hint = did_you_mean(str(name).lower(), Optimizer.opt_registry)
            raise MXNetError(f"Cannot find optimizer {name!r}, known: "
                             f"{sorted(Optimizer.opt_registry)}{hint}")
        return found(**kwargs)

    # -- what subclasses implement ----------------------------------------------------------

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """What must be kept for a parameter between updates: None, an array, or a tuple."""
        return None

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """Step `weight` in place, given its gradient and its state."""
        raise NotImplementedError(f"{type(self).__name__} must define update")

    # -- multi-precision --------------------------------------------------------------------

    def _keeps_master(self, weight: NDArray) -> bool:
        """Whether a float32 copy of this weight is kept; warns where one would be wise."""
        if weight.dtype != np.float16:
            return False
        if not self.multi_precision:
            warnings.warn("Accumulating with float16 in optimizer can lead to poor accuracy or "
                          "slow convergence. Consider using multi_precision=True option of the "
                          f"{type(self).__name__} optimizer", UserWarning, stacklevel=3)
        return self.multi_precision

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """`create_state`, or (master copy, its state) for a float16 weight."""
        if not self._keeps_master(weight):
            return self.create_state(index, weight)
        master = weight.astype(np.float32)
        return master, self.create_state(index, master)

    def update_multi_precision(self, index: Any, weight: NDArray, grad: NDArray, state: Any
                               ) -> None:
        """`update`, on the master copy where there is one."""
        if not (self.multi_precision and weight.dtype == np.float16):
            self.update(index, weight, grad, state)
            return
        master, inner = state
        self.update(index, master, grad.astype(np.float32), inner)
        master.copyto(weight)

    # -- rates and counts -------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The global learning rate now."""
        if self.lr_scheduler is not None:
            return self.lr_scheduler(self.num_update)
        assert self.lr is not None
        return self.lr

    def set_learning_rate(self, lr: float) -> None:
        """Change the global learning rate; an error while a scheduler decides it."""
        if self.lr_scheduler is not None:
            raise MXNetError("the learning rate is decided by the optimizer's lr_scheduler; set "
                             "lr_scheduler.base_lr instead")
        self.lr = lr

    def set_lr_mult(self, args_lr_mult: Mapping[Any, float]) -> None:
        """Multipliers of the learning rate by name or index, over those of the symbol."""
        self.lr_mult = {**self._symbol_multipliers("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        """Multipliers of weight decay by name or index, over those of the symbol."""
        undecayed = {name: 0.0 for name in self.idx2name.values()
                     if not name.endswith(("_weight", "_gamma"))}
        self.wd_mult = {**undecayed, **self._symbol_multipliers("__wd_mult__"), **args_wd_mult}

    def _symbol_multipliers(self, key: str) -> dict[str, float]:
        if not self.sym_info:
            return {}
        attrs, names = self.sym_info
        return {name: float(attrs[name][key]) for name in names if key in attrs.get(name, {})}

    def _set_current_context(self, device_id: int) -> None:
        """Count updates for this device from now on."""
        counts = self._all_index_update_counts.setdefault(device_id, {})
        self._index_update_count = counts

    def _update_count(self, index: Any) -> None:
        """Count one more update of a parameter (or of each in a list)."""
        for key in index if isinstance(index, (list, tuple)) else [index]:
            count = self._index_update_count.get(key, self.begin_num_update) + 1
            self._index_update_count[key] = count
            self.num_update = max(count, self.num_update)

    def _multiplier(self, index: Any, kind: str) -> float:
        table = getattr(self, kind)
        if index in self.param_dict:
            return getattr(self.param_dict[index], kind)
        if index in table:
            return table[index]
        return table.get(self.idx2name[index], 1.0) if index in self.idx2name else 1.0

    def _get_lrs(self, indices: Iterable[Any]) -> list[float]:
        rate = self.learning_rate
        return [rate * self._multiplier(index, "lr_mult") for index in indices]

    def _get_lr(self, index: Any) -> float:
        return self._get_lrs([index])[0]

    def _get_wds(self, indices: Iterable[Any]) -> list[float]:
        return [self.wd * self._multiplier(index, "wd_mult") for index in indices]

    def _get_wd(self, index: Any) -> float:
        return self._get_wds([index])[0]

    def __getstate__(self) -> dict[str, Any]:
        # Parameters belong to the network, not to the optimizer's state.
        return {name: value for name, value in self.__dict__.items() if name != "param_dict"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.param_dict = {}
        if "_all_index_update_counts" not in state:  # before there were several devices
            self._all_index_update_counts = {0: self._index_update_count}


register = Optimizer.register
create = Optimizer.create_optimizer

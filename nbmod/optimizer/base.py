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
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..base import ArgumentError, MXNetError, did_you_mean, is_exact
from ..changes import written
from ..ndarray import NDArray, where, zeros
from ..ops.device import device_of
from ..ops.jit import denormals
from ..ops.op import Call, Op, Spec
from ..ops.update import require_trainable
from ..registry import construct

__all__ = ["Optimizer", "RuleOptimizer", "Turn", "create", "register", "state_like", "states_like",
           "step"]


def step(op: Op, weight: NDArray, grad: NDArray, *states: NDArray) -> None:
    """Run an update op, writing the new weight over the old one and changing the states in place.

    Goes past `nd.invoke`, whose caches would fill up with ops that differ in their rates only.
    """
    arrays = [array.handle for array in (weight, grad, *states)]
    require_trainable(arrays[0].dtype)
    if any(array.shape != weight.shape for array in arrays):
        _check_shapes(op, weight.shape, arrays)
    device = device_of(weight.context)
    specs = [Spec(array.shape, array.dtype) for array in arrays]
    scratch = [device.empty(*spec) for spec in device.scratch(op, specs, specs[:1])]
    with denormals(is_exact()):
        device.run(op, arrays, arrays[:1], Call(scratch=scratch))
    written(arrays[0], *[array.handle for array in states])


def _check_shapes(op: Op, weight: tuple[int, ...], arrays: Sequence[Any]) -> None:
    """MXNetError unless the arrays have the shapes that follow from the weight's."""
    expected, _ = op.infer_shape([weight, *[None] * (len(arrays) - 1)], [None])
    for name, array, shape in zip(op.list_inputs(), arrays, expected, strict=True):
        if array.shape != shape:
            raise MXNetError(f"{op.name}: {name} has shape {array.shape}, expected {shape} for a "
                             f"weight of shape {weight}")


def state_like(weight: NDArray) -> NDArray:
    """Zeros of the weight's shape and type, where the weight is."""
    return zeros(weight.shape, ctx=weight.context, dtype=weight.dtype)


def states_like(weight: NDArray, count: int) -> tuple[NDArray, ...]:
    """So many of them."""
    return tuple(state_like(weight) for _ in range(count))


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
            raise ArgumentError(f"Cannot find optimizer {name!r}, known: "
                                f"{sorted(Optimizer.opt_registry)}{hint}")
        return construct(found, **kwargs)

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

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """`update`, on the master copy where there is one."""
        if not (self.multi_precision and weight.dtype == np.float16):
            self.update(index, weight, grad, state)
            return
        master, inner = state
        self.update(index, master, grad.astype(np.float32), inner)
        master.copyto(weight)

    def _master(self, state: Any) -> NDArray | None:
        """The master copy in a state, None where a subclass makes states in a way of its own."""
        ours = type(self).create_state_multi_precision is Optimizer.create_state_multi_precision
        return state[0] if ours else None

    def weight_was_set(self, weight: NDArray, state: Any) -> None:
        """Let the master copy, if there is one, follow a weight that was set by hand.

        Where the weight still is what the master is when rounded, the master keeps its digits.
        """
        if not (self.multi_precision and weight.dtype == np.float16):
            return
        master = self._master(state)
        if master is not None:
            new = weight.as_in_context(master.context)
            moved = master.astype(np.float16) - new
            master[:] = where(moved.astype(np.float32), new.astype(np.float32), master)

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

    def set_lr_scale(self, args_lrscale: Any) -> None:
        """MXNet's first name of `set_lr_mult`; raises DeprecationWarning, as there."""
        raise DeprecationWarning("set_lr_scale is gone: use set_lr_mult")

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


class Turn(NamedTuple):
    """One parameter's turn in a step."""

    index: Any
    lr: float
    wd: float
    t: int
    """The number of this update of the parameter, from 1."""
    state: Any
    master: bool
    """Whether the last state is a float32 master of the weight."""


class RuleOptimizer(Optimizer):
    """Base of optimizers whose step is an op, which `rule` makes for every parameter in turn.

    `update` takes one parameter, or lists of parameters, which count as one step: all are counted
    before the first rate is asked for.  Results are the same.
    """

    clips_to_zero: ClassVar[bool] = False
    """Whether `clip_gradient=0` cuts gradients to 0; otherwise it leaves them as they are."""
    shares_rules: ClassVar[bool] = True
    """Whether turns that differ in nothing but parameters have one rule."""

    def rule(self, turn: Turn) -> Op:
        """The op that does a parameter's step; it depends on what `shares_rules` says."""
        raise NotImplementedError(f"{type(self).__name__} must define rule")

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._step_all(index, weight, grad, state, master=False)

    def _step_all(self, index: Any, weight: Any, grad: Any, state: Any, master: bool) -> None:
        if not isinstance(index, (list, tuple)):
            index, weight, grad, state = [index], [weight], [grad], [state]
        ops = self._rules(index, weight, grad, state, master)
        for op, w, g, s in zip(ops, weight, grad, state, strict=True):
            step(op, w, g, *_arrays(s))

    def _rules(self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray],
               states: Sequence[Any], master: bool) -> list[Op]:
        """Count a step of parameters, and find the ops that do it."""
        self._update_count(indices)
        lrs, wds = self._rates(indices, weights, grads)
        known: dict[Any, Op] = {}
        ops = []
        for index, state, lr, wd in zip(indices, states, lrs, wds, strict=True):
            t = self._index_update_count[index]
            key = (lr, wd, t, *map(_is_none, state if type(state) is tuple else (state,)))
            op = known.get(key)
            if op is None:
                op = self.rule(Turn(index, lr, wd, t, state, master))
                if self.shares_rules:
                    known[key] = op
            ops.append(op)
        return ops

    def _rates(self, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray]
               ) -> tuple[Sequence[float], Sequence[float]]:
        """Learning rate and weight decay of parameters that are about to be stepped.

        Asked for one by one: users' optimizers override `_get_lr`.
        """
        return [self._get_lr(i) for i in indices], [self._get_wd(i) for i in indices]

    def _common(self, turn: Turn) -> dict[str, Any]:
        """The parameters that nearly all update ops have."""
        return {"lr": turn.lr, "wd": turn.wd, "rescale_grad": self.rescale_grad,
                "clip_gradient": self._clip()}

    def _clip(self) -> float:
        """The limit of gradients as ops want it: negative for none."""
        if self.clip_gradient is None or not (self.clip_gradient or self.clips_to_zero):
            return -1.0
        return self.clip_gradient


def _is_none(value: Any) -> bool:
    return value is None


def _arrays(state: Any) -> list[NDArray]:
    """The arrays in a state, in order."""
    if isinstance(state, (tuple, list)):
        return [array for part in state for array in _arrays(part)]
    return [] if state is None else [state]


register = Optimizer.register
create = Optimizer.create_optimizer

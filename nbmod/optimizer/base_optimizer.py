"""`Optimizer`: how one parameter is stepped, and its learning rate, weight decay and update count.

A parameter is identified by its index (an int, or its name under a kvstore).  Its learning rate is
the global rate (constant, or that of the scheduler at the highest update count so far) times its
multiplier, which is looked up by index in `param_dict`, by index in `lr_mult`, or by the name that
`idx2name` has for the index.  Weight decay works the same way; names that do not end in `_weight`
or `_gamma` have multiplier 0 by default.

Update counts are per device: one optimizer steps the copies of a parameter one after the other.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np

from ..base import (
    ArgumentError,
    CheckError,
    Forwarded,
    MXNetError,
    checks_numbers,
    did_you_mean,
    wrong_type,
)
from ..core.registry import construct, enter
from ..lr_scheduler import LRScheduler
from ..ndarray import NDArray, where
from ..ops.op import Op
from ..symbol import Symbol
from .update_step import Index, OneOrMany, State, StepInfo, state_inputs, states_like, step

__all__ = ["Optimizer", "RuleOptimizer", "create", "register"]

OptimizerClass = TypeVar("OptimizerClass", bound="type[Optimizer]")

Multipliers: TypeAlias = Mapping[Any, float]  # type: ignore[explicit-any]
"""Factors by index or name of a parameter.  Any: the keys of a `Mapping` are invariant."""


class _HasMultipliers(Protocol):
    """A parameter with factors of its own."""

    lr_mult: float
    wd_mult: float


class SchedulerError(MXNetError, UserWarning):
    """A learning rate is set although a scheduler decides it, where MXNet raises UserWarning."""


class Optimizer:
    """Base class of optimizers.

    Parameters
    ----------
    rescale_grad : float, default 1.0
        Factor of gradients; often 1 / batch size, if the loss is a sum over the batch.
    param_idx2name : dict of int to str, optional
        Names of the parameters, by index.
    wd : float, default 0.0
        Global weight decay, the factor of the L2 penalty.
    clip_gradient : float, optional
        Limit of the magnitude of every element of a gradient; None for no limit.
    learning_rate : float, optional
        Global learning rate, 0.01 unless given; it replaces the `base_lr` of a scheduler.
    lr_scheduler : LRScheduler, optional
        Called with the number of updates, returns the global learning rate.
    sym : Symbol, optional
        A network whose variables may have attributes `__lr_mult__` and `__wd_mult__`.
    begin_num_update : int, default 0
        The number of updates from which counting begins.
    multi_precision : bool, default False
        Whether to keep float32 master copies of float16 weights, which are stepped in their place.
    param_dict : dict, optional
        Objects with attributes `lr_mult` and `wd_mult`, by index, which precede other multipliers.

    Notes
    -----
    A subclass defines `update`, and `create_state` if it needs a state.  In `update` it calls
    `_update_count(index)`, then `_get_lr(index)` and `_get_wd(index)` for the parameter's learning
    rate and weight decay.

    Examples
    --------
    >>> @mx.optimizer.register
    ... class Halving(mx.optimizer.Optimizer):
    ...     def update(self, index, weight, grad, state):
    ...         self._update_count(index)
    ...         weight[:] = 0.5 * (weight - self._get_lr(index) * grad)
    >>> optimizer = mx.optimizer.create("halving", learning_rate=1.0)
    >>> weight = mx.nd.array([5.0])
    >>> optimizer.update(0, weight, mx.nd.array([1.0]), optimizer.create_state(0, weight))
    >>> weight.asscalar().item()
    2.0
    >>> del mx.optimizer.Optimizer.opt_registry["halving"]
    """

    opt_registry: ClassVar[dict[str, type[Optimizer]]] = {}

    @checks_numbers
    def __init__(self, rescale_grad: float = 1.0, param_idx2name: dict[int, str] | None = None,
                 wd: float = 0.0, clip_gradient: float | None = None,
                 learning_rate: float | None = None, lr_scheduler: LRScheduler | None = None,
                 sym: Symbol | None = None, begin_num_update: int = 0,
                 multi_precision: bool = False,
                 param_dict: Mapping[Index, _HasMultipliers] | None = None):
        names = param_idx2name or {}
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise CheckError("param_idx2name should be a dict of parameter indices to names, given "
                             f"{param_idx2name!r}")
        owner = type(self).__name__
        if lr_scheduler is not None and not callable(lr_scheduler):
            raise wrong_type(f"{owner}: lr_scheduler", lr_scheduler, "an LRScheduler, such as "
                             "mx.lr_scheduler.FactorScheduler(step=1000)")
        if sym is not None and not hasattr(sym, "attr_dict"):
            raise wrong_type(f"{owner}: sym", sym, "a Symbol")
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        if lr_scheduler is None:
            self.lr: float | None = 0.01 if learning_rate is None else learning_rate
        else:
            self.lr = learning_rate
            base = getattr(lr_scheduler, "base_lr", learning_rate)   # functions have none
            if learning_rate is not None and base != learning_rate:
                logging.warning("learning rate from lr_scheduler has been overwritten by "
                                "learning_rate in optimizer.")
                lr_scheduler.base_lr = learning_rate
        self.wd = wd
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        self._all_index_update_counts: dict[int, dict[Index, int]] = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.idx2name: dict[int, str] = dict(names)
        self.param_dict: Mapping[Index, _HasMultipliers] = param_dict or {}
        self.sym_info: tuple[()] | tuple[dict[str, dict[str, str]], list[str]] = (
            () if sym is None else (sym.attr_dict(), sym.list_arguments()))
        # MXNet's optimizers have these two; nbmod's files must contain them for MXNet to read them.
        self.aggregate_num = 0
        self.allow_np_array = False
        self.set_lr_mult({})
        self.set_wd_mult({})

    # -- registry ---------------------------------------------------------------------------

    @staticmethod
    def register(klass: OptimizerClass) -> OptimizerClass:
        """Class decorator: register an optimizer for `create` under its lower-cased name.

        Parameters
        ----------
        klass : type
            A subclass of `Optimizer`.  It replaces another of that name, with a warning.
        """
        enter(Optimizer.opt_registry, klass, "optimizer")
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Forwarded) -> Optimizer:
        """Create a registered optimizer; also `mx.optimizer.create`.

        Parameters
        ----------
        name : str
            Name of the class, in upper or lower case.
        **kwargs
            Arguments of the class.

        Raises
        ------
        ArgumentError
            If no optimizer has that name.

        Examples
        --------
        >>> optimizer = mx.optimizer.create("sgd", learning_rate=0.2, momentum=0.9)
        >>> type(optimizer).__name__, optimizer.learning_rate
        ('SGD', 0.2)
        """
        klass = Optimizer.opt_registry.get(name.lower()) if isinstance(name, str) else None
        if klass is None:
            hint = did_you_mean(str(name).lower(), Optimizer.opt_registry)
            raise ArgumentError(f"Cannot find optimizer {name!r}, known: "
                                f"{sorted(Optimizer.opt_registry)}{hint}")
        return construct(klass, **kwargs)

    # -- what subclasses implement ----------------------------------------------------------

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The state that a parameter needs between updates: None, an array or a tuple of states.

        Parameters
        ----------
        index : int or str
            The index of the parameter.
        weight : NDArray
            Its weight.
        """
        return None

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Step `weight` in place; to be defined by subclasses.

        Parameters
        ----------
        index, weight
            As for `create_state`.
        grad : NDArray
            The gradient, of the weight's shape.
        state : object
            What `create_state` returned for the parameter; its arrays are changed in place.
        """
        raise NotImplementedError(f"{type(self).__name__} must define update")

    # -- multi-precision --------------------------------------------------------------------

    def _keeps_master(self, weight: NDArray) -> bool:
        """Whether a float32 master of this weight is kept; warns where one would be advisable."""
        if weight.dtype != np.float16:
            return False
        if not self.multi_precision:
            warnings.warn("Accumulating with float16 in optimizer can lead to poor accuracy or "
                          "slow convergence. Consider using multi_precision=True option of the "
                          f"{type(self).__name__} optimizer", UserWarning, stacklevel=3)
        return self.multi_precision

    def create_state_multi_precision(self, index: Index, weight: NDArray) -> State:
        """`create_state`; of a float16 weight (float32 master, its state) if `multi_precision`.

        Parameters
        ----------
        index, weight
            As for `create_state`.
        """
        if not self._keeps_master(weight):
            return self.create_state(index, weight)
        master = weight.astype(np.float32)
        return master, self.create_state(index, master)

    def update_multi_precision(self, index: OneOrMany, weight: OneOrMany, grad: OneOrMany,
                               state: OneOrMany) -> None:
        """`update`, on the master copy in the state where there is one.

        Parameters
        ----------
        index, weight, grad, state
            As for `update`.
        """
        if not (self.multi_precision and weight.dtype == np.float16):
            self.update(index, weight, grad, state)
            return
        master, inner = state
        self.update(index, master, grad.astype(np.float32), inner)
        master.copyto(weight)

    def _master(self, state: State) -> NDArray | None:
        """The master copy in a state, None where a subclass has its own layout of states."""
        ours = type(self).create_state_multi_precision is Optimizer.create_state_multi_precision
        return state[0] if ours else None

    def weight_was_set(self, weight: NDArray, state: State) -> None:
        """Copy a weight that was set from outside to its master copy, if it has one.

        Where the weight is the rounded master weight, the master keeps its precision.

        Parameters
        ----------
        weight, state
            As for `update`.
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
        """The global learning rate; with a scheduler, its rate at the current update count."""
        if self.lr_scheduler is not None:
            return self.lr_scheduler(self.num_update)
        assert self.lr is not None
        return self.lr

    def set_learning_rate(self, lr: float) -> None:
        """Change the global learning rate; a SchedulerError if there is a scheduler.

        Parameters
        ----------
        lr : float
            The new rate.
        """
        if self.lr_scheduler is not None:
            raise SchedulerError("the learning rate is decided by the optimizer's lr_scheduler; "
                                 "set lr_scheduler.base_lr instead")
        self.lr = lr

    def set_lr_scale(self, args_lrscale: object) -> None:
        """The former name of `set_lr_mult`, which MXNet keeps to raise a DeprecationWarning.

        Parameters
        ----------
        args_lrscale : object
            Ignored.
        """
        raise DeprecationWarning("set_lr_scale is gone: use set_lr_mult")

    def set_lr_mult(self, args_lr_mult: Multipliers) -> None:
        """Set multipliers of the learning rate.

        Parameters
        ----------
        args_lr_mult : dict of (int or str) to float
            Multipliers by index or by name; 1 for all others.  They take precedence over those of
            the symbol's attributes, and replace what was set before.

        Examples
        --------
        >>> optimizer = mx.optimizer.SGD(learning_rate=1.0, param_idx2name={0: "a_weight"})
        >>> optimizer.set_lr_mult({"a_weight": 0.5})
        >>> weight = mx.nd.zeros(1)
        >>> optimizer.update(0, weight, mx.nd.ones(1), None)
        >>> weight.asscalar().item()
        -0.5
        """
        self.lr_mult = {**self._symbol_multipliers("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: Multipliers) -> None:
        """Set multipliers of weight decay.

        Parameters
        ----------
        args_wd_mult : dict of (int or str) to float
            As for `set_lr_mult`, but 0 for all others whose names do not end in `_weight` or
            `_gamma`.
        """
        undecayed = {name: 0.0 for name in self.idx2name.values()
                     if not name.endswith(("_weight", "_gamma"))}
        self.wd_mult = {**undecayed, **self._symbol_multipliers("__wd_mult__"), **args_wd_mult}

    def _symbol_multipliers(self, key: str) -> dict[str, float]:
        if not self.sym_info:
            return {}
        attrs, names = self.sym_info
        return {name: _multiplier(name, key, attrs[name][key]) for name in names
                if key in attrs.get(name, {})}

    def _set_current_context(self, device_id: int) -> None:
        """Count updates for this device from now on."""
        counts = self._all_index_update_counts.setdefault(device_id, {})
        self._index_update_count = counts

    def _update_count(self, index: OneOrMany) -> None:
        """Count one more update of a parameter (or of each in a list)."""
        for key in index if isinstance(index, (list, tuple)) else [index]:
            count = self._index_update_count.get(key, self.begin_num_update) + 1
            self._index_update_count[key] = count
            self.num_update = max(count, self.num_update)

    def _multiplier(self, index: Index, kind: str) -> float:
        table = getattr(self, kind)
        if index in self.param_dict:
            return getattr(self.param_dict[index], kind)
        if index in table:
            return table[index]
        return table.get(self.idx2name[index], 1.0) if index in self.idx2name else 1.0

    def _get_lrs(self, indices: Iterable[Index]) -> list[float]:
        rate = self.learning_rate
        return [rate * self._multiplier(index, "lr_mult") for index in indices]

    def _get_lr(self, index: Index) -> float:
        return self._get_lrs([index])[0]

    def _get_wds(self, indices: Iterable[Index]) -> list[float]:
        return [self.wd * self._multiplier(index, "wd_mult") for index in indices]

    def _get_wd(self, index: Index) -> float:
        return self._get_wds([index])[0]

    def __getstate__(self) -> dict[str, object]:
        # Parameters belong to the network, not to the optimizer's state.
        return {name: value for name, value in self.__dict__.items() if name != "param_dict"}

    def __setstate__(self, state: dict[str, Forwarded]) -> None:
        self.__dict__.update(state)
        self.param_dict = {}
        if "_all_index_update_counts" not in state:  # files from before several devices
            self._all_index_update_counts = {0: self._index_update_count}


class RuleOptimizer(Optimizer):
    """Base of optimizers whose step is an operator, which `rule` makes for every parameter.

    `update` takes one parameter, or lists of parameters, which count as one step: all are counted
    before the first rate is looked up.  Results are the same.
    """

    clips_to_zero: ClassVar[bool] = False
    """Whether `clip_gradient=0` cuts gradients to 0; otherwise it leaves them as they are."""
    shares_rules: ClassVar[bool] = True
    """Whether parameters with equal rates, counts and kinds of state share one operator."""

    num_states: ClassVar[int] = 0
    """Arrays of a parameter's state, zeros of its shape at first."""
    is_separable: ClassVar[bool] = True
    """Whether rows of a parameter can be stepped apart from each other, by different processes:
    not with norms of whole parameters, state that parameters share, or random numbers."""

    def create_state(self, index: Index, weight: NDArray) -> State:
        count = self.num_states
        return states_like(weight, count, self._keeps_stype()) if count else None

    def _keeps_stype(self) -> bool:
        """Whether states of a sparse weight are sparse, too, if `create_state` asks for it."""
        return False

    def rule(self, info: StepInfo) -> Op:
        """The operator of (weight, gradient, *arrays of the state) that steps one parameter.

        Parameters
        ----------
        info : StepInfo
            Index, learning rate, weight decay, update number and state of the parameter.
        """
        raise NotImplementedError(f"{type(self).__name__} must define rule")

    def update(self, index: OneOrMany, weight: OneOrMany, grad: OneOrMany, state: OneOrMany
               ) -> None:
        """Step one parameter, or each of a list, in place."""
        self._step_all(index, weight, grad, state, master=False)

    def _step_all(self, index: OneOrMany, weight: OneOrMany, grad: OneOrMany, state: OneOrMany,
                  master: bool) -> None:
        if not isinstance(index, (list, tuple)):
            index, weight, grad, state = [index], [weight], [grad], [state]
        ops = self._rules(index, weight, grad, state, master)
        for op, w, g, s in zip(ops, weight, grad, state, strict=True):
            step(op, w, g, *state_inputs(op, s))

    def _rules(self, indices: Sequence[Index], weights: Sequence[NDArray], grads: Sequence[NDArray],
               states: Sequence[State], master: bool) -> list[Op]:
        """Count a step of parameters, and return the ops that perform it."""
        self._update_count(indices)
        lrs, wds = self._rates(indices, weights, grads)
        known: dict[tuple[float, ...], Op] = {}
        ops = []
        for index, state, lr, wd in zip(indices, states, lrs, wds, strict=True):
            t = self._index_update_count[index]
            parts = state if type(state) is tuple else (state,)
            key = (lr, wd, t, *(part is None for part in parts))
            op = known.get(key)
            if op is None:
                op = self.rule(StepInfo(index, lr, wd, t, state, master))
                if self.shares_rules:
                    known[key] = op
            ops.append(op)
        return ops

    def _rates(self, indices: Sequence[Index], weights: Sequence[NDArray], grads: Sequence[NDArray]
               ) -> tuple[Sequence[float], Sequence[float]]:
        """Learning rates and weight decays, one by one: users' optimizers override `_get_lr`."""
        return [self._get_lr(i) for i in indices], [self._get_wd(i) for i in indices]

    def _common(self, info: StepInfo) -> dict[str, Forwarded]:
        """The parameters common to nearly all update ops."""
        return {"lr": info.lr, "wd": info.wd, "rescale_grad": self.rescale_grad,
                "clip_gradient": self._clip()}

    def _clip(self) -> float:
        """The limit of gradients as an op's parameter: negative for none."""
        if self.clip_gradient is None or not (self.clip_gradient or self.clips_to_zero):
            return -1.0
        return self.clip_gradient


def _multiplier(name: str, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"optimizer: the attribute {key} of {name} is {text!r:.80}, expected a "
                            "number") from None


register = Optimizer.register
create = Optimizer.create_optimizer

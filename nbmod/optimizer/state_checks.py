"""Checks of optimizers, schedulers and states that were read from a `.states` file.

Updates read the attributes of an optimizer without looking at their types.  So a damaged file is
rejected when it is read: attributes are compared with those of a new instance, states with those
that the optimizer creates, and the operator of the next update is made once, without running it.
"""

from __future__ import annotations

import copy
import itertools
import reprlib
from collections.abc import Iterator, Mapping

import numpy as np

from .. import lr_scheduler
from ..base import MXNetError, did_you_mean
from ..context import cpu
from ..lr_scheduler import LRScheduler
from ..ndarray import NDArray, zeros
from ..ops.optimizer.sgd_update import Update
from .base_optimizer import Optimizer, RuleOptimizer
from .sgd import Momentum
from .update_step import Index, State, StepInfo

__all__ = ["check_fields", "check_names", "check_states", "new_instance", "state_of_type",
           "why_no_update"]

_COUNTS = frozenset(("begin_num_update", "num_update", "aggregate_num", "warmup_steps",
                     "max_update", "count", "cur_step_ind", "num_cums", "init_updates",
                     "warmup_epochs", "updates_per_epoch", "_index_update_count",
                     "_all_index_update_counts"))
_POSITIVE = frozenset(("step", "batch_scale"))
_MAX_NUMBER, _MAX_COUNT, _MAX_BEHIND = 2**63, 2**31, 10**6
_OPTIONAL = frozenset(("lr", "momentum"))
"""Fields that may be None although a new instance has a number."""
_REQUIRED: dict[type[LRScheduler], dict[str, object]] = {
    lr_scheduler.FactorScheduler: {"step": 1}, lr_scheduler.MultiFactorScheduler: {"step": [1]},
    lr_scheduler.PolyScheduler: {"max_update": 1}, lr_scheduler.CosineScheduler: {"max_update": 1}}
"""Arguments without which a scheduler cannot be made."""


def new_instance(klass: type[Optimizer | LRScheduler]) -> Optimizer | LRScheduler:
    """An instance with default values, of nbmod's class that a user's may be derived from."""
    base = next(base for base in klass.__mro__ if base.__module__.startswith("nbmod."))
    if issubclass(base, LRScheduler):
        return base(**_REQUIRED.get(base, {}))  # type: ignore[arg-type]  # by name
    assert issubclass(base, Optimizer)
    return base()


# ---------------------------------------------------------------------------------------- fields

def check_fields(instance: Optimizer | LRScheduler) -> None:
    """Compare the attributes of an optimizer or a scheduler with those of a new instance.

    TypeError if an attribute cannot be one of the class; names it, what was expected and what is
    there.
    """
    expected = vars(new_instance(type(instance)))
    role = "optimizer" if isinstance(instance, Optimizer) else "scheduler"
    for name, value in vars(instance).items():
        expectation = _wanted(name, value, expected[name]) if name in expected else ""
        if expectation:
            raise TypeError(f"the {role}'s {name} is a {type(value).__name__}, "
                            f"{reprlib.repr(value)}, expected {expectation}")
    if isinstance(instance, Optimizer) and instance.lr_scheduler is not None:
        check_fields(instance.lr_scheduler)


def check_names(klass: type[Optimizer | LRScheduler], attributes: Mapping[str, object]) -> None:
    """Compare the names of attributes that were read with those of a new instance.

    Files of older versions may lack some.  TypeError if a name is damaged: not one of the class,
    and similar to one that is missing.
    """
    expected = vars(new_instance(klass))
    missing = [name for name in expected if name not in attributes]
    for name in attributes:
        hint = "" if name in expected else did_you_mean(name, missing)
        if hint:
            raise TypeError(f"{klass.__name__} has no attribute {name!r}{hint}")


def why_no_update(optimizer: Optimizer, error: Exception) -> MXNetError | None:
    """A better error than that of an update if the values of nbmod's optimizer are its cause.

    Errors of users' optimizers stay as they are.
    """
    ours = all(type(part).__module__.startswith("nbmod.")
               for part in (optimizer, optimizer.lr_scheduler or optimizer))
    if not ours or isinstance(error, MXNetError):
        return None
    try:
        check_fields(optimizer)
    except TypeError as wrong:
        return MXNetError(str(wrong))
    settings = ", ".join(f"{name}={value!r}" for name, value in vars(optimizer).items()
                         if isinstance(value, (int, float)) and name[0] != "_")
    return MXNetError(f"{type(optimizer).__name__}: {error}; it cannot compute an update with "
                      f"{settings}")


def _wanted(name: str, value: object, default: object) -> str:
    """The expectation that a value does not meet; '' if it meets all."""
    if name == "lr_scheduler":
        return "" if isinstance(value, (LRScheduler, type(None))) else "an LRScheduler or None"
    if name == "sym_info":
        kinds = [type(part) for part in value] if isinstance(value, (tuple, list)) else None
        return "" if kinds in ([], [dict, list]) else "a dict and a list, or nothing"
    if name == "param_dict" and isinstance(value, dict):    # of the parameters of a network
        right = all(map(_has_multipliers, value.values()))
        return "" if right else "numbers as lr_mult and wd_mult"
    if isinstance(default, (dict, list)):
        return _wanted_inside(name, value, type(default))
    if name in _COUNTS or name in _POSITIVE:
        return _wanted_count(name, value)
    if isinstance(default, str):
        return "" if isinstance(value, str) else "text"
    optional = default is None or name in _OPTIONAL
    if _is_number(value) or (value is None and optional):
        return ""
    return "a number or None" if optional else "a number"


def _has_multipliers(parameter: object) -> bool:
    return all(_is_number(getattr(parameter, name, None)) for name in ("lr_mult", "wd_mult"))


def _is_number(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < _MAX_NUMBER)


def _wanted_count(name: str, value: object) -> str:
    least = int(name in _POSITIVE)
    kinds = (int, float) if name == "batch_scale" else (int,)
    if isinstance(value, kinds) and least <= value < _MAX_COUNT:
        return ""
    return f"an integer from {least} to {_MAX_COUNT - 1}"


def _wanted_inside(name: str, value: object, kind: type) -> str:
    """The expectation that a dict or list, or one of its items, does not meet."""
    if not isinstance(value, kind):
        return f"a {kind.__name__}"
    items: list[object] = list(value.values() if isinstance(value, dict) else
                               value if isinstance(value, list) else ())
    if name == "idx2name":
        return "" if all(isinstance(item, str) for item in items) else "names"
    if name == "weight_previous":
        return "" if all(isinstance(item, NDArray) for item in items) else "arrays"
    if name == "cumgrads":
        return "" if all(map(_is_sum, items)) else "sums of gradients"
    if name == "_all_index_update_counts":
        expectations = [_wanted("_index_update_count", item, {}) for item in items]
    else:
        expectations = [_wanted(name, item, 0) for item in items]
    return next((f"{one} in each item" for one in expectations if one), "")


def _is_sum(value: object) -> bool:
    if not isinstance(value, dict) or _wanted_count("num_cums", value.get("num_cums")):
        return False
    total = value.get("cum_grad")
    return isinstance(total, NDArray) or _is_number(total)


# ---------------------------------------------------------------------------------------- states

def check_states(optimizer: Optimizer, states: Mapping[Index, State]) -> None:
    """Compare the states of parameters, by index, with those that their optimizer creates.

    Those of users' optimizers can be anything, and are not looked at.  MXNetError if a state has
    other parts, or the next update cannot be computed; names the index, what was expected and what
    is there.
    """
    if not type(optimizer).__module__.startswith("nbmod."):
        return
    one_by_one = type(optimizer).update_multi_precision is Optimizer.update_multi_precision
    if optimizer.aggregate_num and one_by_one:
        raise MXNetError(f"optimizer states: aggregate_num is {optimizer.aggregate_num}, expected "
                         f"0, as {type(optimizer).__name__} updates one parameter at a time")
    single, master = (_created(optimizer, dtype) for dtype in ("float32", "float16"))
    inner: dict[Index, tuple[State, bool]] = {}
    for index, state in states.items():
        if _fits(state, single, optimizer):
            inner[index] = state, False
        elif _fits(state, master, optimizer):
            whole = _layout(optimizer) is Momentum.create_state_multi_precision
            inner[index] = state if whole else state[1], whole
        else:
            expected = " or ".join(sorted({_kinds(single), _kinds(master)}))
            raise MXNetError(f"optimizer states: the state of {reprlib.repr(index)} is "
                             f"{_described(state)}, expected {expected} of floats for "
                             f"{type(optimizer).__name__}")
    if isinstance(optimizer, RuleOptimizer):
        _check_next_updates(optimizer, inner)


def state_of_type(optimizer: Optimizer, index: Index, weight: NDArray, state: State) -> State:
    """The state of a weight that may have been cast: with a master copy where the type needs one.

    Those of users' optimizers stay as they are.
    """
    if not optimizer.multi_precision or not type(optimizer).__module__.startswith("nbmod."):
        return state
    half = weight.dtype == np.float16
    single, master = (_created(optimizer, dtype) for dtype in ("float32", "float16"))
    needed, other = (master, single) if half else (single, master)
    if _fits(state, needed, optimizer) or not _fits(state, other, optimizer):
        return state
    place = 0 if _layout(optimizer) is Momentum.create_state_multi_precision else 1
    if not half:
        return state[place]
    parts = [*optimizer.create_state_multi_precision(index, weight)]
    parts[place] = state
    return tuple(parts)


def _layout(optimizer: Optimizer) -> object:
    return type(optimizer).create_state_multi_precision


def _created(optimizer: Optimizer, dtype: str) -> State:
    """The state for a weight of shape (2, 3), of float16 under `multi_precision` with a master."""
    weight = zeros((2, 3), ctx=cpu(), dtype=dtype)
    if optimizer.multi_precision:
        return optimizer.create_state_multi_precision(0, weight)
    return optimizer.create_state(0, weight)


def _fits(state: State, created: State, optimizer: Optimizer) -> bool:
    """Whether a state has the parts of a created one, and arrays of one shape and type."""
    # States may be of a run with momentum or without it, and are ignored where none is created.
    optional = hasattr(optimizer, "momentum") or created is None
    pairs = [*_pairs(state, created)]
    if not all(_same_kind(part, like, optional) for part, like in pairs):
        return False
    arrays = [(part, like) for part, like in pairs if isinstance(part, NDArray)]
    full = {part.shape for part, like in arrays if like is None or like.shape == (2, 3)}
    rows = all(set(part.shape[1:]) <= {1} for part, like in arrays
               if like is not None and like.shape == (2, 1))
    return len(full) <= 1 and rows and len({part.dtype for part, _ in arrays}) <= 1


def _pairs(state: State, created: State) -> Iterator[tuple[State, State]]:
    """The parts of a state, each with that of a created one; tuples only where they differ."""
    both = isinstance(state, (tuple, list)) and isinstance(created, (tuple, list))
    if both and len(state) == len(created):
        for part, like in zip(state, created, strict=True):
            yield from _pairs(part, like)
    else:
        yield state, created


def _same_kind(part: State, like: State, optional: bool) -> bool:
    if isinstance(part, NDArray):
        floats = issubclass(part.dtype, np.floating)
        return floats and (isinstance(like, NDArray) or (like is None and optional))
    return part is None and (like is None or (optional and isinstance(like, NDArray)))


def _kinds(state: State) -> str:
    """The parts of a state in words."""
    if isinstance(state, (tuple, list)):
        return f"({', '.join(map(_kinds, state[:4]))}{', ...' if len(state) > 4 else ''})"
    if isinstance(state, NDArray):
        return "an array"
    return "None" if state is None else f"a {type(state).__name__}"


def _described(state: State) -> str:
    """The parts of a state, and the shapes and types of its arrays."""
    arrays = [part for part, _ in _pairs(state, state) if isinstance(part, NDArray)]
    tensors = sorted({f"{np.dtype(part.dtype)} {part.shape}" for part in arrays})
    return f"{_kinds(state)} of {', '.join(tensors)}" if tensors else _kinds(state)


def _check_next_updates(optimizer: RuleOptimizer, states: Mapping[Index, tuple[State, bool]]
                        ) -> None:
    """MXNetError unless the operators of the next updates can be made."""
    known = set()
    where: object = "all"
    try:
        trial, rates = copy.copy(optimizer), _rates(optimizer)
        for counts in optimizer._all_index_update_counts.values():
            for where, (state, master) in states.items():
                done = counts.get(where, optimizer.begin_num_update)
                parts = state if isinstance(state, (tuple, list)) else (state,)
                key = done, master, *(part is None for part in parts)
                if key in known:
                    continue
                known.add(key)
                # powers of a negative number alternate
                for t, lr in itertools.product((done + 1, done + 2), rates):
                    op = trial.rule(StepInfo(where, lr, trial.wd, t, state, master))
                    if isinstance(op, Update):
                        with np.errstate(over="ignore"):    # updates take infinity, too
                            op.scalar_values(op.program())
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise MXNetError(f"optimizer states: {type(optimizer).__name__} cannot compute the next "
                         f"update of {reprlib.repr(where)}: {error}") from None


def _rates(optimizer: RuleOptimizer) -> list[float]:
    """The learning rates of the next update and of the last one of a schedule.

    That may be 0, by which some optimizers divide, but no damage: it is left out.
    """
    scheduler = optimizer.lr_scheduler
    if scheduler is None:
        if optimizer.lr is None:
            raise ValueError("it has neither a learning rate nor a scheduler")
        rates = [optimizer.lr]
    elif isinstance(scheduler, (lr_scheduler.PolyScheduler, lr_scheduler.CosineScheduler)):
        rates = [copy.copy(scheduler)(count)
                 for count in (optimizer.num_update + 1, scheduler.max_update)]
        if any(isinstance(rate, complex) for rate in rates):
            raise ValueError("the scheduler's rate is complex")
    else:
        if isinstance(scheduler, lr_scheduler.FactorScheduler):
            if optimizer.num_update - scheduler.count > _MAX_BEHIND * scheduler.step:
                raise ValueError(f"the scheduler has counted {scheduler.count} updates, the "
                                 f"optimizer {optimizer.num_update}")
        rates = [scheduler.base_lr]
    return [rate for rate in rates if rate != 0]

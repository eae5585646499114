"""Optimizers of modules: created, compared with what a script asks for, and restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import CheckError, MXNetError, warn_user
from ..lr_scheduler import LRScheduler
from ..optimizer import Optimizer, create
from ..optimizer.state_checks import check_fields
from ..symbol import Symbol
from .arguments import OptimizerLike, OptimizerParams
from .json_codec import Plain, decode, encode

if TYPE_CHECKING:
    from .module_interface import ModuleInterface

__all__ = ["attributes", "is_in_use", "make_optimizer", "optimizer_state", "restore_optimizer"]

_APART = {"lr_scheduler", "param_dict", "idx2name", "sym_info", "_all_index_update_counts",
          "_index_update_count"}
"""Attributes of optimizers that are restored separately, or follow from the network."""


def make_optimizer(optimizer: str | Optimizer, params: OptimizerParams, symbol: Symbol,
                   idx2name: dict[int, str], rescale: float) -> Optimizer:
    """The optimizer, created by name with the parameters for it, or as given."""
    if isinstance(optimizer, str):
        return create(optimizer, sym=symbol, param_idx2name=idx2name,
                      **{"rescale_grad": rescale, **dict(params)})
    if not isinstance(optimizer, Optimizer):
        raise CheckError(f"init_optimizer: optimizer is a {type(optimizer).__name__}, expected "
                         "a name or an mx.optimizer.Optimizer")
    if optimizer.rescale_grad != rescale:
        warn_user("Optimizer created manually outside Module but rescale_grad is not "
                  f"normalized to 1.0/batch_size/num_workers ({optimizer.rescale_grad} vs. "
                  f"{rescale}). Is this intended?")
    if not optimizer.idx2name:
        optimizer.idx2name = idx2name.copy()
    return optimizer


def attributes(optimizer: Optimizer) -> dict[str, Plain]:
    """The plain attributes of an optimizer, and of its scheduler, by value."""
    scheduler = optimizer.lr_scheduler
    return {"class": type(optimizer).__name__, "own": _plain(optimizer),
            "scheduler": None if scheduler is None else
            {"class": type(scheduler).__name__, "own": _plain(scheduler)}}


def is_in_use(module: ModuleInterface, optimizer: OptimizerLike, params: OptimizerParams) -> bool:
    """Whether the optimizer that these arguments describe is the one that a module began with.

    True for modules without an optimizer.
    """
    own: Optimizer | None = getattr(module, "_optimizer", None)
    if own is None or optimizer is own:
        return True
    begun: dict[str, dict[str, float]] = getattr(module, "_optimizer_begun", {})
    try:
        if isinstance(optimizer, str):
            optimizer = make_optimizer(optimizer, params, module.symbol, own.idx2name,
                                       begun["own"]["rescale_grad"])
        return attributes(optimizer) == begun
    except (MXNetError, TypeError, ValueError, AttributeError):  # none that can be made
        return False


def _plain(owner: object) -> dict[str, Plain]:
    plain = {}
    for name, value in getattr(owner, "__dict__", {}).items():
        if name not in _APART:
            try:
                plain[name] = decode(encode(value))
            except TypeError:  # attributes that are not plain data are left to the script
                continue
    return plain


def optimizer_state(optimizer: Optimizer, begun: dict[str, Plain]) -> dict[str, Plain]:
    """Attributes and counts of an optimizer that began training with the attributes `begun`."""
    return {"begun": begun, "now": attributes(optimizer),
            "counts": optimizer._all_index_update_counts}


def restore_optimizer(optimizer: Optimizer, saved: dict[str, Plain]) -> bool:
    """Restore an optimizer, except for attributes that the script has set to other values.

    Returns whether update counts and scheduler were restored; see `module.resume`.
    """
    here, begun, now = attributes(optimizer), saved["begun"], saved["now"]
    if here["class"] != begun["class"]:
        return False
    same = {name for name, value in here["own"].items()
            if name not in begun["own"] or _equal(value, begun["own"][name])}
    continues = "begin_num_update" in same and any(
        _equal(here["scheduler"], known["scheduler"]) for known in (begun, now))
    own = {name: value for name, value in now["own"].items() if name not in _APART
           and (name in same or name not in here["own"]) and (name != "num_update" or continues)}
    scheduled = {}
    if continues:
        counts = {device: dict(of_device) for device, of_device in saved["counts"].items()}
        own |= {"_all_index_update_counts": counts, "_index_update_count": counts.setdefault(0, {})}
        scheduled = (now["scheduler"] or {"own": {}})["own"]
    _check_attributes(optimizer, {**own, "lr_scheduler": None})
    _check_attributes(optimizer.lr_scheduler, scheduled)
    vars(optimizer).update(own)
    if scheduled:
        vars(optimizer.lr_scheduler).update(scheduled)
    return continues


def _check_attributes(owner: object, values: dict[str, Plain]) -> None:
    """TypeError for attributes of an optimizer or a scheduler that it cannot have."""
    for name in values:
        hidden = getattr(type(owner), name, None)
        if callable(hidden) or isinstance(hidden, property):
            raise TypeError(f"{type(owner).__name__}.{name} is no attribute that training changes")
    if values and type(owner).__module__.startswith("nbmod."):
        stand_in = object.__new__(type(owner))
        vars(stand_in).update(values)
        assert isinstance(stand_in, (Optimizer, LRScheduler))
        check_fields(stand_in)


def _equal(one: Plain, other: Plain) -> bool:
    return encode(one) == encode(other)

"""How modules present themselves at a prompt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..core.reprs import listed, safe_repr, shaped

if TYPE_CHECKING:
    from .module_interface import ModuleInterface

__all__ = ["module_text"]


@safe_repr
def module_text(module: ModuleInterface) -> str:
    """Describe a module of any class and state by its attributes.

    Parameters
    ----------
    module : ModuleInterface
        The module.

    Returns
    -------
    str
        One line for the network, one for its shapes if it is bound, one for its training.
    """
    own = vars(module)
    parts = own.get("_modules") or list((own.get("_buckets") or {}).values())
    now: ModuleInterface = own.get("_curr_module") or module
    lines = [_network(module, parts), *_shapes(now), _state(module, now)]
    return "<" + "\n ".join(lines) + ">"


def _network(module: ModuleInterface, parts: list[ModuleInterface]) -> str:
    own = vars(module)
    symbol = getattr(own.get("_curr_module") or module, "_symbol", None)
    name = f" {symbol.name or listed(symbol.list_outputs())}" if symbol is not None else ""
    contexts = own.get("_context")
    where = listed(map(str, contexts if isinstance(contexts, list) else [contexts]))
    text = f"{type(module).__name__}{name}" + f" on {where}" * (contexts is not None)
    if "_buckets" in own:
        return f"{text}, buckets {listed(map(str, own['_buckets'])) or 'none'}"
    if "_modules" in own:
        kinds = listed(type(part).__name__ for part in parts)
        return f"{text} of {kinds or 'no modules'}"
    return text


def _shapes(module: ModuleInterface) -> list[str]:
    own = vars(module)
    inputs = [*(own.get("_data_shapes") or ()), *(own.get("_label_shapes") or ())]
    if not module.binded or not inputs:
        return []
    outputs = own.get("_output_names") or []
    text = shaped((desc[0], desc[1]) for desc in inputs)
    return [f"{text} -> {listed(outputs)}" if outputs else text]


def _state(module: ModuleInterface, now: ModuleInterface) -> str:
    own = vars(now)
    if not module.binded:
        return "not bound"
    words = ["bound for training" if module.for_training else "bound for inference"]
    parameters = own.get("_arg_params") or {}
    count = sum(math.prod(array.shape) for array in parameters.values())
    if module.params_initialized:
        words.append(f"{count:,} parameters" if count else "parameters initialized")
    if module.optimizer_initialized:
        words.append(type(own["_optimizer"]).__name__ if own.get("_optimizer") else "an optimizer")
    if module.history:
        words.append(f"trained up to epoch {module.history[-1]['epoch'] + 1}")
    return ", ".join(words)

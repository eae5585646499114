"""`mx.contrib.amp`: automatic mixed precision, float16 where it is safe and float32 elsewhere.

Operators compute in the types that `lists` says, unless a caller names others.

    lists/          MXNet's operators in four classes: float16, float32, either, widest type
    amp.py          `convert_model` for trained networks, `init` for training, and their like
    casting.py      the casts that `init` inserts before each node or call that is made from then on
    loss_scaler.py  `scale_loss`: factors of losses, and steps that are skipped

Begin with `amp.py`.  Imports `base`, `context`, `gluon`, `graph`, `module`, `ndarray`, `ops`,
`passes` and `symbol`.
"""

from . import amp, lists, loss_scaler
from .amp import (
    convert_bucketing_module,
    convert_hybrid_block,
    convert_model,
    convert_symbol,
    init,
    init_trainer,
    list_conditional_fp32_ops,
    list_fp32_ops,
    list_loss_output_functions,
    list_lp16_fp32_ops,
    list_lp16_ops,
    list_lp16_use_fp32_params,
    list_widest_type_cast,
    scale_loss,
    unscale,
)

__all__ = ["amp", "convert_bucketing_module", "convert_hybrid_block", "convert_model",
           "convert_symbol", "init", "init_trainer", "list_conditional_fp32_ops", "list_fp32_ops",
           "list_loss_output_functions", "list_lp16_fp32_ops", "list_lp16_ops",
           "list_lp16_use_fp32_params", "list_widest_type_cast", "lists", "loss_scaler",
           "scale_loss", "unscale"]
__dir__ = __all__.copy

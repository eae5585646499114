"""Networks whose parameters have shapes that no data determine, bound to the data alone."""

from __future__ import annotations

from typing import Any

import numpy as np


def run(mx: Any, network: str, params: dict[str, np.ndarray], data: np.ndarray) -> Any:
    """Outputs of a network in JSON, in a module that knows its parameters' names alone."""
    symbol = mx.sym.load_json(network)
    args, states = (
        {name: mx.nd.array(params[name], dtype=params[name].dtype) for name in names
         if name in params}
        for names in (symbol.list_arguments(), symbol.list_auxiliary_states()))
    module = mx.mod.Module(symbol, data_names=["x"], label_names=None)
    module.bind([mx.io.DataDesc("x", data.shape, data.dtype)], for_training=False)
    module.set_params(args, states)
    module.forward(mx.io.DataBatch([mx.nd.array(data, dtype=data.dtype)]))
    return [output.asnumpy() for output in module.get_outputs()]

"""Networks and parameters from and to other formats and frameworks.

    nbmod convert net-symbol.json net-0007.params -o net.onnx --shape data=1,3,224,224
    model = mx.convert.read_model(["net-symbol.json", "net-0007.params"])
    mx.convert.write_model(model, "net.safetensors")
    arg_params, aux_params = mx.convert.from_torch(state_dict, symbol)

`model_formats` has the formats, each read to and written from one value, a `StoredModel`.
`torch_params` matches the layers of a PyTorch module, which `torch_modules` finds in its state
dict, with those of a symbol (`symbol_layers`).
"""

from __future__ import annotations

from .model_formats import OnnxOptions, StoredModel, read_model, write_model
from .torch_params import UnmatchedLayers, from_torch

__all__ = ["OnnxOptions", "StoredModel", "UnmatchedLayers", "from_torch", "read_model",
           "write_model"]
__dir__ = __all__.copy

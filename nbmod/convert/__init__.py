"""Networks and parameters from and to other formats and frameworks.

    nbmod convert net-symbol.json net-0007.params -o net.onnx --shape data=1,3,224,224
    model = mx.convert.read_model(["net-symbol.json", "net-0007.params"])
    mx.convert.write_model(model, "net.safetensors")
    arg_params, aux_params = mx.convert.from_torch(state_dict, symbol)

Each format is read to and written from one value, a `StoredModel`.  Layers of PyTorch are matched
by structure, never by guessed names: an uncertain match is an error.

    model_formats.py  `StoredModel`, and the readers and writers of all formats
    symbol_layers.py  the layers of a symbol that have parameters, in PyTorch's order
    torch_modules.py  the modules of PyTorch that a state dict tells of, in that order
    torch_params.py   `from_torch`, which matches the two sequences and moves parameters

Begin with `model_formats.py`.  Imports `base`, `checkpoint`, `context`, `core`, `graph`, `ndarray`,
`ops`, `passes.infer`, `safetensors.model_file`, `safetensors.tensor_file` and `symbol`.
"""

from .model_formats import OnnxOptions, StoredModel, read_model, write_model
from .torch_params import UnmatchedLayers, from_torch

__all__ = ["OnnxOptions", "StoredModel", "UnmatchedLayers", "from_torch", "read_model",
           "write_model"]
__dir__ = __all__.copy

"""Networks and parameters from and to other formats and frameworks.

    python -m nbmod convert net-symbol.json net-0007.params -o net.onnx --shape data=1,3,224,224
    model = nbmod.convert.read_model(["net-symbol.json", "net-0007.params"])
    nbmod.convert.write_model(model, "net.safetensors")

`model_formats` has the formats, each read to and written from one value, a `StoredModel`.
"""

from __future__ import annotations

from .model_formats import OnnxOptions, StoredModel, read_model, write_model

__all__ = ["OnnxOptions", "StoredModel", "read_model", "write_model"]

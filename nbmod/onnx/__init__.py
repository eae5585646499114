"""`mxnet.onnx`: models to and from files of ONNX (extra `onnx`).

`export_model` writes a symbol with its parameters to a file and verifies it; `import_model` reads
files, also those of others.  An operator that cannot be converted is an error that lists all such
nodes of the model.

    exporting/        `export_model`: a symbol to a file
    verification.py   onnxruntime's outputs of the file against nbmod's
    reference_run.py  nbmod's outputs for that, node by node and without compilation
    importing/        `import_model`: a file to a symbol

Begin with `exporting/`.  Imports `base`, `checkpoint`, `context`, `core`, `gluon`, `graph`,
`ndarray`, `ops`, `passes.infer`, `passes.rewrite` and `symbol`.
"""

from .exporting.export_model import export_model
from .exporting.operator_support import get_operator_support
from .importing import get_model_metadata, import_model, import_to_gluon

__all__ = ["export_model", "get_model_metadata", "get_operator_support", "import_model",
           "import_to_gluon"]
__dir__ = __all__.copy

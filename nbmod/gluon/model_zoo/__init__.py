"""`mx.gluon.model_zoo`: networks for images, as symbols (see `vision`).

Nodes and parameters have the names that Gluon gives them, so that its files can be loaded.

    builder.py      `Builder`: a block of layers, which add nodes under Gluon's names
    network.py      `Network`: a `SymbolBlock` built by a `Builder`, and Gluon's two forms of files
    model_store.py  pretrained parameters on this machine, by name and checksum; no download
    vision/         the networks, and `get_model`

Begin with `builder.py`.  Imports `base`, `checkpoint`, `compat.c_interface`, `context`,
`gluon.base_parameter`, `gluon.hybrid_block`, `gluon.parameter_files`, `gluon.symbol_block`,
`gluon.utils`, `initializer`, `ndarray` and `symbol`.
"""

from . import model_store, vision

__all__ = ["model_store", "vision"]

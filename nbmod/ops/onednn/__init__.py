"""Fused layers in graphs that MXNet's oneDNN backend exported.

An op has the subgraph of a layer and its neighbours as a parameter, as MXNet writes it, and folds
that into one layer with an epilogue.

    fused_base.py    `FusedOp`: a layer, its epilogue, and the quantization around it
    fused_layers.py  `_sg_mkldnn_conv` and `_sg_mkldnn_fully_connected`

Begin with `fused_base.py`.  Imports `base`, `graph`, `ops.elementwise`, `ops.jit`, `ops.nn`,
`ops.op`, `ops.quantization` and `ops.shape`.
"""

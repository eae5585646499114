"""Optimization passes: each one makes a graph faster and can be switched off by name.

A pass is a function of what earlier passes made of a graph, a `Rewritten`, that returns another.
New entries have no known spec until `passes.infer` infers it.  `pipelines` says which passes run,
and in which order.

    analysis.py           questions that several passes ask of a graph
    cse.py                identities and common subexpressions are removed
    fold_batch_norm.py    batch norm becomes part of the weights before it (inference)
    fuse_epilogue.py      additions, ReLU and clips become part of the layer before them
    blocked_layout.py     convolutions and their neighbours work on blocks of channels
    fuse_depthwise.py     separable convolutions run together, in bands of rows
    fuse_int8.py          quantized layers on blocked images, with requantization
    match_rnn.py          cells of unrolled recurrent networks, found in a graph
    reroll_rnn.py         the steps of such a cell become one recurrent layer
    hoist_constants.py    nodes that depend on parameters alone leave the loop over batches
    tile_batch.py         convolution and pooling run on a few images at a time
    elementwise_units.py  what one elementwise kernel may compute: outputs of a node
    fuse_elementwise.py   connected elementwise nodes become one (`execution.pipeline` calls it)
    pipelines.py          `simplify`: these passes in order, before inference and before training

Begin with `pipelines.py`.  Imports `base`, `context`, `graph`, `ops.blocked`, `ops.elementwise`,
`ops.internal`, `ops.nn`, `ops.op`, `ops.param`, `ops.quantization`, `ops.rnn`, `ops.shape`,
`ops.tensor`, `passes.infer`, `passes.remarks`, `passes.rewrite` and `passes.switches`.
"""

"""Recurrent layers: whole stacks (`RNN`) and rerolled loops.

`RNN` and `RecurrentLayer` run the same steps over the same plan; they differ in where their weights
are.

    rnn_weights.py  the layout of all weights in one flat vector: integers only
    rnn_cells.py    gates of one step: elementwise, one row at a time
    rnn_plan.py     `RnnPlan`: sizes and layout of the operator's memory
    rnn_kernels.py  one layer, all steps and directions, in one kernel
    rnn_steps.py    functions without arguments over the arrays of an `RnnPlan`
    rnn.py          the op `RNN`: plain, LSTM and GRU
    rnn_layer.py    `RecurrentLayer`: one layer with separate weights, which loop rerolling inserts

Begin with `rnn.py`.  Imports `base`, `ops.elementwise`, `ops.jit`, `ops.linalg`, `ops.nn`,
`ops.op`, `ops.param` and `ops.shape`.
"""

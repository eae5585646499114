"""Loops and branches: ops that run subgraphs (`ops.subgraph`).

Every variable of a body refers to an input of the node, as data, state or free variable.

    control_base.py  roles of variables; inference of shapes and types through bodies
    control_loop.py  execution of loop bodies: copies between arrays of the node and of its body
    control.py       the ops `_foreach`, `_while_loop` and `_cond`, and their gradients

Begin with `control_base.py`.  Imports `base`, `graph`, `ops.device`, `ops.op`, `ops.param`,
`ops.shape` and `ops.subgraph`.
"""

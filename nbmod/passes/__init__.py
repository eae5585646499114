"""Passes: pure functions from a graph to facts about it (lists indexed by entry id) or a new graph.

They see graphs, ops, shapes and element types, never arrays; `reference.py` alone computes values.
`Executor.bind` calls them in order.

    infer.py                   shapes and types, in both directions along edges
    gradient.py                reverse-mode differentiation: gradient entries of a graph
    recompute.py               mirroring: cheap values are computed again instead of stored
    training.py                the graph that training runs: outputs and gradients
    rewrite.py                 `rewrite`: a new graph by rules that look at one node
    switches.py                passes that can be switched off by name; observers of passes
    optimize/                  passes that make a graph faster, and their pipelines
    place.py                   the device of every node, and copies between devices
    memory/                    the memory plan, and its verifier
    subgraph_parts.py          the part of a body that a node runs, and the specs of its entries
    infer_storage.py           storage types of entries
    insert_casts.py            conversions to dense arrays, as nodes
    dense_regions.py           dense parts of a network with sparse arrays, as one node each
    entry_names.py             names of entries, and of nodes that passes insert for users
    mixed_precision.py         casts to float16 and back, by MXNet's lists of operators
    quantize_graph.py          layers as their twins on 8-bit integers, and calibration
    remarks.py                 what passes did and refused, and why, as data
    provenance.py              nodes of a symbol that a node of a bound graph computes
    reference.py               graphs evaluated by the definitions of their ops, in float64
    translation_validation.py  NBMOD_CHECK=3: every graph that a pass changed, checked by evaluation

Begin with `infer.py`.  Imports `base`, `context`, `core`, `graph` and `ops`.
"""

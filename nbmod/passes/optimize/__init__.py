"""Optimization passes: each one makes a graph faster and can be switched off by name.

A pass is a function `(before, first, specs) -> Rewritten`: `before` is what earlier passes made of
the graph `first`, and `specs` are shapes and types of the entries of `first`; new entries have no
known spec until `passes.infer` infers it.  `pipelines` says which passes run, and in which order.
"""

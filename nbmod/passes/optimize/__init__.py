"""Optimization passes: each one makes a graph faster and can be switched off by name.

A pass is a function of what earlier passes made of a graph, a `Rewritten`, that returns another.
New entries have no known spec until `passes.infer` infers it.  `pipelines` says which passes run,
and in which order.
"""

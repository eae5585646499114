"""Passes: pure functions from a graph to facts about it (lists indexed by entry id) or a new graph.

They see graphs, ops, shapes and element types, never arrays.  `Executor.bind` calls them in order.
"""

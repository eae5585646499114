"""The side of the worker processes: one module for each framework, `entry` is what is called.

A network is the JSON of a symbol, so it is written down once.  MXNet and nbmod bind it; PyTorch and
onnxruntime have a table of how they say each operator.  A module has

    version()                                  of the framework, as text
    build(network)                             a `Built`: a step to run, and what it gives

Parameters are the same numbers everywhere (`network.numbers`), so outputs can be compared.
"""

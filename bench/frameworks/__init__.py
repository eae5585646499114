"""The code of worker processes: one module per framework, called through `entry`.

A network is the JSON of a symbol, so it is defined once.  MXNet and nbmod bind it; PyTorch and
onnxruntime have a table that translates each operator.  A module has

    version()                                  of the framework, as text
    build(network)                             a `Built`: a step to run, and its result

Parameters have the same values everywhere (`network.numbers`), so outputs can be compared.
"""

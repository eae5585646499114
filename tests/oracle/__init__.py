"""Real MXNet 1.9.1 as the reference for nbmod.

MXNet needs numpy 1.23 and Python 3.10 or 3.11, so it has a virtual environment
(`bench.mxnet_environment`) and a process of its own. The tests communicate with that process
through `client.Oracle`, over two pipes and without pickle (`nbmod.bench.foreign`). It offers the
functions of `mx_ops.py` (ops and graphs) and of the other `mx_*.py` files: a test that needs more
of MXNet adds a function there and calls it by name.
"""

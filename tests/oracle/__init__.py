"""Real MXNet 1.9.1 as the judge of nbmod.

MXNet needs numpy 1.23 and Python 3.10 or 3.11, so it lives in a virtual environment of its own
(`setup.py` makes it) and in a process of its own (`worker.py`). The tests talk to that process
through `client.Oracle`, over two pipes and without pickle (`wire.py`). What the worker can do is
the functions of `mx_ops.py` (ops and graphs) and of the `mx_*.py` files beside it: a test that
needs MXNet to do something else adds a function there and calls it by name.
"""

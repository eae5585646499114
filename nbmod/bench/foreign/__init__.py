"""Functions of another Python environment, called and timed in a process of it.

    foreign_worker.py  what that process runs; imports nothing of nbmod
    worker_process.py  starts it, and asks it

Begin with `foreign_worker.py`.  Imports `base`, `bench`, `core` and `ops.jit`.
"""

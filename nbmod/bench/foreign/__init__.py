"""Functions of another Python environment, called and timed in a process of it.

    worker.py     what that process runs; imports nothing of nbmod
    process.py    starts it, and asks it
"""

# Written by `python docs/generate_stubs.py`.
from nbmod.executor import Executor as Executor

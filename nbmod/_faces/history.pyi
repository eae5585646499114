# Written by `python docs/generate_stubs.py`.
from nbmod.callback.history import History as History
from nbmod.callback.history import plot as plot

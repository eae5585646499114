# Written by `python docs/generate_stubs.py`.
from nbmod.history import History as History
from nbmod.history import plot as plot

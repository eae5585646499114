# Written by `python docs/generate_stubs.py`.
from nbmod.notebook import callback as callback

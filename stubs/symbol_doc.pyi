# Written by `python docs/generate_stubs.py`.
from nbmod.compat.symbol_doc import *

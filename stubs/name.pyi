# Written by `python docs/generate_stubs.py`.
from nbmod.symbol.name import *

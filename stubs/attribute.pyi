# Written by `python docs/generate_stubs.py`.
from nbmod.symbol.attribute import *

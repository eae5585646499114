# Written by `python docs/generate_stubs.py`.
from nbmod.compat.engine import *

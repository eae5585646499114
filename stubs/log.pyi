# Written by `python docs/generate_stubs.py`.
from nbmod.core.log import *

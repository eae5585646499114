# Written by `python docs/generate_stubs.py`.
from nbmod.callback.monitor import *

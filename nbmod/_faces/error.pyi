# Written by `python docs/generate_stubs.py`.
from nbmod.compat.error import MXNetError as MXNetError
from nbmod.compat.error import register as register

# Written by `python docs/generate_stubs.py`.
from nbmod.error import MXNetError as MXNetError
from nbmod.error import register as register

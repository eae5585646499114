# Written by `python docs/generate_stubs.py`.
from nbmod.compat.engine import bulk as bulk
from nbmod.compat.engine import set_bulk_size as set_bulk_size

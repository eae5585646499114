# Written by `python docs/generate_stubs.py`.
from nbmod.engine import bulk as bulk
from nbmod.engine import set_bulk_size as set_bulk_size

# Written by `python docs/generate_stubs.py`.
from nbmod.monitor import Monitor as Monitor

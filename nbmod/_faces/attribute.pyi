# Written by `python docs/generate_stubs.py`.
from nbmod.attribute import AttrScope as AttrScope

# Written by `python docs/generate_stubs.py`.
from nbmod.symbol.name import NameManager as NameManager
from nbmod.symbol.name import Prefix as Prefix

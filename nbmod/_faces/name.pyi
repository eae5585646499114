# Written by `python docs/generate_stubs.py`.
from nbmod.name import NameManager as NameManager
from nbmod.name import Prefix as Prefix

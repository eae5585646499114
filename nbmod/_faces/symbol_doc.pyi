# Written by `python docs/generate_stubs.py`.
from nbmod.symbol_doc import SymbolDoc as SymbolDoc

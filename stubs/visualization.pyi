# Written by `python docs/generate_stubs.py`.
from nbmod.diagram.visualization import *

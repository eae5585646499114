# Written by `python docs/generate_stubs.py`.
from nbmod.compat.mxnet_predict import *

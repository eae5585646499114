# Written by `python docs/generate_stubs.py`.
from nbmod.contrib import amp as amp
from nbmod.contrib import autograd as autograd
from nbmod.contrib import io as io
from nbmod.contrib import nd as nd
from nbmod.contrib import ndarray as ndarray
from nbmod.contrib import onnx as onnx
from nbmod.contrib import quant as quant
from nbmod.contrib import quantization as quantization
from nbmod.contrib import svrg_optimization as svrg_optimization
from nbmod.contrib import sym as sym
from nbmod.contrib import symbol as symbol
from nbmod.contrib import tensorboard as tensorboard
from nbmod.contrib import text as text

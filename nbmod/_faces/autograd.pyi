# Written by `python docs/generate_stubs.py`.
from nbmod.autograd import Function as Function
from nbmod.autograd import NDArray as NDArray
from nbmod.autograd import backward as backward
from nbmod.autograd import get_symbol as get_symbol
from nbmod.autograd import grad as grad
from nbmod.autograd import is_recording as is_recording
from nbmod.autograd import is_training as is_training
from nbmod.autograd import mark_variables as mark_variables
from nbmod.autograd import pause as pause
from nbmod.autograd import predict_mode as predict_mode
from nbmod.autograd import record as record
from nbmod.autograd import set_recording as set_recording
from nbmod.autograd import set_training as set_training
from nbmod.autograd import train_mode as train_mode

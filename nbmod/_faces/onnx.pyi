# Written by `python docs/generate_stubs.py`.
from nbmod.onnx import export_model as export_model
from nbmod.onnx import get_model_metadata as get_model_metadata
from nbmod.onnx import get_operator_support as get_operator_support
from nbmod.onnx import import_model as import_model
from nbmod.onnx import import_to_gluon as import_to_gluon

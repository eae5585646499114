# Written by `python docs/generate_stubs.py`.
from nbmod.safetensors import SafetensorsError as SafetensorsError
from nbmod.safetensors import load as load
from nbmod.safetensors import load_model as load_model
from nbmod.safetensors import load_states as load_states
from nbmod.safetensors import read_tensors as read_tensors
from nbmod.safetensors import save as save
from nbmod.safetensors import save_model as save_model
from nbmod.safetensors import save_states as save_states
from nbmod.safetensors import write_tensors as write_tensors

# Written by `python docs/generate_stubs.py`.
from nbmod.convert import OnnxOptions as OnnxOptions
from nbmod.convert import StoredModel as StoredModel
from nbmod.convert import UnmatchedLayers as UnmatchedLayers
from nbmod.convert import from_torch as from_torch
from nbmod.convert import read_model as read_model
from nbmod.convert import write_model as write_model

# Written by `python docs/generate_stubs.py`.
from nbmod.ndarray_doc import NDArrayDoc as NDArrayDoc

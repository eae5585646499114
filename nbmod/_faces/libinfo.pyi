# Written by `python docs/generate_stubs.py`.
from nbmod.compat.libinfo import find_conf_path as find_conf_path
from nbmod.compat.libinfo import find_include_path as find_include_path
from nbmod.compat.libinfo import find_lib_path as find_lib_path

# Written by `python docs/generate_stubs.py`.
from nbmod.core.registry import construct as construct
from nbmod.core.registry import get_alias_func as get_alias_func
from nbmod.core.registry import get_create_func as get_create_func
from nbmod.core.registry import get_register_func as get_register_func
from nbmod.core.registry import get_registry as get_registry
from nbmod.core.registry import is_abandoned as is_abandoned

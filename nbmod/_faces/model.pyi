# Written by `python docs/generate_stubs.py`.
from nbmod.compat.model import BatchEndParam as BatchEndParam
from nbmod.compat.model import FeedForward as FeedForward
from nbmod.compat.model import _create_kvstore as _create_kvstore
from nbmod.compat.model import _initialize_kvstore as _initialize_kvstore
from nbmod.compat.model import _update_params as _update_params
from nbmod.compat.model import _update_params_on_kvstore as _update_params_on_kvstore
from nbmod.compat.model import latest_epoch as latest_epoch
from nbmod.compat.model import load_checkpoint as load_checkpoint
from nbmod.compat.model import load_params as load_params
from nbmod.compat.model import save_checkpoint as save_checkpoint
from nbmod.compat.model import verify_checkpoint as verify_checkpoint

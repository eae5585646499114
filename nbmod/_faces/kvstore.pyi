# Written by `python docs/generate_stubs.py`.
from nbmod.kvstore import KVStore as KVStore
from nbmod.kvstore import KVStoreBase as KVStoreBase
from nbmod.kvstore import create as create
from nbmod.kvstore import takes_lists as takes_lists

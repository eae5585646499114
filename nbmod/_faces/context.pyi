# Written by `python docs/generate_stubs.py`.
from nbmod.context import Context as Context
from nbmod.context import cpu as cpu
from nbmod.context import cpu_pinned as cpu_pinned
from nbmod.context import cpu_shared as cpu_shared
from nbmod.context import current_context as current_context
from nbmod.context import gpu as gpu
from nbmod.context import gpu_memory_info as gpu_memory_info
from nbmod.context import num_gpus as num_gpus

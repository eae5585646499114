# Written by `python docs/generate_stubs.py`.
from nbmod.compat.executor_manager import DataParallelExecutorGroup as DataParallelExecutorGroup
from nbmod.compat.executor_manager import DataParallelExecutorManager as DataParallelExecutorManager
from nbmod.compat.executor_manager import _check_arguments as _check_arguments
from nbmod.compat.executor_manager import _load_data as _load_data
from nbmod.compat.executor_manager import _load_label as _load_label
from nbmod.compat.executor_manager import _split_input_slice as _split_input_slice

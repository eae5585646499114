# Written by `python docs/generate_stubs.py`.
from nbmod.profiler import Counter as Counter
from nbmod.profiler import Domain as Domain
from nbmod.profiler import Event as Event
from nbmod.profiler import Frame as Frame
from nbmod.profiler import Marker as Marker
from nbmod.profiler import Task as Task
from nbmod.profiler import dump as dump
from nbmod.profiler import dump_profile as dump_profile
from nbmod.profiler import dumps as dumps
from nbmod.profiler import pause as pause
from nbmod.profiler import profiler_set_config as profiler_set_config
from nbmod.profiler import profiler_set_state as profiler_set_state
from nbmod.profiler import resume as resume
from nbmod.profiler import scope as scope
from nbmod.profiler import set_config as set_config
from nbmod.profiler import set_kvstore_handle as set_kvstore_handle
from nbmod.profiler import set_state as set_state

"""Profiler: a trace of every step for chrome://tracing, and a table of totals.

    mx.profiler.set_config(filename="profile.json", profile_all=True)
    mx.profiler.set_state("run")
    ...
    mx.profiler.set_state("stop")
    print(mx.profiler.dumps())      # the table
    mx.profiler.dump()              # the file

A stopped profiler has no overhead: functions are replaced by measuring wrappers when it starts and
restored when it stops, and executors look up a watcher once for each run, not for each step.  On a
GPU a step is measured until the device has finished it, so steps do not overlap then.

    recorder.py  the measurements: a list of events, and totals by category and name
    watching.py  wrappers of functions and executors while the profiler runs
    session.py   `set_config`, `set_state`, `dump`, `dumps` and their like
    objects.py   measurements of users: `Domain`, `Task`, `Counter` and others

Begin with `recorder.py`.  Imports `base`, `context`, `core.atomic`, `core.config`,
`execution.cost_model`, `execution.steps`, `executor`, `ndarray.array_creation`,
`ndarray.invocation` and `ops`.
"""

from . import objects, session
from .objects import *  # noqa: F403
from .session import *  # noqa: F403

__all__ = session.__all__ + objects.__all__
__dir__ = __all__.copy

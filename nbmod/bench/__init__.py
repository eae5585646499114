"""The kernel bench: times that can be believed.

    from nbmod import bench
    print(bench.compare(new, old, x, y))
    print(bench.measure(bench.operator("dot", (1024, 1024), (1024, 1024))))

    statistics.py      the interval of a ratio, and the verdict it allows
    rounds.py          blocks of all arms in random order, until there is an answer
    conditions.py      load, steal and frequency of the machine
    subjects.py        functions with sets of inputs, warm and cold
    roofs.py           peaks of arithmetic and of every level of memory, measured and kept
    report.py          a table of 80 columns
    charts.py          bars with intervals, as SVG
    roofline_chart.py  kernels under the roofs of the host, as SVG
    measure.py         `measure` and `compare`
    side_by_side.py    any number of arms beside each other
    step_rounds.py     the steps of a network, run by run
    thread_sweep.py    the time of a function by one thread, two, and so on
    remote.py          arms in other processes, such as another commit of a project
    foreign/           arms in other Python environments, such as another framework
    machine_code.py    width of vectors, FMAs, spills and calls in the hot loop of a kernel
    change_points.py   results over time: steps in them, and two files compared
    networks.py        operators, symbols and modules as subjects that know their costs
    step_facts.py      times of the steps of an executor, and as facts of its plan

A figure comes with the noise it may have: two arms of equal functions are timed in every round.
Begin with `rounds.py`.  Imports `base`, `context`, `core`, `diagram.picture`, `execution`,
`executor`, `explain.schema`, `io`, `launcher.placement`, `module`, `ndarray`, `ops` and `symbol`.
"""

from .foreign.worker_process import other_python
from .machine_code import MachineCode, machine_code
from .measure import Result, compare, measure
from .networks import Work, module_step, operator, symbol
from .roofs import Roofs, measured_roofs, share_of_roof
from .rounds import Pace
from .side_by_side import ArmTime, side_by_side
from .statistics import Verdict
from .step_facts import step_facts
from .thread_sweep import ThreadCount, sweep_threads

__all__ = ["ArmTime", "MachineCode", "Pace", "Result", "Roofs", "ThreadCount", "Verdict", "Work",
           "compare", "machine_code", "measure", "measured_roofs", "module_step", "operator",
           "other_python", "share_of_roof", "side_by_side", "step_facts", "sweep_threads", "symbol"]

"""The profiler's interface: configuration, start and stop, the trace file and the table."""

from __future__ import annotations

import atexit
import json
from typing import Any

from ..base import ArgumentError, CheckError, MXNetError, did_you_mean
from ..core.config import CONFIG
from . import watching
from .recorder import RECORDER, Total

__all__ = ["dump", "dump_profile", "dumps", "pause", "profiler_set_config", "profiler_set_state",
           "resume", "set_config", "set_kvstore_handle", "set_state"]

_config: dict[str, Any] = {
    "profile_all": False, "profile_symbolic": True, "profile_imperative": True,
    "profile_memory": True, "profile_api": True, "filename": "profile.json",
    "continuous_dump": True, "dump_period": 1.0, "aggregate_stats": False,
    "profile_process": "worker"}
"""The options of `set_config` with their defaults."""


def set_config(**kwargs: Any) -> None:
    """Configure what the profiler measures; takes effect when it is started.

    Parameters
    ----------
    **kwargs
        ``filename`` (str, default 'profile.json'): the file that `dump` writes.
        ``profile_symbolic`` (bool, default True): steps of executors.
        ``profile_imperative`` (bool, default True): operations on NDArrays.
        ``profile_memory`` (bool, default True): memory of executors for intermediate results.
        ``profile_api`` (bool, default True): methods of modules, key-value stores and iterators.
        ``profile_all`` (bool, default False): all of these.
        ``aggregate_stats``, ``continuous_dump``, ``dump_period`` and ``profile_process`` are
        accepted for compatibility and have no effect: totals are always recorded, and the file is
        written by `dump`.

    Raises
    ------
    MXNetError
        If a name is unknown or a value is of the wrong type.
    """
    for name, value in kwargs.items():
        if name not in _config:
            raise MXNetError(f"profiler.set_config: unknown argument {name!r}, expected one of "
                             f"{sorted(_config)}{did_you_mean(name, _config)}")
        _config[name] = _read(name, value)


def _read(name: str, value: Any) -> Any:
    """A value given directly or as text."""
    kind = type(_config[name])
    known = {"true": True, "1": True, "false": False, "0": False}
    try:
        return known[str(value).lower()] if kind is bool else kind(value)
    except (KeyError, ValueError, TypeError):
        raise MXNetError(f"profiler.set_config: {name} is {value!r}, expected "
                         f"{'True or False' if kind is bool else f'a {kind.__name__}'}") from None


def _require_worker(profile_process: str) -> None:
    if profile_process != "worker":
        raise MXNetError(f"profiler: profile_process is {profile_process!r}, expected 'worker': "
                         "there are no server processes")


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Start or stop the profiler.

    Parameters
    ----------
    state : {'run', 'stop'}, default 'stop'
        Whether to start or to stop.
    profile_process : {'worker'}, default 'worker'
        Accepted for compatibility: there are no server processes.

    Examples
    --------
    >>> mx.profiler.set_state("run")
    >>> total = mx.nd.ones((2,)) + mx.nd.ones((2,))
    >>> mx.profiler.set_state("stop")
    >>> "operator" in mx.profiler.dumps(reset=True)
    True
    """
    _require_worker(profile_process)
    if state not in ("run", "stop"):
        raise ArgumentError(f"profiler.set_state: state is {state!r}, expected 'run' or 'stop'")
    running = state == "run"
    if running == RECORDER.running:
        return
    if running:
        watching.install(_config)
    else:
        watching.uninstall()
    RECORDER.running = running


def pause(profile_process: str = "worker") -> None:
    """Stop measuring until `resume`.

    Parameters
    ----------
    profile_process : {'worker'}, default 'worker'
        Accepted for compatibility: there are no server processes.
    """
    set_state("stop", profile_process)


def resume(profile_process: str = "worker") -> None:
    """Continue measuring.

    Parameters
    ----------
    profile_process : {'worker'}, default 'worker'
        Accepted for compatibility: there are no server processes.
    """
    set_state("run", profile_process)


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the trace to the configured file, in Chrome's trace format.

    Parameters
    ----------
    finished : bool, default True
        Also stop the profiler and discard the events.
    profile_process : {'worker'}, default 'worker'
        Accepted for compatibility: there are no server processes.
    """
    _require_worker(profile_process)
    RECORDER.write(_config["filename"])
    if finished:
        set_state("stop")
        RECORDER.clear()


_SORT_BY = {"total": "total", "avg": "mean", "min": "min", "max": "max", "count": "count"}
"""Orders of `dumps` -> attributes of `Total`."""


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total",
          ascending: bool = False) -> str:
    """Summarize the measurements by category and name, in milliseconds and kB.

    Parameters
    ----------
    reset : bool, default False
        Set the totals to zero afterwards.
    format : {'table', 'json'}, default 'table'
        Format of the text.
    sort_by : {'total', 'avg', 'min', 'max', 'count'}, default 'total'
        Order of names within a category.
    ascending : bool, default False
        Whether the smallest comes first.

    Raises
    ------
    ArgumentError
        If an argument is none of these. It is a ValueError, too.
    """
    if format not in ("table", "json"):
        raise CheckError(f"profiler.dumps: format is {format!r}, expected 'table' or 'json'")
    if sort_by not in _SORT_BY:
        raise CheckError(f"profiler.dumps: sort_by is {sort_by!r}, expected one of "
                         f"{list(_SORT_BY)}")
    if ascending not in (True, False):
        raise CheckError(f"profiler.dumps: ascending is {ascending!r}, expected True or False")
    times, memory = (_grouped(table, sort_by, ascending)
                     for table in (RECORDER.times, RECORDER.memory))
    text = _table(times, memory) if format == "table" else _json(times, memory)
    if reset:
        RECORDER.clear_totals()
    return text


Groups = dict[str, dict[str, Total]]


def _grouped(totals: dict[tuple[str, str], Total], sort_by: str, ascending: bool) -> Groups:
    """Category -> name -> total, categories by name and names in the requested order."""
    order = sorted(totals.items(), key=lambda item: getattr(item[1], _SORT_BY[sort_by]),
                   reverse=not ascending)
    return {category: {name: total for (cat, name), total in order if cat == category}
            for category in sorted({category for category, _ in totals})}


def _table(times: Groups, memory: Groups) -> str:
    lines = ["", "Profile Statistics:", "\tNote the difference in units for different entries."]
    for category in sorted({*times, *memory}):
        lines += [category, "================="]
        if category in memory:
            lines += _rows(memory[category], ("Min Use  (kB)", "Max Use  (kB)", "Avg Use  (kB)"),
                           lambda t: (t.min, t.max, t.mean))
        else:
            lines += _rows(times[category], ("Time (ms)", "Min Time (ms)", "Max Time (ms)",
                                             "Avg Time (ms)"),
                           lambda t: (t.total, t.min, t.max, t.mean))
        lines.append("")
    return "\n".join([*lines, ""])


def _rows(totals: dict[str, Total], titles: tuple[str, ...], values: Any) -> list[str]:
    """A header of underlined titles, and a line for each name."""
    def line(name: str, cells: list[str]) -> str:
        return f"{name:<25}" + "".join(f"{cell:>{17 if i else 16}}" for i, cell in enumerate(cells))

    heads = ["Total Count", *titles]
    return [line("Name", heads), line("----", ["-" * len(head) for head in heads]),
            *(line(name, [str(total.count), *(f"{value / 1000:.4f}" for value in values(total))])
              for name, total in totals.items())]


def _json(times: Groups, memory: Groups) -> str:
    def numbers(total: Total, keys: tuple[str, ...]) -> dict[str, float]:
        statistics = {"Count": total.count, "Total": total.total / 1000, "Min": total.min / 1000,
                      "Max": total.max / 1000, "Avg": total.mean / 1000}
        return {key: statistics[key] for key in keys}

    def listed(groups: Groups, *keys: str) -> dict[str, Any]:
        return {category: {name: numbers(total, keys) for name, total in names.items()}
                for category, names in groups.items()}

    return json.dumps({"Time": listed(times, "Count", "Total", "Min", "Max", "Avg"),
                       "Memory": listed(memory, "Count", "Min", "Max", "Avg"),
                       "Unit": {"Time": "ms", "Memory": "kB"}}, indent=4)


# -- deprecated names ---------------------------------------------------------------------------


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Enable ``profile_<mode>``; an older form of `set_config`.

    Parameters
    ----------
    mode : {'symbolic', 'imperative', 'memory', 'api', 'all'}, default 'symbolic'
        What to measure, in addition to what is enabled.
    filename : str, default 'profile.json'
        The file that `dump` writes.
    """
    modes = [name.removeprefix("profile_") for name, value in _config.items()
             if name.startswith("profile_") and isinstance(value, bool)]
    if mode not in modes:
        raise ArgumentError(f"profiler_set_config: mode is {mode!r}, expected one of {modes}")
    set_config(**{f"profile_{mode}": True}, filename=filename)


def profiler_set_state(state: str = "stop") -> None:
    """Start or stop the profiler; an older form of `set_state`.

    Parameters
    ----------
    state : {'run', 'stop'}, default 'stop'
        Whether to start or to stop.
    """
    set_state(state)


def dump_profile() -> None:
    """Stop the profiler and write the trace; an older form of `dump`."""
    dump(True)


def set_kvstore_handle(handle: Any) -> None:
    """Do nothing, as there are no server processes to profile.

    Parameters
    ----------
    handle : object
        Accepted for compatibility; has no effect.
    """


if CONFIG.profile:  # the first import, which that variable caused
    set_state("run")
    atexit.register(dump)

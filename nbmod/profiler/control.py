"""What users call: configuration, on and off, the file and the table."""

from __future__ import annotations

import atexit
import json
from typing import Any

from ..base import CONFIG, ArgumentError, MXNetError, did_you_mean
from . import watching
from .recorder import RECORDER, Total

__all__ = ["dump", "dump_profile", "dumps", "pause", "profiler_set_config", "profiler_set_state",
           "resume", "set_config", "set_kvstore_handle", "set_state"]

_config: dict[str, Any] = {
    "profile_all": False, "profile_symbolic": True, "profile_imperative": True,
    "profile_memory": True, "profile_api": True, "filename": "profile.json",
    "continuous_dump": True, "dump_period": 1.0, "aggregate_stats": False,
    "profile_process": "worker"}
"""What `set_config` takes, with what holds until it is called."""


def set_config(**kwargs: Any) -> None:
    """Say what to measure; takes effect when the profiler is started.

    `filename` ("profile.json") is what `dump` writes.  `profile_symbolic` (steps of executors),
    `profile_imperative` (eager operations), `profile_memory` (sizes of arenas) and `profile_api`
    (modules, stores, iterators) are on by default; `profile_all` is all of them.
    `aggregate_stats`, `continuous_dump` and `dump_period` are accepted: totals are always kept,
    and the file is written by `dump`.  An unknown name is an MXNetError.
    """
    for name, value in kwargs.items():
        if name not in _config:
            raise MXNetError(f"profiler.set_config: unknown argument {name!r}, expected one of "
                             f"{sorted(_config)}{did_you_mean(name, _config)}")
        _config[name] = _read(name, value)


def _read(name: str, value: Any) -> Any:
    """A value given as itself or as text."""
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
    """Start ("run") or stop ("stop") measuring."""
    _require_worker(profile_process)
    if state not in ("run", "stop"):
        raise ArgumentError(f"profiler.set_state: state is {state!r}, expected 'run' or 'stop'")
    running = state == "run"
    if running == RECORDER.running:
        return
    if running:
        watching.let_in(_config)
    else:
        watching.take_out()
    RECORDER.running = running


def pause(profile_process: str = "worker") -> None:
    """Stop measuring until `resume`."""
    set_state("stop", profile_process)


def resume(profile_process: str = "worker") -> None:
    """Go on measuring."""
    set_state("run", profile_process)


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the trace to the configured file; `finished` also stops and drops what was traced."""
    _require_worker(profile_process)
    RECORDER.write(_config["filename"])
    if finished:
        set_state("stop")
        RECORDER.clear()


_KEYS = {"total": lambda t: t.total, "avg": lambda t: t.mean, "min": lambda t: t.least,
         "max": lambda t: t.most, "count": lambda t: t.count}


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total",
          ascending: bool = False) -> str:
    """Totals by category and name, as a table (milliseconds, kB) or as JSON.

    `sort_by`: "total", "avg", "min", "max" or "count".  `reset` starts the totals afresh.
    """
    if format not in ("table", "json"):
        raise ArgumentError(f"profiler.dumps: format is {format!r}, expected 'table' or 'json'")
    if sort_by not in _KEYS:
        raise ArgumentError(f"profiler.dumps: sort_by is {sort_by!r}, expected one of "
                            f"{list(_KEYS)}")
    if ascending not in (True, False):
        raise ArgumentError(f"profiler.dumps: ascending is {ascending!r}, expected True or False")
    times, memory = (_grouped(table, sort_by, ascending)
                     for table in (RECORDER.times, RECORDER.memory))
    text = _table(times, memory) if format == "table" else _json(times, memory)
    if reset:
        RECORDER.forget()
    return text


Groups = dict[str, dict[str, Total]]


def _grouped(totals: dict[tuple[str, str], Total], sort_by: str, ascending: bool) -> Groups:
    """Category -> name -> total, categories by name and names as asked."""
    order = sorted(totals.items(), key=lambda item: _KEYS[sort_by](item[1]), reverse=not ascending)
    return {category: {name: total for (cat, name), total in order if cat == category}
            for category in sorted({category for category, _ in totals})}


def _table(times: Groups, memory: Groups) -> str:
    lines = ["", "Profile Statistics:", "\tNote the difference in units for different entries."]
    for category in sorted({*times, *memory}):
        lines += [category, "================="]
        if category in memory:
            lines += _rows(memory[category], ("Min Use  (kB)", "Max Use  (kB)", "Avg Use  (kB)"),
                           lambda t: (t.least, t.most, t.mean))
        else:
            lines += _rows(times[category], ("Time (ms)", "Min Time (ms)", "Max Time (ms)",
                                             "Avg Time (ms)"),
                           lambda t: (t.total, t.least, t.most, t.mean))
        lines.append("")
    return "\n".join([*lines, ""])


def _rows(totals: dict[str, Total], titles: tuple[str, ...], values: Any) -> list[str]:
    """A head of titles, each underlined, and a line for each name."""
    def line(name: str, cells: list[str]) -> str:
        return f"{name:<25}" + "".join(f"{cell:>{17 if i else 16}}" for i, cell in enumerate(cells))

    heads = ["Total Count", *titles]
    return [line("Name", heads), line("----", ["-" * len(head) for head in heads]),
            *(line(name, [str(total.count), *(f"{value / 1000:.4f}" for value in values(total))])
              for name, total in totals.items())]


def _json(times: Groups, memory: Groups) -> str:
    def numbers(total: Total, keys: tuple[str, ...]) -> dict[str, float]:
        found = {"Count": total.count, "Total": total.total / 1000, "Min": total.least / 1000,
                 "Max": total.most / 1000, "Avg": total.mean / 1000}
        return {key: found[key] for key in keys}

    def listed(groups: Groups, *keys: str) -> dict[str, Any]:
        return {category: {name: numbers(total, keys) for name, total in names.items()}
                for category, names in groups.items()}

    return json.dumps({"Time": listed(times, "Count", "Total", "Min", "Max", "Avg"),
                       "Memory": listed(memory, "Count", "Min", "Max", "Avg"),
                       "Unit": {"Time": "ms", "Memory": "kB"}}, indent=4)


# -- older names --------------------------------------------------------------------------------


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """`set_config` of old: `profile_<mode>` is switched on."""
    modes = [name.removeprefix("profile_") for name, value in _config.items()
             if name.startswith("profile_") and isinstance(value, bool)]
    if mode not in modes:
        raise ArgumentError(f"profiler_set_config: mode is {mode!r}, expected one of {modes}")
    set_config(**{f"profile_{mode}": True}, filename=filename)


def profiler_set_state(state: str = "stop") -> None:
    """`set_state` of old."""
    set_state(state)


def dump_profile() -> None:
    """`dump` of old."""
    dump(True)


def set_kvstore_handle(handle: Any) -> None:
    """Accepted: there are no server processes to profile."""


if CONFIG.profile:  # the first import, which that variable caused
    set_state("run")
    atexit.register(dump)

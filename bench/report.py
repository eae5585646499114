"""Results of `bench.compare`: a table, JSON, Markdown and a chart."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nbmod.bench.charts import Bar, comparison
from nbmod.bench.roofs import measured_roofs
from nbmod.ops.build.levels import chosen, features_of

from .environments import PEERS

__all__ = ["Result", "host", "introduction", "publish", "show"]


@dataclass
class Result:
    """A figure for each framework; smaller is better."""

    name: str
    unit: str
    values: dict[str, float]
    operations: float = 0.0
    nbytes: float = 0.0
    notes: dict[str, str] = field(default_factory=dict)
    noise: dict[str, float] = field(default_factory=dict)
    """The ratio less 1 that two runs of the same may show, where there were enough rounds."""

    @property
    def ratios(self) -> dict[str, float]:
        """nbmod's figure over each peer's; none where that is 0, as MXNet rounds megabytes."""
        ours = self.values.get("nbmod", float("nan"))
        return {name: ours / value for name, value in self.values.items()
                if name != "nbmod" and value}

    @property
    def share(self) -> tuple[float, str] | None:
        """nbmod's part of the measured FMA peak, or of copy bandwidth, and which of the two."""
        seconds = self.values.get("nbmod", 0) / 1e3
        if not seconds or not (self.operations or self.nbytes):
            return None
        if self.operations:
            return self.operations / seconds / measured_roofs().operations["float32"], "FMA"
        return self.nbytes / seconds / measured_roofs().nbytes["copy"], "copy"


def host(threads: int, versions: dict[str, str]) -> dict[str, Any]:
    """The conditions of the run, without the name of the machine."""
    import llvmlite.binding as llvm  # noqa: TID251  asked for the CPU's name only

    roofs = measured_roofs(threads)
    features = features_of(chosen())
    telling = ("avx2", "fma", "avx512f", "avx512bw", "avx512vnni", "avx512bf16", "amx-tile", "neon")
    return {"date": datetime.date.today().isoformat(), "versions": versions, "threads": threads,
            "machine": platform.machine(), "cpu": llvm.get_host_cpu_name(), "level": chosen(),
            "features": [name for name in telling if features.get(name)],
            "python": platform.python_version(),
            "GFLOP/s": roofs.operations["float32"] / 1e9, "GB/s": roofs.nbytes["copy"] / 1e9}


def show(results: Sequence[Result], frameworks: Sequence[str], head: bool = True) -> list[str]:
    """Lines of a table for a terminal."""
    peers = [name for name in frameworks if name != "nbmod"]
    lines = []
    if head:
        lines.append(f"{'workload':42}{'':4}{'nbmod':>10}" + "".join(
            f"{PEERS[name]:>12}{'ratio':>7}" for name in peers) + f"{'GFLOP/s':>9}{'share':>7}")
    for one in results:
        cells = "".join(
            f"{one.values[name]:12.3f}{one.ratios[name]:7.2f}" if name in one.ratios
            else f"{'-':>12}{'-':>7}" for name in peers)
        lines.append(f"{one.name:42}{one.unit:4}{one.values.get('nbmod', float('nan')):10.3f}"
                     + cells + _speed(one))
    return lines


def _speed(one: Result) -> str:
    if one.share is None:
        return ""
    share, of = one.share
    rate = f"{one.operations / one.values['nbmod'] / 1e6:9.1f}" if one.operations else f"{'':9}"
    return f"{rate}{share:7.0%} {of}"


def publish(folder: Path, suite: str, results: Sequence[Result], about: dict[str, Any]) -> None:
    """Write <suite>.json, <suite>.md and a chart into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [asdict(one) | {"ratios": one.ratios, "share": one.share} for one in results]
    (folder / f"{suite}.json").write_text(json.dumps({"about": about, "results": rows}, indent=1))
    (folder / f"{suite}.md").write_text("\n".join(_markdown(suite, results, about)) + "\n")
    (folder / f"{suite}.svg").write_text(comparison(
        suite, [(one.name, _bars(one)) for one in results if "nbmod" in one.values],
        "speed relative to nbmod (longer is faster)"), encoding="utf-8")
    print(f"{suite}: {folder}")


def introduction(command: str, about: dict[str, Any]) -> str:
    """Date, suite, environment and command."""
    level = f"NBMOD_CPU_LEVEL={about['level']} " if about["level"] else ""
    versions = ", ".join(f"{PEERS[name]} {text}" for name, text in about["versions"].items())
    return (f"{about['date']}, {versions}; {about['threads']} threads of the kind LLVM calls "
            f"{about['cpu']} ({', '.join(about['features'])}); FMA peak "
            f"{about['GFLOP/s']:.0f} GFLOP/s, copies {about['GB/s']:.1f} GB/s: "
            f"`{level}python -m {command}`; clock: {about['clock']}")


def _markdown(suite: str, results: Sequence[Result], about: dict[str, Any]) -> list[str]:
    names = list(about["versions"])
    peers = [name for name in names if name != "nbmod"]
    head = ["workload", "", "nbmod", *(cell for name in peers for cell in (PEERS[name], "ratio")),
            "GFLOP/s", "share"]
    lines = [introduction(f"bench.compare {suite}", about), "",
             "| " + " | ".join(head) + " |", "|---|---|" + "--:|" * (len(head) - 2)]
    for one in results:
        cells = [one.name, one.unit, _number(one.values.get("nbmod"))]
        for name in peers:
            cells += [_number(one.values.get(name)), _number(one.ratios.get(name), 2)]
        share = f"{one.share[0]:.0%} {one.share[1]}" if one.share else ""
        rate = f"{one.operations / one.values['nbmod'] / 1e6:.0f}" if one.operations else ""
        lines.append("| " + " | ".join([*cells, rate, share]) + " |")
    return lines


def _number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if digits == 2 or value < 1 else f"{value:.4g}"


def _bars(one: Result) -> list[Bar]:
    """Speeds relative to nbmod's: 1 is as fast, 0.5 takes twice as long; whiskers show noise."""
    speeds = {name: one.values["nbmod"] / value for name, value in one.values.items() if value}
    return [Bar(PEERS[name], speed, (speed / (1 + noise), speed * (1 + noise)) if noise else None)
            for name, speed in speeds.items() for noise in [one.noise.get(name)]]

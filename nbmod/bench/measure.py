"""`measure` and `compare`: the time of a function, beside a baseline, with the error it may have.

    from nbmod import bench

    result = bench.compare(new, old, x, y)      # both are called with x and y
    print(result)                               # new: 12.1 us, 0.87 of old [0.86, 0.88] FASTER
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base import ArgumentError, MXNetError
from ..ops.build.costs import KernelCost, measured
from ..ops.build.store import loaded_kernels
from ..ops.jit import has_compiler, num_threads, set_num_threads
from . import conditions
from .charts import of_results
from .report import duration, percent
from .roofline_chart import roofline
from .roofs import Share, measured_roofs, share_of_roof
from .rounds import Arm, Rounds, run_rounds
from .statistics import SMALLEST_EFFECT, Judgement, Verdict, is_look, judge, outlier_share
from .subjects import CallableArm, InputSets, arrays_of, copied

__all__ = ["Result", "check_outputs", "compare", "measure", "measure_arms", "name_of",
           "ulp_distance"]

MOST_ULP = 10_000
"""Sums of thousands of products in another order differ by as much; see `ulp_distance`."""


@dataclass(frozen=True)
class Result:
    """The time of a function.

    Attributes
    ----------
    name : str
        Of the function.
    seconds : float
        The median of all blocks, for one call.
    noise : float
        The noise floor: 0.01 where two runs of the same function may differ by 1%.
    compile_seconds : float
        Processor seconds of numba for the code of the first call: what it compiled then, or, where
        the code came from nbmod's cache, when that was compiled.  numba's own cache does not tell.
    load_seconds : float
        Seconds in which the code comes from nbmod's cache; 0 for other code.
    first_seconds : float
        The rest of the first call: imports, code loaded from a cache, memory allocated.
    baseline : str
        The name of the baseline; empty without one.
    ratio : float or None
        Time over that of the baseline: the median of the ratios of all rounds.
    interval : tuple of float or None
        The bounds of the true ratio, which hold with a probability of 99%, however often the
        rounds were judged before.
    verdict : Verdict or None
        FASTER, SLOWER, SAME or UNDECIDED, with a baseline.
    more_rounds : int
        About how many more rounds an answer takes where there is none.
    outliers : float
        The share of blocks that took 1.5 medians and more.
    rounds : Rounds
        All times, and the order in which they were taken.
    operations, nbytes : float
        Multiplications plus additions, and bytes read plus written, of one call; 0 where they are
        not known.
    share : Share or None
        The part of the roof that limits it, where its operations or bytes are known.
    conditions : Conditions
        The load of the machine, and what to be warned of.
    """

    name: str
    seconds: float
    noise: float
    compile_seconds: float
    load_seconds: float
    first_seconds: float
    baseline: str
    ratio: float | None
    interval: tuple[float, float] | None
    verdict: Verdict | None
    more_rounds: int
    outliers: float
    operations: float
    nbytes: float
    share: Share | None
    rounds: Rounds = field(repr=False)
    conditions: conditions.Conditions = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file: all times and their order included."""
        rounds = self.rounds
        return {"name": self.name, "seconds": self.seconds, "noise": self.noise,
                "compile_seconds": self.compile_seconds, "load_seconds": self.load_seconds,
                "first_seconds": self.first_seconds,
                "baseline": self.baseline, "ratio": self.ratio, "interval": self.interval,
                "verdict": None if self.verdict is None else str(self.verdict),
                "operations": self.operations, "nbytes": self.nbytes,
                "share": None if self.share is None else asdict(self.share),
                "more_rounds": self.more_rounds, "outliers": self.outliers,
                "arms": rounds.names, "calls": rounds.calls, "rounds": rounds.seconds.tolist(),
                "order": rounds.order.tolist(), "conditions": self.conditions.as_json()}

    def svg(self) -> str:
        """A chart of the function beside its baseline, or under the roofs of the host without."""
        rows = [self.as_json()]
        return roofline(rows, measured_roofs()) if self.ratio is None else of_results(rows)

    def __str__(self) -> str:
        text = f"{self.name}: {duration(self.seconds)}"
        if self.share is not None:
            text += f", {self.share.value:.0%} of the {self.share.roof}"
            if not self.share.is_steady:
                text += f" (unsteady, by {self.share.spread:.0%})"
        if self.ratio is None or self.interval is None:
            return f"{text} (noise {percent(self.noise, 1)})"
        low, high = self.interval
        text += f", {self.ratio:.3f} of {self.baseline} [{low:.3f}, {high:.3f}] {self.verdict}"
        more = f", about {self.more_rounds:,} more rounds" if self.more_rounds else ""
        return f"{text} (noise {percent(self.noise, 1)}{more})"


class FirstCall(NamedTuple):
    """Seconds of a first call: of compilations, in which the code is loaded, and of the rest."""

    compiling: float
    loading: float
    others: float


def compare(function: Callable[..., object], baseline: Callable[..., object], *args: Any,
            seconds: float = 2.0, **options: Any) -> Result:
    """Time a function beside its baseline: `measure` with its second argument as `baseline`."""
    return measure(function, *args, baseline=baseline, seconds=seconds, **options)


def measure(function: Callable[..., object], *args: Any,
            baseline: Callable[..., object] | Arm | None = None,
            reference: Callable[..., object] | None = None,
            operations: float | None = None, nbytes: float | None = None, seconds: float = 2.0,
            threads: int | None = None, cold: bool = False, vary: bool = True,
            smallest: float = SMALLEST_EFFECT, name: str = "", seed: int = 0) -> Result:
    """Time a function.

    Parameters
    ----------
    function : callable
        Called as ``function(*args)``; its work must be done when it returns.
    *args
        Arrays are copied, so that rounds have inputs of their own (see `subjects`).  A function may
        write to them; they have their first values again at the start of each warm block.
    baseline : callable or Arm, optional
        Called with the same inputs, in blocks that alternate with those of `function`; an arm has
        inputs of its own, and may be in another process (`remote`).
    reference : callable, optional
        Computes what `function` must return, or write into `args` where one of the two returns
        None; compared on inputs that `function` was not called with before.
    operations, nbytes : float, optional
        Multiplications plus additions, and bytes read plus written, of one call: for `share`.
        Default: the attributes of these names, which the subjects of `networks` have.
    seconds : float
        For the timed rounds.  With a baseline, they end earlier at the first clear verdict.
    threads : int, optional
        Threads of parallel kernels; default: as set by `nbmod.set_num_threads`.
    cold : bool
        Whether the inputs come from memory instead of a cache.
    vary : bool
        Whether values differ between sets of inputs; False where an order of values matters.
    smallest : float
        The smallest effect of interest: with 0.02, ratios between 0.98 and 1.02 are the SAME.
    name : str
        Shown in tables; default: the function's.
    seed : int
        Of the order in which the blocks of a round run.

    Returns
    -------
    Result

    Raises
    ------
    MXNetError
        If something was compiled in the timed rounds, the outputs differ from those of
        `reference`, or the function is faster than the machine can be.

    Examples
    --------
    >>> import numpy as np
    >>> from nbmod import bench
    >>> x = np.ones(1000, np.float32)
    >>> result = bench.measure(np.add, x, x, seconds=0.05)
    >>> result.seconds < 1
    True
    """
    inputs = InputSets(args, cold, vary)
    arm = CallableArm(name or name_of(function), function, inputs)
    with _threads(threads):
        first = _first_call(arm)
        if reference is not None:
            check_outputs(arm.name, function, reference, args)
        other = baseline
        if callable(other):
            other = CallableArm(name_of(other), other, inputs)
            _first_call(other)
        result = replace(measure_arms(arm, other, seconds, smallest, seed, first),
                         operations=_known(operations, function, "operations"),
                         nbytes=_known(nbytes, function, "nbytes"))
        return replace(result, share=_share(result, args, cold))


def measure_arms(arm: Arm, baseline: Arm | None, seconds: float,
                 smallest: float = SMALLEST_EFFECT, seed: int = 0,
                 first: FirstCall | None = None) -> Result:
    """Time an arm beside another, wherever they run; `measure` explains the parameters."""
    arms = [arm] if baseline is None else [arm, baseline]
    first = first or FirstCall(0.0, 0.0, 0.0)

    def judged(rounds: Rounds) -> Judgement:
        return judge(rounds.ratios, rounds.null_ratios, smallest)

    def is_done(rounds: Rounds) -> bool:
        return (baseline is not None and is_look(len(rounds))
                and judged(rounds).verdict is not Verdict.UNDECIDED)

    with conditions.observed() as observed, none_compiled(arm.name):
        rounds = run_rounds(arms, seconds, is_done, seed)
    judgement = judged(rounds)
    own = rounds.seconds[:, ::len(arms)].ravel()
    ratio = judgement.ratio
    compared: dict[str, Any] = dict(baseline="", ratio=None, interval=None, verdict=None,
                                    more_rounds=0)
    if baseline is not None:
        compared = dict(baseline=baseline.name, ratio=ratio.median, verdict=judgement.verdict,
                        interval=(ratio.low, ratio.high), more_rounds=judgement.more_rounds)
    return Result(name=arm.name, seconds=float(np.median(own)), noise=judgement.noise,
                  compile_seconds=first.compiling, load_seconds=first.loading,
                  first_seconds=max(0.0, first.others - float(np.median(own))),
                  outliers=outlier_share(own), operations=0.0, nbytes=0.0, share=None,
                  rounds=rounds, conditions=observed, **compared)


def _known(count: float | None, function: object, name: str) -> float:
    """A count that the caller gave, or an attribute of the function."""
    return float(getattr(function, name, 0.0) if count is None else count)


def _share(result: Result, args: tuple[Any, ...], cold: bool) -> Share | None:
    """The share of the roof, or an error where the function exceeds it."""
    operations, nbytes = result.operations, result.nbytes
    if not operations and not nbytes:
        return None
    dtype = next((str(array.dtype) for array in arrays_of(args)
                  if str(array.dtype) in ("float32", "float64", "int8")), "float32")
    share = share_of_roof(result.seconds, operations, nbytes, dtype,
                          float("inf") if cold else None)
    if share is not None and not share.is_plausible:
        raise MXNetError(
            f"{result.name}: {duration(result.seconds)} would be {share.value:.0%} of the "
            f"{share.roof}: the function does not do {operations:,.0f} operations on "
            f"{nbytes:,.0f} bytes in each call; does it return an earlier result, return before "
            "its work is done, or are the numbers too high?")
    return share


def _first_call(arm: CallableArm) -> FirstCall:
    with _compilations() as costs, loaded_kernels() as loaded:
        taken = arm.first_call()
    compiling, loading = sum(cost.seconds for cost in costs), sum(each.loading for each in loaded)
    old = [each for each in loaded if not each.is_new]
    return FirstCall(compiling + sum(each.compiling for each in old), loading,
                     taken - compiling - sum(each.loading for each in loaded if each.is_new))


@contextmanager
def _compilations() -> Iterator[list[KernelCost]]:
    """A block whose compilations are listed: none where there is no compiler."""
    if not has_compiler():
        yield []
        return
    with measured() as costs:
        yield costs


@contextmanager
def none_compiled(name: str) -> Iterator[None]:
    """A block that raises if anything is compiled in it: its times would mean nothing.

    Raises
    ------
    MXNetError
        If a kernel met a new signature, which happens where inputs differ in type, layout or
        alignment.
    """
    with _compilations() as costs:
        yield
    if costs:
        names = sorted({cost.name for cost in costs})
        raise MXNetError(
            f"{name}: {', '.join(names)} was compiled in the timed rounds; the inputs of all "
            "rounds must have the types, dimensions and layouts of the first, and what a function "
            "compiles it must compile in its first call")


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """A block in which parallel kernels, nbmod's and others of numba, have so many threads."""
    if count is None:
        yield
        return
    before = num_threads()
    set_num_threads(count)
    try:
        yield
    finally:
        set_num_threads(before)


def name_of(function: object) -> str:
    """The name of a function, of the class of a callable object otherwise."""
    name = getattr(function, "name", None) or getattr(function, "__qualname__", None) or getattr(
        function, "__name__", type(function).__name__)
    return str(name).replace("<locals>.", "").replace("<lambda>", "lambda")


def check_outputs(name: str, function: Callable[..., object], reference: Callable[..., object],
                  args: tuple[Any, ...]) -> None:
    """Raise unless `function` computes what `reference` does, on inputs that are new to it."""
    fresh = copied(args, 7)
    runs = [(inputs := copied(fresh), each(*inputs)) for each in (function, reference)]
    in_place = any(result is None for _, result in runs)
    ours, theirs = (_numpy(inputs if in_place else result) for inputs, result in runs)
    for number, (actual, expected) in enumerate(zip(ours, theirs, strict=True)):
        ulp = ulp_distance(actual, expected)
        if ulp > MOST_ULP:
            raise MXNetError(
                f"{name}: output {number} differs from that of the reference by {ulp:,.0f} ulp, "
                f"expected at most {MOST_ULP} (the inputs are new to the function: one that "
                "returns a result of earlier inputs fails here)")


def _numpy(values: Any) -> list[NDArray[Any]]:
    """The arrays among some values, or one array."""
    values = values if isinstance(values, (tuple, list)) else [values]
    return [value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value)
            for value in values if not callable(value)]


def ulp_distance(actual: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest difference in units in the last place of the largest expected value.

    Relative to single values it would be unbounded where a sum cancels; NaN equals NaN.
    """
    if actual.shape != expected.shape:
        raise ArgumentError(f"the function returns shape {actual.shape}, the reference "
                            f"{expected.shape}")
    if not expected.size:
        return 0.0
    if actual.dtype.kind not in "fc":
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    wide, reference = actual.astype(np.float64), expected.astype(np.float64)
    if not np.array_equal(np.isfinite(wide), np.isfinite(reference)):
        return float("inf")
    finite = np.isfinite(reference)
    scale = float(np.max(np.abs(reference[finite]), initial=0.0))
    spacing = float(np.spacing(np.array(max(scale, np.finfo(actual.dtype).tiny),
                                        actual.dtype)))
    return float(np.max(np.abs(wide[finite] - reference[finite]), initial=0.0)) / spacing

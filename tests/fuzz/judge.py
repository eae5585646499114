"""The runs of a program that must agree, and their tolerances.

    plain       no pass, no shared memory: node by node, in float32
    reference   the same in float64
    exact       `mx.exact()` with passes and shared memory: the bits of `plain`
    default     as users bind: what float32 allows; every pass is validated
    inference   for programs that train: every pass is validated, nothing runs
    gradient    those of `reference` against finite differences of its own forward pass
    reshape     a fraction of them with twice the batch, in the memory of `default`: the same bits
    company     a fraction of them among others (`company`, `memory`), or as a Module (`training`):
                the same bits as alone
    float64     a fraction of them as users bind, in that type, in which less is allowed
    float16     a fraction of them in that type
    conversion  a fraction of them in another form (`conversions`)
    tape        a fraction of those without layers: second derivatives by finite differences
    MXNet       a fraction of the programs, against `reference`

Where `default` or `plain` is far from `reference`, the reference is run again on inputs perturbed
in their last float32 digit, and with the result of every node rounded to float32, to the nearest or
up and down at random (Monte Carlo arithmetic, Parker 1997), and with sums of layers that differ by
a last digit of their largest element (Winograd's way): a program that amplifies these differences,
or has a kink within them, is ill-conditioned, and may differ as much.  Where the reference is zero
everywhere, terms have cancelled, and the result is the rounding of the largest of them.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz import conversions, memory, table, tape, training  # noqa: F401  # with its checks
from tests.fuzz.company import CHECKS, check
from tests.fuzz.features import note
from tests.fuzz.kinds import KINDS
from tests.fuzz.program import Line, Program, build, drawn
from tests.fuzz.runs import (
    UNSET,
    Results,
    Way,
    bind,
    bound,
    fill,
    heads,
    pass_by_pass,
    results,
    run,
    settings,
)

# Long sums formed in the memory of another operand are formed in another order, and those in
# float16 are rounded once less, so these two are off where bits are compared.
ORDER = ("accumulate", "write_gradients")
CLOSE = 2e-4
"""Of the largest element: far above rounding, Winograd's included, and far below a wrong number."""
LARGEST = 1e30
"""What is larger may be beyond float32 in one way of computing it, and within it in another."""
HALF_MAX = np.finfo(np.float16).max
"""The lowest value of float16 is its negative."""
LOOPS = ("foreach", "while")
"""Lines whose bodies round where the judge sees no nodes."""
SOFTMAX = ("softmax", "attention")
"""Lines whose gradients, g - p sum(g), cancel terms as large as the head gradients where p is 1."""
CANCELLED = 1e-13
"""Of the largest term: a result below it is what rounding left of a sum that is zero."""
LAYERS = ("Convolution", "Deconvolution", "FullyConnected", "dot", "batch_dot")
"""Operators whose sums round relative to their largest term."""
MAGNIFIED = 64
"""Times the effect of one rounding of the inputs: a program rounds at every node."""


class Disagreement(AssertionError):
    """Two runs of a program that should agree differ."""


def require_agreement(mx: Any, program: Program, seed: int = 0) -> None:
    """Raise Disagreement, or the exception of a run, if the ways of running `program` differ."""
    from nbmod.passes.switches import PASSES

    rng = Random(seed)
    threads = rng.choice([1, 2, 4])
    plain = run(mx, program, Way("plain", exact=True, without=tuple(PASSES), threads=threads))
    exact = run(mx, program, Way("exact", exact=True, without=ORDER, threads=threads,
                                 check=2 if rng.random() < 0.3 else 1))
    require_bits(exact, plain, "exact", "plain")
    default = run(mx, program, Way("default", threads=rng.choice([1, 2, 4]),
                                   check=2 if rng.random() < 0.2 else 1, validates=True))
    require_valid_inference(mx, program)
    if _is_stable(program):
        _require_accuracy(mx, program, plain, default, rng)
    if program.trains and _is_smooth(program):
        require_derivatives(mx, program, tuple(PASSES))
    if rng.random() < 0.25 and not program.groups:
        require_reshapes(mx, program)
    require_company(mx, program, rng)
    if rng.random() < 0.15 and _is_stable(program):
        require_float16(mx, program)
    if tape.applies(program) and rng.random() < 0.3:
        require_curvature(mx, program)


def require_valid_inference(mx: Any, program: Program) -> None:
    """Every pass that a program which trains meets in inference keeps what it computes."""
    if program.trains:
        with bound(mx, replace(program, request="null"), Way("inference", validates=True)):
            note("inference")


def _require_accuracy(mx: Any, program: Program, plain: Results, default: Results, rng: Random
                      ) -> None:
    """What runs compute is near the reference, and in other forms, too."""
    digits = COARSE if _has_narrow_types(program) else SINGLE
    judge = _Judge(mx, program, digits)
    judge.require_close(plain, "plain")
    judge.require_close(default, "default")
    if rng.random() < 0.2:
        note("in float64")
        found = run(mx, program, Way("default", "float64", validates=True))
        judge.require_close(found, "default in float64",
                            digits=digits if digits is COARSE else DOUBLE)
    if rng.random() < 0.06 and not program.groups:
        require_conversions(mx, program, digits)


def require_conversions(mx: Any, program: Program, digits: Digits) -> None:
    """In inference another form of the program computes the same."""
    inference = replace(program, request="null")
    for convert, accuracy in ((conversions.through_onnx, digits),
                              (conversions.in_mixed_precision, HALF)):
        found = convert(mx, inference)
        if found is not None:
            note(convert.__name__.replace("_", " "))
            _Judge(mx, inference, accuracy).require_close(found, convert.__name__)


@check(0.05)
def in_a_module(mx: Any, program: Program, way: Way, rng: Random) -> tuple[Results, Results]:
    """Epochs of `Module.fit`, and the same steps by an executor and an updater."""
    task = training.Training(mx, program)
    if not task.applies:
        return {}, {}
    with settings(mx, program, way):
        expected = training.by_hand(mx, task)
    return _learned(mx, task, way), expected


def require_curvature(mx: Any, program: Program) -> None:
    """Second derivatives equal the finite differences of first ones, at one of several points."""
    found = None
    for attempt in range(3):
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                found = tape.curvature(mx, program, attempt)
        except mx.MXNetError as error:
            if "derivative" in str(error):
                return
            raise
        if found is None or abs(found[0] - found[1]) <= 1e-4 * found[2]:
            note("second derivatives")
            return
    raise Disagreement(f"second derivative along two directions is {found[0]:.8g}, finite "
                       f"differences give {found[1]:.8g}")


def require_float16(mx: Any, program: Program) -> None:
    """The same in float16; not for programs with ops that do not support it."""
    from nbmod.passes.switches import PASSES

    def narrow(name: str, **options: Any) -> Results:
        return run(mx, program, Way(name, "float16", narrow="float16", **options))

    try:
        plain = narrow("plain", exact=True, without=tuple(PASSES))
    except mx.MXNetError:
        return
    require_bits(narrow("exact", exact=True, without=ORDER), plain, "exact float16",
                 "plain float16")
    judge = _Judge(mx, program, HALF)
    judge.require_close(plain, "plain float16")
    judge.require_close(narrow("default", validates=True), "float16")


def require_numpy_forms(mx: Any, program: Program) -> bool:
    """Compare inference by the NumPy forms of ops with the reference; False if an op has none."""
    from nbmod.execution.first_answers import has_numpy_forms
    from nbmod.executor import Executor

    inference = replace(program, request="null", groups=False)
    with bound(mx, inference, Way("NumPy forms")) as executor:
        if not has_numpy_forms(executor._binding):
            return False
        found = results(mx, Executor(executor._binding, executor, key="reference"), inference)
    _Judge(mx, inference).require_close(found, "NumPy forms")
    return True


def require_company(mx: Any, program: Program, rng: Random) -> None:
    """Among other executors a program computes the same as alone."""
    way = Way("default", threads=rng.choice([1, 2]))
    for name, (share, together) in CHECKS.items():
        if rng.random() < share:
            found, expected = together(mx, program, way, rng)
            if found:
                note(name)
            require_bits(found, expected, name, "alone")


def require_reshapes(mx: Any, program: Program) -> None:
    """Reshaped to twice the batch, a program computes the same as one bound with it; both share
    memory, and the first one computes the same again afterwards."""
    doubled = replace(program, inputs=tuple((2 * n, *rest) for n, *rest in program.inputs))
    shapes = {f"x{i}": shape for i, shape in enumerate(doubled.inputs)}
    way = Way("default")
    try:
        expected = run(mx, doubled, way)
    except mx.MXNetError:
        return      # shapes in the program are those of its batch
    with bound(mx, program, way) as executor:
        fixed = build(mx, program)[1]
        before = results(mx, executor, program)
        known = {name: shape for name, shape in shapes.items() if name in executor.arg_dict}
        larger = executor.reshape(partial_shaping=True, allow_up_sizing=True, **known)
        fill(larger, fixed)
        require_bits(results(mx, larger, doubled), expected, "reshaped", "bound afresh")
        fill(executor, fixed)
        require_bits(results(mx, executor, program), before, "after a reshape", "before")


def require_bits(found: Results, expected: Results, name: str, other: str) -> None:
    """Equal bits, except for NaN and the sign of zero."""
    for key, array in expected.items():
        if not np.array_equal(found[key], array, equal_nan=True):
            raise Disagreement(f"{key}: {name} and {other} are not the same bits\n"
                               f"{_excerpt(found[key], array)}")


class Digits(NamedTuple):
    """The expected accuracy of a float type."""

    narrow: str
    close: float
    """Of the largest element: far above rounding, Winograd's included, and far below a wrong
    number."""
    rounding: float
    """The effect of one rounding, relative to the number."""


DOUBLE_ROUNDING = float(np.finfo(np.float64).eps)
SINGLE = Digits("float32", CLOSE, 1.2e-7)
HALF = Digits("float16", 0.02, 1e-3)
DOUBLE = Digits("float64", 1e-9, DOUBLE_ROUNDING)
COARSE = Digits("float32", 0.02, 1e-3)
"""Values that are rounded to float16 between: a last digit of float32 may be one of float16."""


class _Judge:
    """Compares runs with the reference."""

    def __init__(self, mx: Any, program: Program, digits: Digits = SINGLE):
        from nbmod.passes.switches import PASSES

        self.mx, self.program, self.digits = mx, program, digits
        self.way = Way("reference", "float64", True, tuple(PASSES), narrow=digits.narrow)
        self.reference = run(mx, program, self.way)
        self._moved: list[Results] = []
        self._largest_term = 0.0
        self.has_loops = self._has(LOOPS)
        self.has_log_of_sums = any(line.params.get("op") == "log_softmax"
                                   for line in program.lines)
        self.has_nan = any(np.isnan(values).any() for values in self.reference.values())
        self.scale = max(map(_largest, self.reference.values()), default=0.0)

    def _has(self, kinds: tuple[str, ...]) -> bool:
        return any(line.kind in kinds for line in self.program.lines)

    def _largest_head(self) -> float:
        with bound(self.mx, self.program, self.way) as executor:
            return max(_largest(head.asnumpy()) for head in heads(self.mx, executor))

    def require_close(self, found: Results, name: str, slack: float = 1,
                      digits: Digits | None = None) -> None:
        """`digits` are those of `found`, where it has more than the judge's."""
        digits = digits or self.digits
        finer = digits.rounding / self.digits.rounding
        close = slack * digits.close
        for key, expected in self.reference.items():
            if self.has_nan:    # times zero, in one way of computing it, or a sum with that
                lost = (expected == 0) | np.isnan(expected).any()
                expected = np.where(np.isnan(found[key]) & lost, np.nan, expected)
            error = _distance(found[key], expected)
            largest = _largest(expected)
            if error <= close * largest or error <= close * 1e-2 * self.scale:
                continue
            magnified = finer * self._magnified(key)    # and the largest term
            if self.has_loops and self._largest_term > np.finfo(self.digits.narrow).max / 2:
                continue    # what a body halves was infinite before
            terms = self._largest_term if not largest else self.scale if self.has_loops else 0
            if self.has_log_of_sums:
                terms = max(terms, 1)   # a sum of exponentials, whose logarithm may be near 0
            if key.startswith("gradient") and self._has(SOFTMAX):
                terms = max(terms, self._largest_head())
            if largest < CANCELLED * self._largest_term:
                # rounding leaves as much more of it as the narrow type has fewer digits
                magnified = max(magnified, largest * digits.rounding / DOUBLE_ROUNDING)
            if error > MAGNIFIED * max(magnified, digits.rounding * terms):
                raise Disagreement(f"{key}: {name} is {error:.3g} from float64, whose largest "
                                   f"element is {largest:.3g}\n{_excerpt(found[key], expected)}")

    def _magnified(self, key: str) -> float:
        """The change of a result when every node rounds, and inputs are perturbed by a rounding."""
        if not self._moved:
            self._moved = [self._run_moved(number) for number in range(3)]
        return max(self._difference(moved[key], self.reference[key]) for moved in self._moved)

    @staticmethod
    def _difference(moved: np.ndarray, expected: np.ndarray) -> float:
        same = np.array_equal(_is_moderate(moved), _is_moderate(expected))
        return _distance(moved, expected) if same else np.inf

    def _run_moved(self, number: int) -> Results:
        """On inputs that are perturbed in one of several directions, or are not."""
        with bound(self.mx, self.program, self.way) as executor:
            for name, array in executor.arg_dict.items() if number else ():
                if array.dtype == np.float64:
                    signs = np.sign(drawn(f"move {name} {number}", array.shape, "float64"))
                    values = array.asnumpy()
                    moved = values * (1 + self.digits.rounding * signs)
                    array[:] = np.where(values == np.rint(values), values, moved)   # labels are
            rng = np.random.RandomState(number) if number else None
            sums = _sums(executor._symbol) if number else {}
            executor.set_monitor_callback(lambda name, array: self._round(
                array, rng, _OPPOSITE[number] if name in sums else 0))
            found: Results = {}
            for _ in pass_by_pass(self.mx, executor, self.program, found,
                                  self.digits.narrow):
                for gradient in executor.grad_dict.values():
                    if gradient is not None:    # sums of rounds are stored in the narrow type
                        self._round(gradient, rng)
            return found

    def _round(self, array: Any, rng: np.random.RandomState | None, of_largest: float = 0) -> None:
        """To the narrow type: to the nearest value, or to one of the two around it.

        Before, add `of_largest` roundings of the largest element, up and down by turns of a seed.
        """
        if array.dtype == np.float64:
            values = array.asnumpy()
            self._largest_term = max(self._largest_term, _largest(values))
            if of_largest:
                signs = np.sign(drawn(f"sums {values.shape}", values.shape, "float64"))
                values = values + of_largest * self.digits.rounding * _largest(values) * signs
            with np.errstate(over="ignore", invalid="ignore"):
                rounded = values.astype(self.digits.narrow)
                if rng is not None:
                    other = np.nextafter(rounded, np.where(rounded < values, np.inf, -np.inf)
                                         .astype(rounded.dtype))
                    rounded = np.where((rounded != values) & (rng.rand(*values.shape) < 0.5),
                                       other, rounded)
            array[:] = rounded


_OPPOSITE = {1: 1.0, 2: -1.0}
"""Signs of the runs that move sums: an element beside a kink crosses it in one of them."""


def _sums(symbol: Any) -> set[str]:
    """Names of the outputs of layers."""
    return {f"{entry.node.name}_output" for entry in symbol.get_internals().entries
            if entry.node.op is not None and entry.node.op.name in LAYERS}


def _largest(array: np.ndarray) -> float:
    finite = np.abs(array[_is_moderate(array)])
    return float(finite.max()) if finite.size else 0.0


def _distance(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference; infinite where one is finite and the other is not.

    Anything is accepted where NaN is expected: the maximum of an empty set is the lowest value of a
    type, and its consequences in float64 say nothing about float32.
    """
    if found.dtype.kind != "f":
        return float(np.abs(found.astype(float) - expected).max()) if found.size else 0.0
    same = _is_moderate(found) == _is_moderate(expected)
    if not (same | np.isnan(expected)).all():
        return np.inf
    with np.errstate(invalid="ignore"):
        difference = np.abs(found.astype(np.float64) - expected)
    difference = difference[_is_moderate(expected)]
    return float(difference.max()) if difference.size else 0.0


def _is_moderate(array: np.ndarray) -> np.ndarray:
    """Where elements are finite, and not the lowest value of their type, which is the maximum of a
    window without pixels."""
    with np.errstate(invalid="ignore"):
        return np.abs(array) < (HALF_MAX if array.dtype == np.float16 else LARGEST)


def _excerpt(found: np.ndarray, expected: np.ndarray) -> str:
    with np.errstate(invalid="ignore"):
        worst = np.abs(found.astype(np.float64) - expected)
    worst = np.where(np.isnan(worst), np.inf, worst)
    places = np.argsort(-worst, axis=None)[:3]
    return "\n".join(f"  at {tuple(map(int, np.unravel_index(i, found.shape)))}: "
                     f"{found.ravel()[i]!r}, expected {expected.ravel()[i]!r}" for i in places)


def require_mxnet(mx: Any, oracle: Any, program: Program) -> bool:
    """Raise Disagreement if MXNet computes something else; False if it cannot be compared.

    It rejects some programs, and where two outputs are one entry its gradients are not those of
    finite differences.  Its accumulated gradients of biases are wrong in oneDNN's dense layers, and
    that of LayerNorm where forward is mirrored, so neither is requested; gradients that it leaves
    unset are not compared.
    """
    from tests.oracle.client import OracleCrash, OracleError

    program = replace(program, request="write" if program.trains else "null", mirror=False)
    entries = build(mx, program)[0].entries
    if len(set(entries)) < len(entries) or any(map(_is_other_in_mxnet, program.lines)):
        return False
    try:
        theirs = oracle.call("mx_fuzz.run", program.to_json(), "float32")
    except (OracleError, OracleCrash):
        return False
    judge = _Judge(mx, program)
    reference = judge.reference
    found = {key: np.asarray(theirs[key]) for key in reference}
    unset = [key for key in found if key.startswith("gradient") and (found[key] == UNSET).all()]
    judge.require_close({**found, **{key: reference[key] for key in unset}}, "MXNet", 10)
    return True


def require_mxnet_training(mx: Any, oracle: Any, program: Program) -> bool:
    """The same of the parameters that a Module learns in some epochs."""
    from nbmod.passes.switches import PASSES
    from tests.oracle.client import OracleCrash, OracleError

    task = training.Training(mx, program)
    if not (task.applies and _is_stable(program)) or any(map(_is_other_in_mxnet, program.lines)):
        return False
    try:
        theirs = oracle.call("mx_fuzz.fit", program.to_json())
    except (OracleError, OracleCrash):
        return False
    ways = Way("plain", exact=True, without=tuple(PASSES)), Way("default")
    plain, ours = (_learned(mx, task, way) for way in ways)
    for name, expected in plain.items():
        found = np.asarray(theirs[name])
        moved = _distance(ours[name], expected)     # by other roundings, which steps amplify
        error = _distance(found, expected)
        if error > max(1e-3 * _largest(expected), MAGNIFIED * moved):
            raise Disagreement(f"{name} is {error:.3g} from MXNet's after {task.epochs} epochs\n"
                               f"{_excerpt(found, expected)}")
    return True


def _learned(mx: Any, task: training.Training, way: Way) -> Results:
    with settings(mx, task.program, way):
        return training.fit(mx, task)


def _is_other_in_mxnet(line: Line) -> bool:
    """Whether MXNet computes no gradient, another one, or shows what it has not computed."""
    if line.kind != "table":
        return bool(line.params.get("options", {}).get("out_grad"))
    sample = table.samples()[line.params["sample"]]
    return "output_mean_var" in sample.attrs or sample.grad == () or not sample.oracle


# -- finite differences -----------------------------------------------------------------------

def _is_smooth(program: Program) -> bool:
    return all(KINDS[line.kind].smooth and (
        line.kind != "table" or table.is_smooth(line.params["sample"])) for line in program.lines)


def _has_narrow_types(program: Program) -> bool:
    return any(name in ("float16", "int8", "int32") for line in program.lines
               for name in (*line.params.get("dtypes", ()), line.params.get("dtype")))


def _is_stable(program: Program) -> bool:
    return all(KINDS[line.kind].stable for line in program.lines)


def require_derivatives(mx: Any, program: Program, off: tuple[str, ...]) -> None:
    """The gradient along random directions equals the finite difference of the outputs.

    Functions with kinks may disagree where a kink is near, so two other directions are tried at
    points nearby: many values of the table of operators are zero, the kink of most functions.
    """
    found = ()
    for attempt in range(3):
        with mx.without_passes(*off), mx.exact():
            executor = bind(mx, Program(program.inputs, program.lines, program.outputs), "float64")
        with np.errstate(over="ignore", invalid="ignore"):  # an empty maximum is the lowest value
            found = _along(mx, executor, attempt)
        if found is None or abs(found[0] - found[1]) <= 1e-5 * found[2]:
            return
    raise Disagreement(f"gradient along a direction is {found[0]:.8g}, finite differences give "
                       f"{found[1]:.8g}")


def _along(mx: Any, executor: Any, attempt: int) -> tuple[float, float, float] | None:
    """The derivative along a direction by backward, by differences, and the size of its terms."""
    point = {name: array.asnumpy() + attempt * 1e-5 * drawn(f"near {name} {attempt}", array.shape,
                                                            "float64")
             for name, array in executor.arg_dict.items() if array.dtype == np.float64}
    for name, values in point.items():
        executor.arg_dict[name][:] = values
    executor.forward(is_train=True)
    given = heads(mx, executor)
    executor.backward(given)
    weights = [head.asnumpy() for head in given]
    direction = {name: drawn(f"direction {name} {attempt}", values.shape, "float64")
                 for name, values in point.items()}
    gradients = {name: executor.grad_dict[name].asnumpy() for name in point}
    by_backward = sum(float((gradients[name] * direction[name]).sum()) for name in point)
    size = sum(float(np.abs(gradients[name] * direction[name]).sum()) for name in point)
    step, ends = 1e-6 * 10.0 ** -attempt, []
    for sign in (1, -1):
        for name, values in point.items():
            executor.arg_dict[name][:] = values + sign * step * direction[name]
        executor.forward(is_train=True)
        ends.append([output.asnumpy() for output in executor.outputs])
    by_differences = sum(float(((a - b) * w).sum()) for a, b, w in zip(*ends, weights, strict=True)
                         ) / (2 * step)
    rounding = sum(float(np.abs(a * w).sum()) for a, w in zip(ends[0], weights, strict=True))
    size += rounding * 1e-14 / step / 1e-5
    return None if not np.isfinite(size) else (by_backward, by_differences, size)

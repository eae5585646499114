"""Verification of exported files: onnxruntime's outputs against nbmod's.

The file is run on random inputs and on extreme ones.  Every output is compared; where one differs,
the graph is run once more with all intermediate tensors as outputs.  In topological order each is
compared with what nbmod's operator makes of the same inputs, and the error names the first that
differs: there the export is wrong.  Of what depends on random numbers, only shape and type are
compared.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base import MXNetError
from ..graph import Entry, Graph, Node
from ..ops.op import Spec
from .exporting.export_graph import output_names
from .exporting.tensor_info import TensorInfo, alternative_shapes, infer_graph_specs
from .reference_run import Tensor, run_graph, run_node

if TYPE_CHECKING:
    from .exporting.exported_model import Export

__all__ = ["Comparison", "VerificationError", "VerificationReport", "compare", "is_available",
           "verify_export"]

TOLERANCES = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-8}
"""Largest error that passes, relative to the largest magnitude in the tensor.

Order of summation costs float32 some 1e-6 in a layer; a hundred layers stay below 1e-4, while a
wrong operator shows errors near 1.  float16 has 11 bits, and runtimes differ in where they round.
"""
SMALL = 1e-3
"""Magnitudes below this count as this: what is zero but for rounding has no relative error."""
STEPS, TURNS, AMPLIFIED = 8.0, 16, 4.0
"""A result may differ by AMPLIFIED times the most that rounding changes nbmod's own: float64, which
also rounds positions in images less, or at most TURNS changes of the inputs by STEPS units in the
last place and of the results of all nodes by one.  Few turns miss that two scores are so near that
either may be the first.
"""
LARGE = 100.0
"""Scale of the inputs of the case 'large'."""


class VerificationError(MXNetError):
    """The file does not compute what the symbol does; `tensor` is the first one that differs."""

    def __init__(self, message: str, report: VerificationReport | None = None,
                 tensor: str | None = None):
        super().__init__(message)
        self.report, self.tensor = report, tensor


class Comparison(NamedTuple):
    """One tensor of one case."""

    case: str
    tensor: str
    absolute: float
    """Largest absolute error."""
    relative: float
    """Largest error relative to the largest magnitude in the tensor."""
    passed: bool
    sensitivity: float = 0.0
    """Where the error is above the tolerance: how much rounding changes nbmod's result."""

    def __str__(self) -> str:
        return (f"{self.tensor} ({self.case} inputs): largest absolute error {self.absolute:.3g}, "
                f"relative {self.relative:.3g}")


@dataclass
class VerificationReport:
    """All comparisons of a file."""

    path: str
    comparisons: list[Comparison] = field(default_factory=list)

    @property
    def amplified(self) -> list[Comparison]:
        """Comparisons above the tolerance, which rounding explains."""
        return [each for each in self.comparisons if each.sensitivity]

    @property
    def worst(self) -> Comparison:
        """The comparison with the largest relative error."""
        return max(self.comparisons, key=lambda each: each.relative)

    def __str__(self) -> str:
        cases = len({each.case for each in self.comparisons})
        outputs = len({each.tensor for each in self.comparisons})
        return (f"{self.path}: verified {outputs} output(s) on {cases} kinds of inputs; worst "
                f"{self.worst}")


def is_available() -> bool:
    """Whether onnxruntime is installed."""
    return importlib.util.find_spec("onnxruntime") is not None


def verify_export(export: Export, path: str, cases: Sequence[str] | None = None,
                  content: str | bytes | None = None) -> VerificationReport:
    """Compare a file with the symbol that it was exported from.

    `cases` are kinds of inputs, by default all of `CASES`; `content` is a file or its bytes, to run
    in place of the file at `path`, which is not written yet.  Raises VerificationError if
    onnxruntime cannot run it or an output differs.
    """
    session = _session(path if content is None else content, path)
    names = [output.name for output in session.get_outputs()]
    random = [any(node.op is not None and node.op.random for node in Graph([entry]).nodes)
              for entry in export.graph.outputs]
    report, reference, first = VerificationReport(path), Reference.of(export), None
    for case, feeds in _cases(export, cases):
        outputs = _run(session, _needed(session, feeds), path)
        expected = reference.outputs(feeds)
        checks = [compare(case, name, want, want if drawn and _is_alike(want, got) else got)
                  for name, want, got, drawn in zip(names, expected, outputs, random, strict=True)]
        wrong = [each for each in checks if not each.passed]
        if wrong:
            first = first_difference(export, case, feeds)
            checks = checks if first else reference.excuse(checks, feeds, expected)
        report.comparisons += checks
        if not all(each.passed for each in checks):
            raise _mismatch(report, wrong, first)
    return report


def compare(case: str, tensor: str, expected: Tensor, value: Tensor) -> Comparison:
    """How much a tensor differs from what is expected."""
    if not _is_alike(expected, value):
        shown = f"{tensor}: {value.dtype} {value.shape}, expected {expected.dtype} {expected.shape}"
        return Comparison(case, shown, np.inf, np.inf, False)
    if not expected.size:
        return Comparison(case, tensor, 0.0, 0.0, True)
    want, got = expected.astype(np.float64), value.astype(np.float64)
    with np.errstate(invalid="ignore"):
        errors = np.abs(want - got)
    errors[(want == got) | (np.isnan(want) & np.isnan(got))] = 0
    errors[np.isnan(errors)] = np.inf
    finite = np.abs(want[np.isfinite(want)])
    absolute = float(errors.max())
    relative = absolute / max(SMALL, float(finite.max(initial=0.0)))
    limit = TOLERANCES.get(expected.dtype.name, 0.0)
    return Comparison(case, tensor, absolute, relative, relative <= limit)


def _is_alike(expected: Tensor, value: Tensor) -> bool:
    return expected.shape == value.shape and expected.dtype == value.dtype


# -- running --------------------------------------------------------------------------------


@dataclass
class Reference:
    """The symbol as it was given, with labels and losses."""

    export: Export
    parameters: dict[str, Tensor]

    @classmethod
    def of(cls, export: Export) -> Reference:
        """With copies of the parameters: MXNet sets gammas that are fixed to 1."""
        return cls(export, {name: array.copy() for name, array in export.parameters.items()})

    def outputs(self, feeds: Mapping[str, Tensor],
                rounded: Callable[[Tensor], Tensor] | None = None) -> list[Tensor]:
        """nbmod's outputs; labels are zeros."""
        graph = Graph(self.export.symbol.entries)
        names = [node.name for node in graph.variables]
        values = {name: array for name, array in {**self.parameters, **feeds}.items()
                  if name in names}
        if len(values) < len(names):
            try:
                specs = infer_graph_specs(graph, {name: Spec(array.shape, array.dtype)
                                                  for name, array in values.items()})
                labels = {node.name: np.zeros(*specs[graph.eid(Entry(node))])
                          for node in graph.variables if node.name not in values}
                values.update(labels)
            except MXNetError:  # the shape of a label does not follow from those of the inputs
                graph = self.export.graph
        tensors = run_graph(graph, values, rounded=rounded)
        return [tensors[entry] for entry in graph.outputs]

    def excuse(self, checks: Sequence[Comparison], feeds: Mapping[str, Tensor],
               expected: Sequence[Tensor]) -> list[Comparison]:
        """The comparisons, with those passed whose error rounding explains.

        Some models amplify rounding errors: a softmax of large numbers, or a choice among nearly
        equal scores.  What changes that much when all numbers change by their last digits, or when
        nbmod computes in float64, cannot tell a right file from a wrong one.
        """
        for changed in self._changed(feeds, expected):
            checks = [each if each.passed else _excused(each, compare("", "", before, after))
                      for each, before, after in zip(checks, expected, changed, strict=True)]
            if all(each.passed for each in checks):
                break
        return list(checks)

    def _changed(self, feeds: Mapping[str, Tensor], expected: Sequence[Tensor]
                 ) -> Iterator[list[Tensor]]:
        """nbmod's outputs in float64, if all operators compute in it, then rounded otherwise."""
        wide = Reference(self.export, {name: _widened(array)
                                       for name, array in self.parameters.items()})
        with contextlib.suppress(MXNetError):
            outputs = wide.outputs({name: _widened(array) for name, array in feeds.items()})
            yield [each.astype(like.dtype) for each, like in zip(outputs, expected, strict=True)]
        for turn in range(TURNS):
            rng = np.random.default_rng(turn)
            yield self.outputs({name: _perturbed(array, rng) for name, array in feeds.items()},
                               functools.partial(_rounded, rng=rng))


def _excused(comparison: Comparison, change: Comparison) -> Comparison:
    """`comparison`, which passes if rounding makes as large a change."""
    sensitivity = max(comparison.sensitivity, change.relative)
    return comparison._replace(sensitivity=sensitivity,
                               passed=comparison.relative <= AMPLIFIED * sensitivity)


def _widened(array: Tensor) -> Tensor:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _perturbed(array: Tensor, rng: np.random.Generator) -> Tensor:
    """Floating-point elements that differ by a few of their last digits; zeros as if near 1."""
    if array.dtype.kind != "f" or not array.size:
        return array
    step = STEPS * float(np.finfo(array.dtype).eps) * (float(np.abs(array).max()) or 1.0)
    return (array + step * rng.uniform(-1, 1, array.shape)).astype(array.dtype)


def _rounded(array: Tensor, rng: np.random.Generator) -> Tensor:
    """A result whose last digit differs, but for integers, which may be classes or positions."""
    if array.dtype.kind != "f" or not array.size:
        return array
    step = float(np.finfo(array.dtype).eps)
    with np.errstate(invalid="ignore"):  # infinities stay
        other = (array * (1 + step * rng.uniform(-1, 1, array.shape))).astype(array.dtype)
    return np.where(array == np.rint(array), array, other)


def _session(model: str | bytes, path: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the classes of onnxruntime's errors have no common base
        raise VerificationError(f"export_model: onnxruntime cannot load {path}: {error}") from None


def _run(session: Any, feeds: Mapping[str, Tensor], path: str
         ) -> list[Tensor]:
    try:
        return session.run(None, dict(feeds))
    except Exception as error:
        raise VerificationError(f"export_model: onnxruntime cannot run {path}: {error}") from None


def _needed(session: Any, feeds: Mapping[str, Tensor]
            ) -> dict[str, Tensor]:
    """The inputs, by their names in the file, which has them in the order of the symbol."""
    return {source.name: feed for source, feed in zip(session.get_inputs(), feeds.values(),
                                                      strict=True)}


# -- inputs ---------------------------------------------------------------------------------


def input_infos(export: Export) -> list[tuple[str, TensorInfo]]:
    """Names and shapes of the inputs."""
    return [(node.name, export.infos[export.graph.eid(Entry(node))])
            for node in export.graph.variables if node.name in export.inputs]


CASES = ("random", "zeros", "ones", "negative", "large", "longer")
"""Kinds of inputs; 'longer' are random ones with twice the sizes along dynamic axes."""


def _cases(export: Export, chosen: Sequence[str] | None) -> Iterator[tuple[str, dict[str, Tensor]]]:
    infos = input_infos(export)
    dynamic = any(info.dynamic for _, info in infos)
    limits = _index_limits(export)
    for case in CASES if chosen is None else chosen:
        if case == "longer" and not dynamic:
            continue
        shapes = {name: info.shape for name, info in infos}
        if case == "longer":
            shapes = alternative_shapes(infos)
        yield case, {name: _draw(case, Spec(shapes[name], info.dtype), name, limits.get(name))
                     for name, info in infos}


def _draw(case: str, spec: Spec, name: str, limit: int | None) -> Tensor:
    """Values of an input; from 1 to `limit` if they are lengths or indices."""
    rng = np.random.default_rng(zlib.crc32(f"{case} {name}".encode()))
    fixed = {"zeros": 0.0, "ones": 1.0}.get(case)
    if limit is not None:
        values = np.full(spec.shape, 1) if fixed is not None else rng.integers(
            min(1, limit), limit + 1, spec.shape)
    elif fixed is not None:
        values = np.full(spec.shape, fixed)
    elif spec.dtype.kind == "b":
        values = rng.random(spec.shape) < 0.5
    elif spec.dtype.kind in "iu":
        values = rng.integers(0, 100, spec.shape)
    else:
        values = rng.standard_normal(spec.shape) * (LARGE if case == "large" else 1.0)
        values = -np.abs(values) if case == "negative" else values
    return values.astype(spec.dtype)


def _index_limits(export: Export) -> dict[str, int]:
    """The largest value of each input that holds lengths or positions."""
    graph, infos = export.graph, export.infos
    limits: dict[str, int] = {}
    for node in graph.nodes:
        if node.op is None:
            continue
        names = node.op.list_inputs()
        for name, entry in zip(names, node.inputs, strict=True):
            if not entry.node.is_variable:
                continue
            if "length" in name:
                first = infos[graph.eid(node.inputs[0])].shape
                limits[entry.node.name] = max(1, min(first, default=1))
            elif name in node.op.index_inputs:
                limits[entry.node.name] = max(_indexed(node, infos, graph) - 1, 0)
    return limits


def _indexed(node: Node, infos: Sequence[TensorInfo], graph: Graph) -> int:
    """The smallest axis of the tensor that a node reads by index."""
    tables = [infos[graph.eid(entry)].shape for name, entry
              in zip(node.required_op.list_inputs(), node.inputs, strict=True)
              if name not in node.required_op.index_inputs]
    return min((size for shape in tables for size in shape[:1]), default=1)


# -- where it goes wrong --------------------------------------------------------------------


def _mismatch(report: VerificationReport, wrong: Sequence[Comparison],
              first: tuple[Node, Comparison] | None) -> VerificationError:
    listed = "".join(f"\n  {each}" for each in wrong[:10])
    if first is None:
        where = ("Every node computes what nbmod's does from the same inputs, with all tensors as "
                 "outputs: the difference is made by an optimization of the runtime, or by errors "
                 "below the tolerance that later nodes amplify")
    else:
        where = (f"The first tensor that differs is that of {first[0].describe()}, computed from "
                 f"the same inputs: {first[1]}")
    return VerificationError(
        f"export_model: {report.path} does not compute what the symbol does; {len(wrong)} "
        f"output(s) differ:{listed}\n{where}\nverify=False writes the file all the same",
        report, None if first is None else first[1].tensor)


def first_difference(export: Export, case: str, feeds: Mapping[str, Tensor]
                     ) -> tuple[Node, Comparison] | None:
    """The first node whose result differs from nbmod's, and how much.

    Each node is compared on the inputs that it has in the file, so that errors of nodes before it
    do not matter, however much the model amplifies them.
    """
    graph = export.graph
    tensors = _all_tensors(export, feeds)
    for node in graph.nodes:
        if (node.op is None or node.op.random
                or any(entry not in tensors for entry in node.inputs)):
            continue
        specs = [Spec(info.shape, info.dtype) for info in (
            export.infos[eid] for eid in graph.output_eids(node))]
        expected = run_node(node, [tensors[entry] for entry in node.inputs], specs)
        for index, name in enumerate(output_names(node)):
            if Entry(node, index) in tensors:
                result = compare(case, name, expected[index], tensors[Entry(node, index)])
                if not result.passed and not _is_one_step(expected[index], result):
                    return node, result
    return None


def _is_one_step(expected: Tensor, result: Comparison) -> bool:
    """Whether quantised elements differ by one step, or their sums in the last digits of float32.

    Runtimes round in other places.
    """
    return expected.dtype.kind in "iu" and (
        result.absolute <= 1 if expected.dtype.itemsize == 1 else result.relative <= 1e-6)


def _all_tensors(export: Export, feeds: Mapping[str, Tensor]) -> dict[Entry, Tensor]:
    """The tensors that the file computes, and those that it is given."""
    graph, exported = export.graph, export.exported
    builder = exported.builder
    shown = {id(value) for value, _ in builder.outputs}
    produced = {id(value) for node in builder.nodes for value in node.outputs} - shown
    extra = {}
    for entry, value in exported.values.items():
        if id(value) in produced:
            extra[id(value)] = (value, Spec((), export.infos[graph.eid(entry)].dtype))
    model, names = builder.model_with(list(extra.values()))
    session = _session(model, "the file with all intermediate tensors as outputs")
    results = dict(zip([output.name for output in session.get_outputs()],
                       _run(session, _needed(session, feeds), "it"), strict=True))
    parameters = {name: array.copy() for name, array in export.parameters.items()}
    tensors = {Entry(node): {**parameters, **feeds}[node.name] for node in graph.variables}
    for entry, value in exported.values.items():
        if value.array is not None and entry not in tensors:
            tensors[entry] = value.array
        elif names.get(id(value)) in results:
            tensors[entry] = results[names[id(value)]]
    return tensors

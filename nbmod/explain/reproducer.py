"""A step of a plan by itself: a script and its arrays, which time it elsewhere."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from ..base import MXNetError
from ..core.atomic import atomic_write
from ..graph import Entry, Graph, Node
from ..ops.custom import Custom
from ..ops.op import Spec
from ..passes.infer import Inferred, infer_specs
from ..symbol.json_writer import write_graph
from .node_history import NodeHistory
from .schema import NetworkFacts
from .what_if import WhatIf
from .wording import listed, step_title

__all__ = ["Reproducer", "reproducer_of"]

MOST_BEFORE = 4
"""Graphs that are tried, each with the nodes before the one before."""


@dataclass(frozen=True)
class Reproducer:
    """Files that run a step by itself.

    Attributes
    ----------
    name : str
        Of the files: `name`.py, `name`-symbol.json and `name`.npz.
    script : str
        Python, for `python` and for pytest.
    symbol : str
        The nodes of the network that the step computes, as JSON.
    arrays : dict of str to numpy.ndarray
        What they read: random numbers of the shapes and types of the plan.
    """

    name: str
    script: str
    symbol: str
    arrays: Mapping[str, np.ndarray]

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the files into a folder, which is created; the path of the script."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        stream = io.BytesIO()
        np.savez(stream, **dict(self.arrays))       # type: ignore[arg-type]
        for suffix, content in ((".py", self.script.encode()), (".npz", stream.getvalue()),
                                ("-symbol.json", self.symbol.encode())):
            with atomic_write(path / f"{self.name}{suffix}") as file:
                file.write(content)
        return path / f"{self.name}.py"


def reproducer_of(history: NodeHistory, what_if: WhatIf, index: int) -> Reproducer:
    """The nodes of the symbol that a step computes, or is the gradient of, by themselves.

    Nodes before them come along where the step is another one without them, such as one that works
    on blocks of channels.  MXNetError if the step computes no node of the symbol, but reorders a
    layout or adds gradients.
    """
    facts = history.facts
    step = facts.plan.steps[index]
    title, parts = step_title(facts.plan, index), list(_parts(history, what_if.symbol, index))
    if not parts:
        raise MXNetError(f"explain: {title} computes no node of the symbol, but what a pass has "
                         "added; ask for a step beside it, such as "
                         f"{listed(_neighbours(history, index), 3)}")
    for part in parts:
        requests = _requests(facts.network, part)
        compiled = what_if.part(part, requests)
        if step.op in [node.op_name for node in compiled.nodes]:
            break
    else:
        raise MXNetError(f"explain: {title} is another step without the nodes around it")
    name = f"step{index}_" + (re.sub(r"\W+", "_", step.name).strip("_") or "unnamed")
    return Reproducer(
        name, _script(f"{title} of {facts.network.name}, by itself", name, step.op, facts.network,
                      requests, part.graph),
        write_graph(part.graph.outputs), dict(_values(part.of(part.graph.variables))))


def _parts(history: NodeHistory, symbol: Inferred, index: int) -> Iterator[Inferred]:
    """The graphs of the nodes that a step computes: by themselves, and with those before them."""
    facts = history.facts
    step = facts.plan.steps[index]
    forward = step if step.forward is None else facts.plan.steps[step.forward]
    alone = {id(node): node for number, node in zip(facts.graph, symbol.graph.nodes, strict=True)
             if node.op is not None and history.last(number) == forward.node}
    for _ in range(MOST_BEFORE if alone else 0):
        yield _part(symbol, alone)
        alone |= {id(source): source for node in alone.values() for source, _ in node.inputs
                  if not source.is_variable}


def _requests(network: NetworkFacts, part: Inferred) -> dict[str, str]:
    """Gradients of what a part reads: those of the network, and of all that it computes itself."""
    specs = part.of(part.graph.arguments)
    return {name: network.requests.get(name, "write") for name, spec in specs.items()
            if network.training and spec.dtype.kind == "f"
            and (name in network.requests or name not in network.arguments)}


def _neighbours(history: NodeHistory, index: int) -> Iterable[str]:
    """Names of steps that read what a step writes, or write what it reads."""
    plan = history.facts.plan
    step = plan.steps[index]
    near = [plan.entries[eid].producer for eid in step.reads] + [
        reader for eid in step.writes if eid is not None for reader in plan.entries[eid].readers]
    return dict.fromkeys(plan.steps[each].name for each in near if each is not None)


def _part(symbol: Inferred, alone: Collection[int]) -> Inferred:
    """The graph of some nodes, by their `id`; variables stand for what others compute."""
    graph, nodes, inputs = symbol.graph, dict[int, Node](), dict[Entry, Node]()

    def entry_of(entry: Entry) -> Entry:
        if id(entry.node) in alone:
            return Entry(nodes[id(entry.node)], entry.index)
        name = entry.node.name
        if not entry.node.is_variable:
            name += f"_{entry.node.required_op.list_outputs()[entry.index]}"
        return Entry(inputs.setdefault(entry, Node(None, name)))

    for node in graph.nodes:
        if id(node) in alone:
            nodes[id(node)] = node.clone([entry_of(entry) for entry in node.inputs], None)
    read = [entry for node in graph.nodes if id(node) not in alone for entry in node.inputs]
    outputs = dict.fromkeys(entry for entry in (*graph.outputs, *read) if id(entry.node) in alone)
    part = Graph([entry_of(entry) for entry in outputs])
    known = {Entry(variable): symbol.specs[graph.eid(entry)] for entry, variable in inputs.items()}
    return Inferred(part, infer_specs(part, known))


def _values(specs: Mapping[str, Spec]) -> Iterator[tuple[str, np.ndarray]]:
    """Moderate numbers; zeros for labels and indices, ones for variances."""
    generator = np.random.default_rng(0)
    for name, (shape, dtype) in specs.items():
        if dtype.kind in "iub" or name.endswith("_label"):
            yield name, np.zeros(shape, dtype)
        elif name.endswith(("_var", "_gamma")):
            yield name, np.ones(shape, dtype)
        else:
            yield name, (0.05 * generator.standard_normal(shape)).astype(dtype)


def _imports(graph: Graph) -> Iterator[str]:
    """Lines that import the modules in which users have registered operators of the graph."""
    ops = [node.op for node in graph.nodes if node.op is not None]
    modules = [op.definition.module if isinstance(op, Custom) else type(op).__module__
               for op in ops]
    for name in dict.fromkeys(modules):
        module = sys.modules.get(name)
        if name.partition(".")[0] == __package__.partition(".")[0]:
            continue
        if module is None or name == "__main__" or not getattr(module, "__file__", None):
            yield f"# Here belong the operators of {name}, which cannot be imported."
            continue
        depth = name.count(".") + hasattr(module, "__path__")
        yield f"sys.path.append({str(Path(str(module.__file__)).resolve().parents[depth])!r})"
        yield f"import {name}  # registers operators"


def _script(title: str, name: str, op: str, network: NetworkFacts, requests: Mapping[str, str],
            graph: Graph) -> str:
    exact = ", mx.exact()" if network.exact else ""
    states, imports = sorted(node.name for node in graph.states), [*_imports(graph)]
    system = "import sys\n" if imports else ""
    registers = "".join(f"{line}\n" for line in ["", *imports]) if imports else ""
    return f'''"""{title}: random inputs of the shapes and types that it has there.

    python {name}.py
    python -m pytest -p nbmod_pytest {name}.py
"""
{system}from pathlib import Path

import numpy as np
import nbmod as mx
from nbmod import bench
{registers}
FILES = Path(__file__).resolve().parent / "{name}"
OP, STATES = {op!r}, {states!r}
REQUESTS = {dict(requests)!r}


def bound():
    net = mx.sym.load(f"{{FILES}}-symbol.json")
    with np.load(f"{{FILES}}.npz") as file:
        arrays = {{name: mx.nd.array(file[name], mx.{network.context}, file[name].dtype)
                  for name in file.files}}
    states = {{name: arrays.pop(name) for name in STATES}}
    gradients = {{name: mx.nd.zeros_like(arrays[name]) for name in REQUESTS}}
    with mx.without_passes(*{list(network.disabled_passes)!r}){exact}:
        return net.bind(mx.{network.context}, arrays, gradients, REQUESTS, states,
                        numpy_first=False)


def test_step(kernel_benchmark):
    executor = bound()
    heads = [mx.nd.ones_like(output) for output in executor.outputs]
    assert OP in [step.op for step in executor.explain().facts.plan.steps]

    def run():
        executor.forward(is_train={network.training})
        executor.backward(heads) if REQUESTS else executor.outputs[0].wait_to_read()
    kernel_benchmark(run)


if __name__ == "__main__":
    executor = bound()
    steps = executor.explain().facts.plan.steps
    for each in bench.step_facts(executor).steps:
        step = steps[each.step]
        print(f"{{each.seconds * 1e3:10.4f}} ms  {{step.name}} ({{step.op}})")
'''

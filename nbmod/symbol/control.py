"""`sym.contrib.foreach`, `while_loop` and `cond`: functions of symbols become bodies of a node.

A body is called once, with new variables in the place of rows and states, under an attribute scope
that marks the nodes it makes with the name of the loop.  What it returns is then cut along the
marks: nodes with the mark, and what depends on them, are copied into the body's own graph;
everything else that they read becomes a variable there and an input of the node.  So what a body
captures from outside is found without being declared, and parameters made inside are inputs, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..attribute import AttrScope
from ..base import ArgumentError, MXNetError
from ..graph import Entry, Graph, Node, topological_order
from ..name import NameManager
from ..ops import OPS
from ..ops.control_flow.control_base import Control
from ..pytree import flatten, regroup
from .compose import make_node
from .functions import Variable
from .symbol import Symbol

__all__ = ["foreach", "while_loop", "cond"]

MARK = "__subgraph_name__"

_made: Counter[str] = Counter()


def _scope(name: str) -> AttrScope:
    """The attribute scope of a new body; its mark has not been used before."""
    outer = AttrScope.current.get(None).get(MARK)
    full = name if outer is None else f"{outer}${name}"
    _made[full] += 1
    return AttrScope(**{MARK: f"{full}{_made[full] - 1}"})


class _Graph(NamedTuple):
    """A body that has been cut out: its outputs, and what its variables stand for outside."""

    outputs: list[Entry]
    variables: list[tuple[Node, Entry]]


def _symbols(value: Any, what: str) -> tuple[list[Symbol], Any]:
    """The single tensors of a nested list; a symbol of several outputs is a list of them."""
    symbols, structure = flatten(value, Symbol, what)
    if any(len(symbol) != 1 for symbol in symbols):
        whole = regroup([symbol if len(symbol) == 1 else list(symbol) for symbol in symbols],
                        structure)
        return flatten(whole, Symbol, what)
    return symbols, structure


def _placeholders(symbols: Sequence[Symbol]) -> list[Symbol]:
    """A variable for each of the symbols, named like it."""
    names: list[str] = []
    for symbol in symbols:
        node, index = symbol.entries[0]
        name = f"{node.name}-{index}"
        names.append(f"{name}-{len(names)}" if name in names else name)
    return [Variable(name) for name in names]


def _owned(symbols: Iterable[Symbol], elsewhere: Iterable[Symbol] = ()) -> list[Symbol]:
    """Outputs that nodes of the body compute, and other ones than those of `elsewhere`."""
    symbols = list(symbols)
    inside = _inside([symbol.entries[0] for symbol in symbols], AttrScope.current.get(None)[MARK])
    taken = {symbol.entries[0].node.name for symbol in elsewhere}
    owned = []
    for symbol in symbols:
        node = symbol.entries[0].node
        if node.is_variable or id(node) not in inside or node.name in taken:
            symbol = Symbol([Entry(_node("_copy", [symbol.entries[0]], "identity"))])
        owned.append(symbol)
    return owned


def _node(op: str, inputs: Sequence[Entry], hint: str, **params: Any) -> Node:
    name = NameManager.current.get(None, hint)
    attrs = {**params, **AttrScope.current.get(None)}
    return make_node(OPS.find(op), name, attrs, [Symbol([entry]) for entry in inputs])


def _inside(entries: Iterable[Entry], mark: str) -> set[int]:
    """`id`s of the nodes of a body.

    Those with its mark, and what copies of symbols from outside compute from them.
    """
    inside: set[int] = set()
    for node in topological_order(entries):
        if node.attrs.get(MARK) == mark or any(id(e.node) in inside for e in node.inputs):
            inside.add(id(node))
    return inside


def _cut(outputs: Sequence[Symbol], mark: str) -> _Graph:
    """The nodes with this mark in a graph of their own."""
    entered: dict[Entry, Entry] = {}
    variables: list[tuple[Node, Entry]] = []
    copies: dict[int, Node] = {}

    def enter(entry: Entry) -> Entry:
        if id(entry.node) in copies:
            return Entry(copies[id(entry.node)], entry.index)
        if entry not in entered:
            node, own = entry.node, entry.node.attrs.get(MARK) == mark
            name = Symbol([entry]).list_outputs()[0]
            variable = Node(None, name, attrs=dict(node.attrs) if own else {})
            entered[entry] = Entry(variable)
            variables.append((variable, entry))
        return entered[entry]

    entries = [symbol.entries[0] for symbol in outputs]
    inside = _inside(entries, mark)
    for node in topological_order(entries):
        if not node.is_variable and id(node) in inside:
            copies[id(node)] = node.clone([enter(entry) for entry in node.inputs], None)
    cut = [enter(entry) for entry in entries]
    order = {id(node): i for i, node in enumerate(topological_order(cut))}
    return _Graph(cut, sorted(variables, key=lambda pair: order[id(pair[0])]))


def _finish(op: str, graphs: Sequence[_Graph], inputs: Sequence[Entry], **params: Any
            ) -> list[Symbol]:
    """The outputs of the node that runs these graphs."""
    node = _node(op, inputs, op, num_args=len(inputs) + len(graphs), **params)
    assert isinstance(node.op, Control)
    where = node.describe()
    try:
        node.op = node.op.holding(tuple(Graph(graph.outputs) for graph in graphs))
    except MXNetError as error:
        raise type(error)(f"{where}: {error}") from None
    for index in node.op.aux_indices():
        if not node.inputs[index].node.is_variable:
            raise MXNetError(f"{where}: {node.inputs[index].node.describe()} is state that the "
                             "body writes, so it must be a variable")
    return [Symbol([Entry(node, i)]) for i in range(node.num_visible)]


def _positions(where: str, kind: str, variables: Sequence[Symbol], graph: _Graph) -> list[int]:
    """Where in the body's variables these are; all must be used."""
    position = {id(outside.node): i for i, (_, outside) in enumerate(graph.variables)}
    unused = [variable.name for variable in variables
              if id(variable.entries[0].node) not in position]
    if unused:
        raise ArgumentError(f"{where}: {kind} {unused} are not used in the loop body; leave them "
                            "out")
    return [position[id(variable.entries[0].node)] for variable in variables]


def _same_structure(where: str, before: Any, after: Any) -> None:
    if before != after:
        raise ArgumentError(f"{where}: the body takes states as {_shown(before)}, but returns them "
                            f"as {_shown(after)}")


def _shown(structure: Any) -> str:
    return "x" if structure is None else f"[{', '.join(map(_shown, structure))}]"


def _pair(where: str, result: Any) -> tuple[Any, Any]:
    if not isinstance(result, (list, tuple)) or len(result) != 2:
        raise ArgumentError(f"{where}: the body must return two things, its outputs and the next "
                            f"states; given a {type(result).__name__}")
    return result[0], result[1]


def foreach(body: Callable[[Any, Any], Any], data: Any, init_states: Any, name: str = "foreach"
            ) -> tuple[Any, Any]:
    """`body(row, states)` for every row of `data`, one after another.

    `data` and `init_states` are symbols or nested lists of them; rows are taken along the first
    axis.  `body` gets rows and states in the same structure and returns (outputs, next states).
    The result is (outputs stacked along a new first axis, last states).

    Raises ArgumentError if the body returns states in another structure, or does not use one of
    its data or states.
    """
    data_symbols, data_structure = _symbols(data, f"{name}: data")
    states, structure = _symbols(init_states, f"{name}: init_states")
    with _scope(name) as scope:
        variables = _placeholders([*data_symbols, *states])
        rows, olds = variables[:len(data_symbols)], variables[len(data_symbols):]
        result = body(regroup(rows, data_structure), regroup(olds, structure))
        outs, news = _pair(name, result)
        outputs, out_structure = _symbols(outs, f"{name}: outputs of the body")
        following, new_structure = _symbols(news, f"{name}: states that the body returns")
        _same_structure(name, structure, new_structure)
        outputs = _owned(outputs)
        following = _owned(following, outputs)
    graph = _cut([*outputs, *following], scope.get(None)[MARK])
    places = _positions(name, "data", rows, graph), _positions(name, "states", olds, graph)
    free = [i for i in range(len(graph.variables)) if i not in (*places[0], *places[1])]
    inputs = [symbol.entries[0] for symbol in (*data_symbols, *states)]
    inputs += [graph.variables[i][1] for i in free]
    results = _finish("_foreach", [graph], inputs, num_outputs=len(graph.outputs),
                      num_out_data=len(outputs), in_data_locs=places[0], in_state_locs=places[1],
                      remain_locs=free)
    return (regroup(results[:len(outputs)], out_structure),
            regroup(results[len(outputs):], structure))


class _Inputs:
    """The inputs of a node of several graphs, without repeating what is a variable.

    `loop_vars` are, for each loop variable, its placeholders in the graphs and what it starts as.
    """

    def __init__(self, loop_vars: Iterable[tuple[Sequence[Symbol], Symbol]] = ()):
        self.entries: list[Entry] = []
        self._place: dict[int, int] = {}
        self._starts: dict[int, tuple[int, Entry]] = {}
        for inner, start in loop_vars:
            for symbol in inner:
                same = id(inner[0].entries[0].node), start.entries[0]
                self._starts[id(symbol.entries[0].node)] = same

    def places(self, graph: _Graph) -> list[int]:
        """The inputs that the graph's variables stand for."""
        places = []
        for _, outside in graph.variables:
            key, entry = self._starts.get(id(outside.node), (id(outside.node), outside))
            if key not in self._place or not outside.node.is_variable:
                self._place[key] = len(self.entries)
                self.entries.append(entry)
            places.append(self._place[key])
        return places


def _as_arguments(symbols: Sequence[Symbol], structure: Any) -> list[Any]:
    return regroup(symbols, [structure] if structure is None else structure)


def while_loop(cond: Callable[..., Any], func: Callable[..., Any], loop_vars: Any,
               max_iterations: int | None = None, name: str = "while_loop") -> tuple[Any, Any]:
    """`func(*loop_vars)` again and again, as long as `cond(*loop_vars)` is not 0.

    `func` returns (outputs, next loop_vars); the result is (outputs stacked along a new first axis
    of `max_iterations` rows, last loop_vars).  Rows of iterations that did not happen are 0.

    Raises ArgumentError without `max_iterations`, without loop variables, or if `func` returns
    them in another structure or does not use one of them.
    """
    if max_iterations is None:
        raise ArgumentError(f"{name}: max_iterations should be specified")
    states, structure = _symbols(loop_vars, f"{name}: loop_vars")
    if not states:
        raise ArgumentError(f"{name}: loop_vars should contain at least one element")
    with _scope(f"{name}_cond") as scope:
        seen = _placeholders(states)
        test = _owned([_number(cond(*_as_arguments(seen, structure)), f"{name}: cond")])
    condition = _cut(test, scope.get(None)[MARK])
    with _scope(f"{name}_func") as scope:
        olds = _placeholders(states)
        outs, news = _pair(name, func(*_as_arguments(olds, structure)))
        outputs, out_structure = _symbols([] if outs is None else outs, f"{name}: outputs of func")
        following, new_structure = _symbols(news, f"{name}: loop_vars that func returns")
        _same_structure(name, *(part or [part] for part in (structure, new_structure)))
        results = _owned([*outputs, *following])
    graph = _cut(results, scope.get(None)[MARK])
    places = _positions(name, "loop_vars", olds, graph)
    inputs = _Inputs(zip(zip(seen, olds, strict=True), states, strict=True))
    of_cond, of_func = inputs.places(condition), inputs.places(graph)
    found = _finish("_while_loop", [condition, graph], inputs.entries,
                    num_outputs=len(graph.outputs), num_out_data=len(outputs),
                    max_iterations=int(max_iterations), cond_input_locs=of_cond,
                    func_input_locs=of_func, func_var_locs=places)
    return (regroup(found[:len(outputs)], out_structure),
            regroup(found[len(outputs):], new_structure))


def cond(pred: Symbol, then_func: Callable[[], Any], else_func: Callable[[], Any],
         name: str = "cond") -> Any:
    """What `then_func()` returns if `pred`, one number, is not 0, else what `else_func()` does.

    Both return a symbol or a nested list of as many; those of the branch that is not taken are not
    computed.

    Raises ArgumentError if `pred` is no Symbol or the branches return different numbers of them.
    """
    with _scope(f"{name}_pred") as scope:
        test = _owned([_number(pred, f"{name}: pred")])
    graphs, structures = [_cut(test, scope.get(None)[MARK])], []
    for branch, function in (("then", then_func), ("else", else_func)):
        with _scope(f"{name}_{branch}") as scope:
            outputs, structure = _symbols(function(), f"{name}: what {branch}_func returns")
            results = _owned(outputs)
        structures.append(structure)
        graphs.append(_cut(results, scope.get(None)[MARK]))
    if len(graphs[1].outputs) != len(graphs[2].outputs) or not graphs[1].outputs:
        raise ArgumentError(f"{name}: then_func returns {len(graphs[1].outputs)} outputs and "
                            f"else_func {len(graphs[2].outputs)}, expected the same number, at "
                            "least 1")
    inputs = _Inputs()
    places = [inputs.places(graph) for graph in graphs]
    found = _finish("_cond", graphs, inputs.entries, num_outputs=len(graphs[1].outputs),
                    cond_input_locs=places[0], then_input_locs=places[1], else_input_locs=places[2])
    return found[0] if len(found) == 1 else regroup(found, structures[0])


def _number(value: Any, what: str) -> Symbol:
    if not isinstance(value, Symbol) or len(value) != 1:
        raise ArgumentError(f"{what} is a {type(value).__name__}, expected a Symbol with one "
                            "output")
    return value

"""`sym.contrib.foreach`, `while_loop` and `cond`: control flow by tracing functions of symbols.

A function is traced: it is called once, with placeholder variables for slices and states, under an
attribute scope that marks the nodes it makes.  Its subgraph is then extracted: marked nodes, and
those that depend on them, are copied; every other entry that they read becomes a variable of the
subgraph and an input of the control-flow node.  So captured symbols (free variables) and parameters
that are made inside need not be declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..base import ArgumentError, CheckError, MXNetError
from ..core.pytree import LoopFunction, Nested, Structure, flatten, outputs_and_states, unflatten
from ..graph import Entry, Graph, Node, topological_order
from ..ops.control_flow.control_base import Control
from .attribute import AttrScope
from .compose import named_node
from .functions import Variable
from .symbol import Symbol

__all__ = ["foreach", "while_loop", "cond"]

MARK = "__subgraph_name__"


def _scope(name: str) -> AttrScope:
    """The attribute scope of a new subgraph, with a unique mark."""
    outer = AttrScope.current.get(None).get(MARK)
    full = name if outer is None else f"{outer}${name}"
    counts = AttrScope._subgraph_names
    counts[full] += 1
    return AttrScope(**{MARK: f"{full}{counts[full] - 1}"})


class _Subgraph(NamedTuple):
    """An extracted subgraph: its outputs, and its variables with the outer entries they replace."""

    outputs: list[Entry]
    variables: list[tuple[Node, Entry]]


def _symbols(value: Nested, what: str) -> tuple[list[Symbol], Structure]:
    """The tensors of a nested list and its structure; several outputs of a symbol are a list."""
    symbols, structure = flatten(value, Symbol, what)
    if any(len(symbol) != 1 for symbol in symbols):
        whole = unflatten([symbol if len(symbol) == 1 else list(symbol) for symbol in symbols],
                        structure)
        return flatten(whole, Symbol, what)
    return symbols, structure


def _placeholders(symbols: Sequence[Symbol]) -> list[Symbol]:
    """A variable for each symbol, named after it."""
    names: list[str] = []
    for symbol in symbols:
        node, index = symbol.entries[0]
        name = f"{node.name}-{index}"
        names.append(f"{name}-{len(names)}" if name in names else name)
    return [Variable(name) for name in names]


def _computed(symbols: Sequence[Symbol], others: Iterable[Symbol] = ()) -> list[Symbol]:
    """Symbols, each computed by a node of the subgraph that computes none of `others`.

    Variables, outer symbols and nodes of `others` are copied.
    """
    inside = _inside([symbol.entries[0] for symbol in symbols], AttrScope.current.get(None)[MARK])
    used = {symbol.entries[0].node.name for symbol in others}
    computed = []
    for symbol in symbols:
        node = symbol.entries[0].node
        if node.is_variable or id(node) not in inside or node.name in used:
            symbol = Symbol([Entry(named_node("_copy", [symbol], "identity"))])
        computed.append(symbol)
    return computed


def _inside(entries: Iterable[Entry], mark: str) -> set[int]:
    """`id`s of the nodes of a subgraph: those with its mark, and copies that depend on them."""
    inside: set[int] = set()
    for node in topological_order(entries):
        if node.attrs.get(MARK) == mark or any(id(e.node) in inside for e in node.inputs):
            inside.add(id(node))
    return inside


def _extract(outputs: Sequence[Symbol], mark: str) -> _Subgraph:
    """The subgraph of the nodes with this mark."""
    replaced: dict[Entry, Entry] = {}
    variables: list[tuple[Node, Entry]] = []
    copies: dict[int, Node] = {}

    def inner(entry: Entry) -> Entry:
        if id(entry.node) in copies:
            return Entry(copies[id(entry.node)], entry.index)
        if entry not in replaced:
            node, own = entry.node, entry.node.attrs.get(MARK) == mark
            name = Symbol([entry]).list_outputs()[0]
            variable = Node(None, name, attrs=dict(node.attrs) if own else {})
            replaced[entry] = Entry(variable)
            variables.append((variable, entry))
        return replaced[entry]

    entries = [symbol.entries[0] for symbol in outputs]
    inside = _inside(entries, mark)
    for node in topological_order(entries):
        if not node.is_variable and id(node) in inside:
            copies[id(node)] = node.clone([inner(entry) for entry in node.inputs], None)
    heads = [inner(entry) for entry in entries]
    order = {id(node): i for i, node in enumerate(topological_order(heads))}
    return _Subgraph(heads, sorted(variables, key=lambda pair: order[id(pair[0])]))


def _apply(op: str, graphs: Sequence[_Subgraph], inputs: Sequence[Entry], **params: object
           ) -> list[Symbol]:
    """The outputs of a new control-flow node that holds these subgraphs."""
    node = named_node(op, [Symbol([entry]) for entry in inputs], op,
                      num_args=len(inputs) + len(graphs), **params)
    assert isinstance(node.op, Control)
    where = node.describe()
    try:
        node.op = node.op.with_subgraphs(tuple(Graph(graph.outputs) for graph in graphs))
    except MXNetError as error:
        raise type(error)(f"{where}: {error}") from None
    for index in node.op.aux_indices():
        if not node.inputs[index].node.is_variable:
            raise MXNetError(f"{where}: {node.inputs[index].node.describe()} is state that the "
                             "body writes, so it must be a variable")
    return [Symbol([Entry(node, i)]) for i in range(node.num_visible)]


def _positions(where: str, kind: str, variables: Sequence[Symbol], graph: _Subgraph) -> list[int]:
    """Indices of placeholders among the variables of a subgraph, which must use all of them."""
    position = {id(outside.node): i for i, (_, outside) in enumerate(graph.variables)}
    unused = [variable.name for variable in variables
              if id(variable.entries[0].node) not in position]
    if unused:
        raise CheckError(f"{where}: {kind} {unused} are not used in the loop body; leave them "
                         "out")
    return [position[id(variable.entries[0].node)] for variable in variables]


def _require_equal(where: str, before: Structure, after: Structure) -> None:
    if before != after:
        raise ArgumentError(f"{where}: the body takes states as {_shown(before)}, but returns them "
                            f"as {_shown(after)}")


def _shown(structure: Structure) -> str:
    return "x" if structure is None else f"[{', '.join(map(_shown, structure))}]"


def foreach(body: Callable[[Nested, Nested], Nested], data: Nested, init_states: Nested,
            name: str = "foreach") -> tuple[Nested, Nested]:
    """Call a function for every slice of arrays along the first axis, passing states on (scan).

    Parameters
    ----------
    body, data, init_states
        As for `nd.contrib.foreach`, with symbols instead of arrays; `body` is traced once.
    name : str, default 'foreach'
        Prefix of the subgraph's name.

    Raises
    ------
    ArgumentError
        If the body returns states in another structure.
    CheckError
        If the body does not use one of its arguments; it is an AssertionError, too.

    Examples
    --------
    >>> def add(row, total):
    ...     return row + total, row + total
    >>> x, start = mx.sym.Variable("x"), mx.sym.Variable("start")
    >>> sums, last = mx.sym.contrib.foreach(add, x, start)
    >>> sums.eval(x=mx.nd.array([1, 2, 3]), start=mx.nd.zeros(1))[0].reshape(-1).asnumpy().tolist()
    [1.0, 3.0, 6.0]
    """
    data_symbols, data_structure = _symbols(data, f"{name}: data")
    states, structure = _symbols(init_states, f"{name}: init_states")
    with _scope(name) as scope:
        variables = _placeholders([*data_symbols, *states])
        rows, placeholders = variables[:len(data_symbols)], variables[len(data_symbols):]
        result = body(unflatten(rows, data_structure), unflatten(placeholders, structure))
        out_data, new_states = outputs_and_states(name, result)
        outputs, out_structure = _symbols(out_data, f"{name}: outputs of the body")
        following, new_structure = _symbols(new_states, f"{name}: states that the body returns")
        _require_equal(name, structure, new_structure)
        outputs = _computed(outputs)
        following = _computed(following, outputs)
    graph = _extract([*outputs, *following], scope.get(None)[MARK])
    data_locs = _positions(name, "data", rows, graph)
    state_locs = _positions(name, "states", placeholders, graph)
    free = [i for i in range(len(graph.variables)) if i not in (*data_locs, *state_locs)]
    inputs = [symbol.entries[0] for symbol in (*data_symbols, *states)]
    inputs += [graph.variables[i][1] for i in free]
    results = _apply("_foreach", [graph], inputs, num_outputs=len(graph.outputs),
                     num_out_data=len(outputs), in_data_locs=data_locs, in_state_locs=state_locs,
                     remain_locs=free)
    return (unflatten(results[:len(outputs)], out_structure),
            unflatten(results[len(outputs):], structure))


class _Inputs:
    """The inputs of a node with several subgraphs; each variable is one input.

    `loop_vars` has the placeholders in the subgraphs and the initial value of each loop variable.
    """

    def __init__(self, loop_vars: Iterable[tuple[Sequence[Symbol], Symbol]] = ()):
        self.entries: list[Entry] = []
        self._position: dict[int, int] = {}
        self._initial: dict[int, tuple[int, Entry]] = {}
        for placeholders, start in loop_vars:
            for symbol in placeholders:
                same = id(placeholders[0].entries[0].node), start.entries[0]
                self._initial[id(symbol.entries[0].node)] = same

    def positions(self, graph: _Subgraph) -> list[int]:
        """Indices of the inputs that the subgraph's variables read."""
        positions = []
        for _, outside in graph.variables:
            key, entry = self._initial.get(id(outside.node), (id(outside.node), outside))
            if key not in self._position or not outside.node.is_variable:
                self._position[key] = len(self.entries)
                self.entries.append(entry)
            positions.append(self._position[key])
        return positions


def while_loop(cond: LoopFunction, func: LoopFunction, loop_vars: Nested,
               max_iterations: int | None = None, name: str = "while_loop"
               ) -> tuple[Nested, Nested]:
    """Call a function repeatedly while a condition holds.

    Parameters
    ----------
    cond, func, loop_vars, max_iterations
        As for `nd.contrib.while_loop`, with symbols instead of arrays; `func` is traced once.
    name : str, default 'while_loop'
        Prefix of the subgraphs' names.

    Raises
    ------
    ArgumentError
        If `max_iterations` or `loop_vars` are missing, or `func` returns loop_vars in another
        structure or does not use one of them.

    Examples
    --------
    >>> outputs, (last,) = mx.sym.contrib.while_loop(
    ...     lambda x: x < 3, lambda x: (x * 10, [x + 1]), [mx.sym.Variable("x")], max_iterations=4)
    >>> last.eval(x=mx.nd.array([1]))[0].asnumpy().tolist()
    [3.0]
    """
    if max_iterations is None:
        raise ArgumentError(f"{name}: max_iterations should be specified")
    states, structure = _symbols(loop_vars, f"{name}: loop_vars")
    if not states:
        raise ArgumentError(f"{name}: loop_vars should contain at least one element")
    arguments: Structure = [structure] if structure is None else structure
    with _scope(f"{name}_cond") as scope:
        cond_vars = _placeholders(states)
        test = _computed([_scalar(cond(*unflatten(cond_vars, arguments)), f"{name}: cond")])
    condition = _extract(test, scope.get(None)[MARK])
    with _scope(f"{name}_func") as scope:
        func_vars = _placeholders(states)
        result = func(*unflatten(func_vars, arguments))
        out_data, new_states = outputs_and_states(name, result)
        outputs, out_structure = _symbols([] if out_data is None else out_data,
                                          f"{name}: outputs of func")
        following, new_structure = _symbols(new_states, f"{name}: loop_vars that func returns")
        _require_equal(name, *(part or [part] for part in (structure, new_structure)))
        results = _computed([*outputs, *following])
    graph = _extract(results, scope.get(None)[MARK])
    var_locs = _positions(name, "loop_vars", func_vars, graph)
    inputs = _Inputs(zip(zip(cond_vars, func_vars, strict=True), states, strict=True))
    cond_locs, func_locs = inputs.positions(condition), inputs.positions(graph)
    node_results = _apply("_while_loop", [condition, graph], inputs.entries,
                          num_outputs=len(graph.outputs), num_out_data=len(outputs),
                          max_iterations=int(max_iterations), cond_input_locs=cond_locs,
                          func_input_locs=func_locs, func_var_locs=var_locs)
    return (unflatten(node_results[:len(outputs)], out_structure),
            unflatten(node_results[len(outputs):], structure))


def cond(pred: Symbol, then_func: Callable[[], Nested], else_func: Callable[[], Nested],
         name: str = "cond") -> Nested:
    """Select one of two branches; the other one is not executed.

    Parameters
    ----------
    pred : Symbol
        Condition, one element.
    then_func, else_func
        As for `nd.contrib.cond`; the result has the structure of that of `then_func`.
    name : str, default 'cond'
        Prefix of the subgraphs' names.

    Raises
    ------
    ArgumentError
        If `pred` is not a Symbol of one output, or the branches differ in the number of outputs.

    Examples
    --------
    >>> x = mx.sym.Variable("x")
    >>> y = mx.sym.contrib.cond(x > 1, lambda: x + 1, lambda: x - 1)
    >>> y.eval(x=mx.nd.array([2]))[0].asnumpy().tolist()
    [3.0]
    """
    with _scope(f"{name}_pred") as scope:
        test = _computed([_scalar(pred, f"{name}: pred")])
    graphs, structures = [_extract(test, scope.get(None)[MARK])], []
    for branch, function in (("then", then_func), ("else", else_func)):
        with _scope(f"{name}_{branch}") as scope:
            outputs, structure = _symbols(function(), f"{name}: what {branch}_func returns")
            results = _computed(outputs)
        structures.append(structure)
        graphs.append(_extract(results, scope.get(None)[MARK]))
    if len(graphs[1].outputs) != len(graphs[2].outputs) or not graphs[1].outputs:
        raise ArgumentError(f"{name}: then_func returns {len(graphs[1].outputs)} outputs and "
                            f"else_func {len(graphs[2].outputs)}, expected the same number, at "
                            "least 1")
    inputs = _Inputs()
    pred_locs, then_locs, else_locs = [inputs.positions(graph) for graph in graphs]
    node_results = _apply("_cond", graphs, inputs.entries, num_outputs=len(graphs[1].outputs),
                          cond_input_locs=pred_locs, then_input_locs=then_locs,
                          else_input_locs=else_locs)
    return unflatten(node_results, structures[0])


def _scalar(value: object, what: str) -> Symbol:
    if not isinstance(value, Symbol) or len(value) != 1:
        raise CheckError(f"{what} is a {type(value).__name__}, expected a Symbol with one "
                         "output")
    return value

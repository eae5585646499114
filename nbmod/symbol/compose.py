"""Construction of nodes from an op, its arguments and attributes.

Missing inputs become variables `<node>_<input>`, which inherit all attributes of the node (so
`conv0_weight` has `kernel`, and the `lr_mult` of a convolution applies to its weight).  A new node
refers to existing ones, which are neither copied nor changed, so that the cost of composition does
not depend on the size of the graph.  One exception is MXNet's: an input variable without an
initializer gets the default one of the op (`moving_var` is initialized to one).

`copy_graph` and `substitute` implement `symbol(x=other)`, which works on a copy of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..base import MXNetError, did_you_mean
from ..graph import Entry, Graph, Node, topological_order
from ..ops import OPS, Op
from ..ops.param import HIDDEN_KEYS, fields_of, to_text, without_ignored
from ..ops.signature import split_arguments
from .attribute import AttrScope
from .name import NameManager

if TYPE_CHECKING:
    from .symbol import Symbol

__all__ = ["apply", "named_node", "make_node", "read_op", "read_stored_op", "stored_attrs",
           "shown_attrs",
           "supply_initializers", "copy_graph", "replacements", "substitute"]

cast_inputs: Callable[[Node], list[Entry]] | None = None
"""Returns what a new node reads instead of its inputs; set by `contrib.amp.init`."""


def apply(op: type[Op], args: Sequence[object], kwargs: Mapping[str, object], hint: str,
          symbol_class: type) -> list[Entry]:
    """The visible outputs of the node that `sym.X(*args, **kwargs)` makes."""
    call = split_arguments(op, args, kwargs, "symbol", symbol_class)
    params = {**call.params, **AttrScope.current.get(call.tail.get("attr"))}
    name = NameManager.current.get(call.tail.get("name"), hint)
    if not isinstance(name, str):
        raise MXNetError(f"{op.name}: name is {name!r}, expected text")
    if call.positional and call.named:
        raise TypeError(f"{name} ({op.name}): inputs are given by position and by name "
                        f"({', '.join(call.named)}); an op with any number of inputs takes "
                        "them one way or the other")
    node = make_node(op, name, params, call.positional or call.named)
    return [Entry(node, i) for i in range(node.num_visible)]


def named_node(op_name: str, inputs: Sequence[Symbol], hint: str, **params: object) -> Node:
    """A node of op `op_name` in the current scopes, with all inputs in order."""
    name = NameManager.current.get(None, hint)
    return make_node(OPS.find(op_name), name, {**params, **AttrScope.current.get(None)}, inputs)


def make_node(op_class: type[Op], name: str, params: Mapping[str, object],
              inputs: Sequence[Symbol] | Mapping[str, Symbol]) -> Node:
    """A node of `op_class` with `inputs`, symbols by position or by input name.

    Raises MXNetError for an unknown or invalid parameter, an unknown input, an input of several
    tensors, or an auxiliary state that is not a variable.
    """
    where = f"{name} ({op_class.name})"
    attrs = stored_attrs(params, where)
    if op_class.variadic:
        op_class.count_inputs(attrs, len(inputs))
    op = read_op(op_class, dict(without_ignored(op_class, attrs, where)), name)
    names, aux = op.list_inputs(), op.aux_indices()
    if op_class.variadic and not (names or op_class.may_lack_inputs):
        raise MXNetError(f"{where}: no inputs are given, expected at least one")
    entries = {key: _single(symbol, where, key)
               for key, symbol in _by_input(inputs, names, where).items()}
    node = Node(op, name, attrs=attrs)
    for index, input_name in enumerate(names):
        entry = entries.get(input_name)
        if entry is None:
            entry = Entry(Node(None, f"{name}_{input_name}", attrs=dict(attrs)))
        elif index in aux and not entry.node.is_variable:
            raise MXNetError(f"{where}: input {input_name!r} is state that the op writes, so it "
                             f"must be a variable, but {entry.node.describe()} is given")
        node.inputs.append(entry)
    supply_initializers(node)
    if cast_inputs is not None:
        node.inputs = cast_inputs(node)
    return node


def read_op(op_class: type[Op], attrs: dict[str, str], name: str,
            graphs: tuple[Graph, ...] = ()) -> Op:
    """The op with parameters from `attrs` and subgraphs `graphs`."""
    op = op_class.from_attrs(attrs, name)
    return op.with_subgraphs(graphs) if graphs else op


def read_stored_op(op_class: type[Op], attrs: dict[str, str], name: str,
                   graphs: tuple[Graph, ...] = ()) -> Op:
    """The op of an existing node with `attrs`.

    MXNet accepts any attribute for an op without parameters, and some files have such attributes (a
    `dtype` of `zeros_like` in GluonCV's).  They have no effect, and are not parsed as parameters.
    """
    return read_op(op_class, attrs if fields_of(op_class) else {}, name, graphs)


def supply_initializers(node: Node) -> None:
    """Set the default initializers of the op in input variables that have none."""
    op = node.op
    if op is None or not op.init:
        return
    for input_name, entry in zip(op.list_inputs(), node.inputs, strict=False):
        if input_name in op.init and entry.node.is_variable:
            entry.node.attrs.setdefault("__init__", op.init[input_name])


def stored_attrs(params: Mapping[str, object], where: str) -> dict[str, str]:
    """Attributes as a node stores them: strings, with reserved keys as `__key__`.

    Raises MXNetError for a key such as `weight_lr_mult`, with the replacement.
    """
    attrs = {}
    for key, value in params.items():
        if key in HIDDEN_KEYS:
            key = f"__{key}__"
        for hidden in HIDDEN_KEYS:
            if key.endswith(f"_{hidden}"):
                argument = key.removesuffix(f"_{hidden}")
                raise MXNetError(
                    f"{where}: setting variable attributes with {key} is not possible; write "
                    f"{argument} = Variable({argument!r}, {hidden}={to_text(value)}) and pass "
                    f"{argument}={argument}")
        attrs[key] = to_text(value)
    return attrs


def _by_input(inputs: Sequence[Symbol] | Mapping[str, Symbol], names: Sequence[str],
              where: str) -> dict[str, Symbol]:
    """The given symbols by input name."""
    if isinstance(inputs, Mapping):
        for key in inputs:
            if key not in names:
                raise MXNetError(f"{where}: it has no input {key!r}; its inputs are "
                                 f"{list(names)}{did_you_mean(key, names)}")
        return dict(inputs)
    if len(inputs) > len(names):
        raise MXNetError(f"{where}: {len(inputs)} inputs are given, expected {len(names)}: "
                         f"{list(names)}")
    return dict(zip(names, inputs, strict=False))


def _single(symbol: Symbol, where: str, input_name: str) -> Entry:
    """The only output of `symbol`."""
    if len(symbol.entries) != 1:
        outputs = symbol.list_outputs()
        raise MXNetError(f"{where}: input {input_name!r} must be a single tensor, but the symbol "
                         f"given has {len(outputs)} outputs ({', '.join(outputs[:5])}); "
                         "choose one, as in symbol[0]")
    return symbol.entries[0]


def copy_graph(entries: Iterable[Entry]) -> list[Entry]:
    """A copy of the graph, which shares the ops and their subgraphs: these are immutable."""
    entries = list(entries)
    copies: dict[int, Node] = {}
    order = topological_order(entries)
    for node in order:
        copy = Node(node.op, node.name, attrs=dict(node.attrs))
        copy.inputs = [Entry(copies[id(e.node)], e.index) for e in node.inputs]
        copies[id(node)] = copy
    for node in order:
        copies[id(node)].control_deps = tuple(copies.get(id(dep), dep)
                                              for dep in node.control_deps)
    return [Entry(copies[id(e.node)], e.index) for e in entries]


def substitute(entries: Sequence[Entry], replacements: Mapping[str, Entry]) -> list[Entry]:
    """`entries` with replacements for all variables of the given names; modifies the graph."""
    for node in topological_order(entries):
        aux = node.op.aux_indices() if node.op is not None else ()
        for index, entry in enumerate(node.inputs):
            new = replacements.get(entry.node.name) if entry.node.is_variable else None
            if new is None:
                continue
            if index in aux and not new.node.is_variable:
                raise MXNetError(f"{node.describe()}: {entry.node.name!r} is state that the op "
                                 f"writes; {new.node.describe()} is not a variable")
            node.inputs[index] = new
    return [replacements.get(e.node.name, e) if e.node.is_variable else e for e in entries]


def shown_attrs(attrs: Mapping[str, str]) -> dict[str, str]:
    """`attrs` with the reserved keys under both spellings."""
    shown = dict(attrs)
    for key in HIDDEN_KEYS:
        if f"__{key}__" in attrs:
            shown[key] = attrs[f"__{key}__"]
    return shown


def replacements(symbol: Symbol, args: Sequence[Symbol], kwargs: Mapping[str, Symbol]
                 ) -> dict[str, Entry]:
    """The entries that replace variables of a symbol, by position or by name."""
    if args and kwargs:
        raise TypeError("compose: give symbols by position or by name, not both")
    if len(symbol.entries) == 1 and symbol.entries[0].node.is_variable and (args or kwargs):
        raise MXNetError(f"{symbol!r} is a variable, it has no inputs to compose")
    names = symbol.list_inputs()
    if len(args) > len(names):
        raise MXNetError(f"compose: {len(args)} symbols are given for {len(names)} inputs {names}")
    entries = {}
    for key, other in (kwargs or dict(zip(names, args, strict=False))).items():
        if key not in names:
            raise MXNetError(f"compose: {symbol!r} has no input {key!r}; its inputs are "
                             f"{names[:50]}{did_you_mean(key, names)}")
        if len(other.entries) != 1:
            raise MXNetError(f"compose: {key!r} must be a single tensor, but {other!r} has "
                             f"{len(other.entries)} outputs; choose one, as in symbol[0]")
        entries[key] = other.entries[0]
    return entries

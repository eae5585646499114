"""Making nodes: an op, its arguments and attributes become a node with all its inputs.

Inputs that were not given become variables `<node>_<input>`, and such a variable inherits every
attribute of its node (so `conv0_weight` carries `kernel`, and a `lr_mult` given to a convolution
reaches its weight).  A new node only points at old ones; nothing that exists is copied or changed,
so composing costs the same whatever lies below.  One exception is MXNet's: an input variable that
has no initializer of its own gets the one its op supplies (`moving_var` starts at one).

`copy_graph` and `substitute` serve `symbol(x=other)`, which works on a copy of the whole graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..attribute import AttrScope
from ..base import MXNetError, did_you_mean
from ..graph import Entry, Graph, Node, topological_order
from ..name import NameManager
from ..ops import OPS, Op
from ..ops.param import HIDDEN_KEYS, fields_of, to_text
from ..ops.signature import split_arguments

__all__ = ["apply", "apply_named", "make_node", "read_op", "read_stored_op", "stored_attrs",
           "supply_initializers", "copy_graph", "substitute"]


def apply(op: type[Op], args: Sequence[Any], kwargs: Mapping[str, Any], hint: str,
          symbol_class: type) -> list[Entry]:
    """The visible outputs of a new node: what calling `sym.X(*args, **kwargs)` means."""
    call = split_arguments(op, args, kwargs, "symbol", symbol_class)
    params = {**call.params, **AttrScope.current.get(call.tail.get("attr"))}
    name = NameManager.current.get(call.tail.get("name"), hint)
    if not isinstance(name, str):
        raise MXNetError(f"{op.name}: name is {name!r}, expected text")
    if call.positional and call.named:
        raise TypeError(f"{name} ({op.name}): inputs are given by position and by name "
                        f"({', '.join(call.named)}); an op with any number of inputs takes "
                        "them one way or the other")
    given: list[Any] | dict[str, Any] = call.positional or call.named
    node = make_node(op, name, params, given)
    return [Entry(node, i) for i in range(node.num_visible)]


def apply_named(op_name: str, inputs: Sequence[Any], params: Mapping[str, Any], hint: str
                ) -> list[Entry]:
    """The same for a known op with all inputs in order: how operators and fixed functions call."""
    name = NameManager.current.get(None, hint)
    node = make_node(OPS.find(op_name), name, {**params, **AttrScope.current.get(None)},
                     list(inputs))
    return [Entry(node, i) for i in range(node.num_visible)]


def make_node(op_class: type[Op], name: str, params: Mapping[str, Any],
              given: Sequence[Any] | Mapping[str, Any]) -> Node:
    """A node of `op_class` on `given` symbols (by position or by input name).

    Raises MXNetError for an unknown or unreadable parameter, an unknown input, an input that is not
    one single tensor, or one that must be a variable (auxiliary state) and is not.
    """
    where = f"{name} ({op_class.name})"
    attrs = stored_attrs(params, where)
    if op_class.variadic:
        op_class.count_inputs(attrs, len(given))
    op = read_op(op_class, attrs, name)
    names, aux = op.list_inputs(), op.aux_indices()
    if op_class.variadic and not names:
        raise MXNetError(f"{where}: no inputs are given, expected at least one")
    entries = {key: _single(symbol, where, key)
               for key, symbol in _by_input(given, names, where).items()}
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
    return node


def read_op(op_class: type[Op], attrs: dict[str, str], name: str,
            graphs: tuple[Graph, ...] = ()) -> Op:
    """The op with parameters from `attrs`; `graphs` are those that it holds."""
    op = op_class.from_attrs(attrs, name)
    return op.holding(graphs) if graphs else op


def read_stored_op(op_class: type[Op], attrs: dict[str, str], name: str,
                   graphs: tuple[Graph, ...] = ()) -> Op:
    """The op of a node that has `attrs` already.

    MXNet keeps any attribute with an op that has no parameters, and its files hold such (GluonCV's
    `zeros_like` a `dtype`).  They never had a meaning, so they are no parameters here either.
    """
    return read_op(op_class, attrs if fields_of(op_class) else {}, name, graphs)


def supply_initializers(node: Node) -> None:
    """Give input variables without `__init__` the initializer that the op supplies."""
    op = node.op
    if op is None or not op.init:
        return
    for input_name, entry in zip(op.list_inputs(), node.inputs, strict=False):
        if input_name in op.init and entry.node.is_variable:
            entry.node.attrs.setdefault("__init__", op.init[input_name])


def stored_attrs(params: Mapping[str, Any], where: str) -> dict[str, str]:
    """Attributes as a node keeps them: text, with the framework's own keys as `__key__`.

    A key such as `weight_lr_mult` is an MXNetError that says what to write instead.
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


def _by_input(given: Sequence[Any] | Mapping[str, Any], names: Sequence[str], where: str
              ) -> dict[str, Any]:
    """The symbols that were given, by input name."""
    if isinstance(given, Mapping):
        for key in given:
            if key not in names:
                raise MXNetError(f"{where}: it has no input {key!r}; its inputs are "
                                 f"{list(names)}{did_you_mean(key, names)}")
        return dict(given)
    if len(given) > len(names):
        raise MXNetError(f"{where}: {len(given)} inputs are given, expected {len(names)}: "
                         f"{list(names)}")
    return dict(zip(names, given, strict=False))


def _single(symbol: Any, where: str, input_name: str) -> Entry:
    """The one output of `symbol`."""
    if len(symbol.entries) != 1:
        outputs = symbol.list_outputs()
        raise MXNetError(f"{where}: input {input_name!r} must be a single tensor, but the symbol "
                         f"given has {len(outputs)} outputs ({', '.join(outputs[:5])}); "
                         "choose one, as in symbol[0]")
    return symbol.entries[0]


def copy_graph(entries: Iterable[Entry]) -> list[Entry]:
    """The same outputs over new nodes; ops, and graphs that ops hold, are shared: none changes."""
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
    """`entries` with outputs in the place of all variables of the given names.

    The graph itself is changed: call it on a copy.
    """
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

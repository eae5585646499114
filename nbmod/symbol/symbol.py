"""`Symbol`: one or more outputs of a graph, and its methods.

A symbol is a list of entries (node, output index); its graph is all nodes that these depend on.
Composition, indexing and grouping make new symbols that share nodes.  Other methods are in one base
class per subject: `Attributes`, `Operators`, `Fluent`, `Inference`, `Binding`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..base import MXNetError, NotImplementedForSymbol, did_you_mean
from ..graph import Entry, Graph, Node, topological_order
from .attributes import Attributes
from .binding import Binding
from .compose import copy_graph, substitute
from .fluent import Fluent
from .inference import Inference
from .json_reader import read_graph
from .json_writer import entry_versions, write_graph
from .operators import Operators

__all__ = ["Symbol"]


class Symbol(Attributes, Operators, Fluent, Inference, Binding):
    """One or more outputs of a symbolic graph.

    A symbol is made by `Variable`, by operators (`sym.FullyConnected(...)`, `a + b`), by `Group`,
    `load` and `load_json`.  Iterating, `len`, and indexing by position, slice or output name
    (`net["fc1_output"]`) give its outputs as symbols.

    Parameters
    ----------
    entries : list of Entry or None
        The outputs, as (node, output index); internal.

    Examples
    --------
    >>> import nbmod as mx
    >>> data = mx.sym.Variable("data")
    >>> net = mx.sym.FullyConnected(data, num_hidden=2, name="fc")
    >>> net.list_arguments()
    ['data', 'fc_weight', 'fc_bias']
    >>> net.infer_shape(data=(4, 3))
    ([(4, 3), (2, 3), (2,)], [(4, 2)], [])
    >>> executor = net.simple_bind(mx.cpu(), data=(4, 3))
    >>> executor.forward()[0].shape
    (4, 2)
    """

    __slots__ = ("entries",)

    entries: list[Entry]

    def __init__(self, entries: list[Entry] | None):
        if entries is not None:
            self.entries = list(entries)

    # -- a sequence of outputs --------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Symbol]:
        return (Symbol([entry]) for entry in self.entries)

    def __getitem__(self, index: int | str | slice) -> Symbol:
        """Return outputs by position, slice or name.

        Parameters
        ----------
        index : int, slice or str
            Position, slice of positions, or name of an output.

        Returns
        -------
        Symbol
            The output, or outputs.

        Raises
        ------
        IndexError
            If there is no output at the position.
        ValueError
            If no output has the name, or more than one.
        """
        if isinstance(index, slice):
            chosen = self.entries[index]
            if not chosen:
                raise IndexError(f"{self!r}: no output is in [{index.start}:{index.stop}]")
            return Symbol(chosen)
        if isinstance(index, str):
            index = self._position(index)
        if not isinstance(index, (int, np.integer)):
            raise TypeError(f"{self!r}: index is a {type(index).__name__}, expected an integer, "
                            "a slice or the name of an output")
        if not -len(self.entries) <= index < len(self.entries):
            raise IndexError(f"{self!r}: index {index} is out of range for "
                             f"{len(self.entries)} output(s)")
        return Symbol([self.entries[index]])

    def _position(self, name: str) -> int:
        names = self.list_outputs()
        found = [i for i, output in enumerate(names) if output == name]
        if not found:
            raise ValueError(f"{self!r}: there is no output {name!r}{did_you_mean(name, names)}")
        if len(found) > 1:
            raise ValueError(f"{self!r}: {len(found)} outputs are called {name!r}")
        return found[0]

    @property
    def name(self) -> str | None:
        """The name of the node whose outputs these are; None for outputs of several nodes."""
        node = self._only_node()
        return None if node is None else node.name

    def _only_node(self) -> Node | None:
        node = self.entries[0].node
        return node if all(entry.node is node for entry in self.entries) else None

    def __repr__(self) -> str:
        name = self.name
        if name is None:
            return f"<Symbol group [{', '.join(entry.node.name for entry in self.entries)}]>"
        return f"<Symbol {name}>"

    def __bool__(self) -> bool:
        raise NotImplementedForSymbol(self.__bool__, "a comparison with None, or len()")

    # -- names ------------------------------------------------------------------------------

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs.

        Returns
        -------
        list of str
            `<node>_output`, or `<node>_<output>` for operators with several outputs; for a variable
            its name.

        Examples
        --------
        >>> import nbmod as mx
        >>> parts = mx.sym.split(mx.sym.Variable("x"), num_outputs=2, name="half")
        >>> parts.list_outputs()
        ['half_output0', 'half_output1']
        """
        names: dict[int, tuple[str, ...]] = {}
        for node, _ in self.entries:
            if node.op is not None and id(node) not in names:
                names[id(node)] = node.op.list_outputs()
        return [node.name if node.op is None else f"{node.name}_{names[id(node)][index]}"
                for node, index in self.entries]

    def list_inputs(self) -> list[str]:
        """Return the names of arguments and auxiliary states together, in topological order.

        Returns
        -------
        list of str
            The names.
        """
        return [node.name for node in topological_order(self.entries) if node.is_variable]

    def list_arguments(self) -> list[str]:
        """Return the names of the variables that are not auxiliary states, in topological order.

        Returns
        -------
        list of str
            The names.

        Examples
        --------
        >>> import nbmod as mx
        >>> a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
        >>> (a + 2 * b).list_arguments()
        ['a', 'b']
        """
        return [node.name for node in Graph(self.entries).arguments]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of the auxiliary states, such as moving averages.

        Returns
        -------
        list of str
            The names, in topological order.

        Examples
        --------
        >>> import nbmod as mx
        >>> net = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn")
        >>> net.list_auxiliary_states()
        ['bn_moving_mean', 'bn_moving_var']
        """
        return [node.name for node in Graph(self.entries).states]

    # -- other nodes ------------------------------------------------------------------------

    def get_internals(self) -> Symbol:
        """Return all visible outputs of all nodes of the graph, in topological order.

        Returns
        -------
        Symbol
            The outputs; indexing it by name gives an inner layer.

        Examples
        --------
        >>> import nbmod as mx
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc1")
        >>> net = mx.sym.Activation(net, act_type="relu", name="relu1")
        >>> net.get_internals().list_outputs()
        ['data', 'fc1_weight', 'fc1_bias', 'fc1_output', 'relu1_output']
        >>> net.get_internals()["fc1_output"]
        <Symbol fc1>
        """
        return Symbol([Entry(node, i) for node in topological_order(self.entries)
                       for i in range(node.num_visible)])

    def get_children(self) -> Symbol | None:
        """Return the inputs of the nodes of the outputs.

        Returns
        -------
        Symbol or None
            The inputs; None for variables.

        Examples
        --------
        >>> import nbmod as mx
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
        >>> net.get_children().list_outputs()
        ['data', 'fc_weight', 'fc_bias']
        """
        nodes = {id(entry.node): entry.node for entry in self.entries}
        inputs: dict[tuple[int, int], Entry] = {}
        for node in nodes.values():
            for entry in node.inputs:
                inputs.setdefault((id(entry.node), entry.index), entry)
        return Symbol(list(inputs.values())) if inputs else None

    # -- composition ------------------------------------------------------------------------

    def __call__(self, *args: Symbol, name: str | None = None, **kwargs: Symbol) -> Symbol:
        """Compose: copy the graph with variables replaced by other symbols.

        Parameters
        ----------
        *args : Symbol
            Replacements in the order of `list_inputs()`.
        name : str, optional
            New name of the node of the first output.
        **kwargs : Symbol
            Replacements by the variable's name; every variable of that name is replaced.

        Returns
        -------
        Symbol
            The new symbol.

        Raises
        ------
        MXNetError
            If there is no such variable, or a replacement has several outputs.
        TypeError
            If an argument is not a symbol, or symbols are given by position and by name.

        Examples
        --------
        >>> import nbmod as mx
        >>> x = mx.sym.Variable("x")
        >>> square = x * x
        >>> square(x=mx.sym.Variable("y")).list_arguments()
        ['y']
        """
        result = Symbol(copy_graph(self.entries))
        result._compose(*args, name=name, **kwargs)
        return result

    def _compose(self, *args: Symbol, name: str | None = None, **kwargs: Symbol) -> None:
        """Compose in place."""
        if args and kwargs:
            raise TypeError("compose: give symbols by position or by name, not both")
        for symbol in (*args, *kwargs.values()):
            if not isinstance(symbol, Symbol):
                raise TypeError(f"compose: a {type(symbol).__name__} is given, expected a Symbol")
        if len(self.entries) == 1 and self.entries[0].node.is_variable and (args or kwargs):
            raise MXNetError(f"{self!r} is a variable, it has no inputs to compose")
        names = self.list_inputs()
        if len(args) > len(names):
            raise MXNetError(f"compose: {len(args)} symbols are given for {len(names)} inputs "
                             f"{names}")
        replacements = {}
        for key, symbol in (kwargs or dict(zip(names, args, strict=False))).items():
            if key not in names:
                raise MXNetError(f"compose: {self!r} has no input {key!r}; its inputs are "
                                 f"{names[:50]}{did_you_mean(key, names)}")
            if len(symbol.entries) != 1:
                raise MXNetError(f"compose: {key!r} must be a single tensor, but {symbol!r} has "
                                 f"{len(symbol.entries)} outputs; choose one, as in symbol[0]")
            replacements[key] = symbol.entries[0]
        if name:
            self.entries[0].node.name = name
        self.entries = substitute(self.entries, replacements)

    def __copy__(self) -> Symbol:
        return Symbol(copy_graph(self.entries))

    def __deepcopy__(self, memo: object) -> Symbol:
        return self.__copy__()

    # -- text and files ---------------------------------------------------------------------

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """Return the graph as JSON in the format of MXNet 1.9.

        Parameters
        ----------
        remove_amp_cast : bool, default True
            Whether to leave out the casts that automatic mixed precision inserted.

        Returns
        -------
        str
            The JSON, which `load_json` reads.

        Examples
        --------
        >>> import nbmod as mx
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
        >>> mx.sym.load_json(net.tojson()).list_outputs()
        ['fc_output']
        """
        return write_graph(self.entries, remove_amp_cast)

    def save(self, fname: str | os.PathLike[str], remove_amp_cast: bool = True) -> None:
        """Write the graph as JSON to a file, which is replaced atomically.

        Parameters
        ----------
        fname : str
            Name of the file.
        remove_amp_cast : bool, default True
            Whether to leave out the casts that automatic mixed precision inserted.
        """
        from ..serialization import atomic_write

        with atomic_write(fname) as stream:
            stream.write(self.tojson(remove_amp_cast).encode())

    def __getstate__(self) -> dict[str, str | None]:
        return {"handle": self.tojson(False) if hasattr(self, "entries") else None}

    def __setstate__(self, state: dict[str, str | None]) -> None:
        if state["handle"] is not None:
            self.entries = read_graph(state["handle"])

    def __reduce__(self) -> tuple[type[Symbol], tuple[None], dict[str, str | None]]:
        return Symbol, (None,), self.__getstate__()

    def debug_str(self) -> str:
        """Return a textual description of the graph, for debugging.

        Returns
        -------
        str
            For every node: operator, name, inputs with their output index, attributes.
        """
        if len(self.entries) == 1 and self.entries[0].node.is_variable:
            return f"Variable:{self.entries[0].node.name}\n"
        lines = ["Symbol Outputs:"]
        lines += [f"\toutput[{i}]={node.name}({index})"
                  for i, (node, index) in enumerate(self.entries)]
        nodes = topological_order(self.entries)
        for node, versions in zip(nodes, entry_versions(nodes), strict=True):
            if node.is_variable:
                lines.append(f"Variable:{node.name}")
                continue
            lines += ["--------------------", f"Op:{node.op_name}, Name={node.name}", "Inputs:"]
            for i, (entry, version) in enumerate(zip(node.inputs, versions, strict=True)):
                shown = f" version={version}" if entry.node.is_variable else ""
                lines.append(f"\targ[{i}]={entry.node.name}({entry.index}){shown}")
            if node.attrs:
                lines += ["Attrs:", *(f"\t{k}={v}" for k, v in sorted(node.attrs.items()))]
        return "\n".join(lines) + "\n"


def __getattr__(name: str) -> Any:
    """MXNet keeps `Variable`, `Group`, `load` and the rest in this module."""
    from . import functions

    if name in functions.__all__:
        return getattr(functions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

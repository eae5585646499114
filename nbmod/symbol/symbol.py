"""`Symbol`: one or more outputs of a graph, and its methods.

A symbol is a list of entries (node, output index); its graph is all nodes that these depend on.
Composition, indexing and grouping make new symbols that share nodes.  Operators, ops as methods and
inference are in base classes: `Operators`, `Fluent`, `Inference`.

A node stores attributes as strings by key.  Reserved keys (`lr_mult`, `ctx_group`, ...) are stored
as `__lr_mult__` and can be read under both spellings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import DTypeLike

from ..base import MXNetError, NotImplementedForSymbol, did_you_mean, wrong_type
from ..context import Context, current_context
from ..core.config import tuning
from ..graph import Entry, Graph, Node, topological_order
from .compose import copy_graph, read_stored_op, replacements, shown_attrs, stored_attrs, substitute
from .fluent import Fluent
from .graph_text import graph_text
from .inference import Inference, read_context, read_dtype, read_groups, read_shape
from .json_reader import read_graph
from .json_writer import write_graph
from .operators import Operators

if TYPE_CHECKING:
    from ..execution.bind import Arrays, GradReq
    from ..executor import Executor
    from ..ndarray import NDArray

__all__ = ["Symbol"]


class Symbol(Operators, Fluent, Inference):
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

    def __getitem__(self, index: int | str | slice[int | None, int | None, int | None]
                    ) -> Symbol:
        """Return outputs by position, slice or name."""
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
        where = [i for i, output in enumerate(names) if output == name]
        if not where:
            raise ValueError(f"{self!r}: there is no output {name!r}{did_you_mean(name, names)}")
        if len(where) > 1:
            raise ValueError(f"{self!r}: {len(where)} outputs are called {name!r}; choose one by "
                             f"its position, which is one of {where}")
        return where[0]

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

    def _repr_svg_(self) -> str | None:
        """The drawing that notebooks show, if there is one; else they show the name."""
        from ..diagram.symbol_picture import notebook_svg

        try:
            return notebook_svg(self)
        except Exception:
            return None

    def __bool__(self) -> bool:
        raise NotImplementedForSymbol(self.__bool__, "a comparison with None, or len()")

    # -- names ------------------------------------------------------------------------------

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs: `<node>_<output>`, or the name of a variable."""
        names: dict[int, tuple[str, ...]] = {}
        for node, _ in self.entries:
            if node.op is not None and id(node) not in names:
                names[id(node)] = node.op.list_outputs()
        return [node.name if node.op is None else f"{node.name}_{names[id(node)][index]}"
                for node, index in self.entries]

    def list_inputs(self) -> list[str]:
        """Return the names of arguments and auxiliary states together, in topological order."""
        return [node.name for node in topological_order(self.entries) if node.is_variable]

    def list_arguments(self) -> list[str]:
        """Return the names of the variables that are not auxiliary states, in topological order."""
        return [node.name for node in Graph(self.entries).arguments]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of the auxiliary states, such as moving averages."""
        return [node.name for node in Graph(self.entries).states]

    # -- attributes -------------------------------------------------------------------------

    def attr(self, key: str) -> str | None:
        """Return an attribute of the symbol's node; None if there is none, or for several nodes.

        Parameters
        ----------
        key : str
            Name of the attribute; `name` is the node's name.
        """
        node = self._only_node()
        if node is None:
            return None
        return node.name if key == "name" else shown_attrs(node.attrs).get(key)

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """Return all attributes of the node of the first output.

        Parameters
        ----------
        recursive : bool, default False
            True is a DeprecationWarning, as in MXNet: `attr_dict` has those of all nodes.
        """
        if recursive:
            raise DeprecationWarning("list_attr(recursive=True) is gone, as in MXNet: "
                                     "use attr_dict()")
        return shown_attrs(self.entries[0].node.attrs)

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Return the attributes of all nodes of the graph that have any, by name of the node.

        Examples
        --------
        >>> net = mx.sym.Activation(mx.sym.Variable("x", wd_mult=0), act_type="relu", name="relu")
        >>> net.attr_dict()["relu"]
        {'act_type': 'relu'}
        """
        by_node: dict[str, dict[str, str]] = {}
        for node in topological_order(self.entries):
            if node.attrs:
                by_node.setdefault(node.name, {}).update(shown_attrs(node.attrs))
        return by_node

    def _set_attr(self, **kwargs: str) -> None:
        """Set attributes of the node; if one is an op parameter, the op is replaced."""
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError(f"_set_attr: {key} is {value!r}, expected text")
        node = self._only_node()
        if node is None:
            raise MXNetError("_set_attr: the symbol has outputs of several nodes; "
                             "set attributes of one output, as in symbol[0]")
        attrs = {**node.attrs, **stored_attrs(kwargs, node.describe())}
        if node.op is not None and attrs != node.attrs:
            node.op = read_stored_op(type(node.op), attrs, node.name, node.op.subgraphs)
        node.attrs = attrs

    # -- other nodes ------------------------------------------------------------------------

    def get_internals(self) -> Symbol:
        """Return all visible outputs of all nodes, in topological order; a name selects one.

        Examples
        --------
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
        """Return the inputs of the nodes of the outputs; None for variables."""
        nodes = {id(entry.node): entry.node for entry in self.entries}
        inputs = [entry for node in nodes.values() for entry in node.inputs]
        return Symbol(inputs) if inputs else None

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

        Examples
        --------
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
        for symbol in (*args, *kwargs.values()):
            if not isinstance(symbol, Symbol):
                raise TypeError(f"compose: a {type(symbol).__name__} is given, expected a Symbol")
        entries = replacements(self, args, kwargs)
        if name:
            self.entries[0].node.name = name
        self.entries = substitute(self.entries, entries)

    def __deepcopy__(self, memo: object = None) -> Symbol:
        return Symbol(copy_graph(self.entries))

    __copy__ = __deepcopy__

    # -- binding ----------------------------------------------------------------------------

    def simple_bind(self, ctx: Context, grad_req: GradReq = "write",
                    type_dict: Mapping[str, DTypeLike] | None = None,
                    stype_dict: Mapping[str, str] | None = None,
                    group2ctx: Mapping[str, Context] | None = None,
                    shared_arg_names: Sequence[str] | None = None,
                    shared_exec: Executor | None = None,
                    shared_buffer: dict[str, NDArray] | None = None, tune: bool = False,
                    numpy_first: bool | None = None, **kwargs: object) -> Executor:
        """Bind the symbol to new arrays of zeros, whose shapes are inferred from those given.

        Parameters
        ----------
        ctx : Context
            The device.
        grad_req : str, list of str or dict of str to str, default 'write'
            'write', 'add' or 'null': what happens to gradients, for all arguments, in the order of
            `list_arguments()`, or by name.
        type_dict : dict of str to dtype, optional
            Element types of arguments; float32 for others.
        stype_dict : dict of str to str, optional
            Storage types of arguments: 'default', 'csr' or 'row_sparse'; those of others are as
            their variables declare.
        group2ctx : dict of str to Context, optional
            The device of the nodes and variables of each `ctx_group`; others are on `ctx`, or where
            their first input is, and states with their nodes.
        shared_arg_names : list of str, optional
            Arguments that share their arrays with `shared_exec`.
        shared_exec : Executor, optional
            An executor to share arrays and memory with.
        shared_buffer : dict of str to NDArray, optional
            Arrays that are used where they fit; new arrays are added to it.
        tune : bool, default False
            Whether to measure the algorithms of convolutions that are new on this machine, and use
            the fastest, here and later; otherwise they are estimated.
        numpy_first : bool, optional
            Whether passes may begin with NumPy forms of operators, whose last digits differ, while
            helper processes compile missing kernels; by default those of inference may.
        **kwargs : tuple of int
            Known shapes, by name of the argument.  Other values of other names are ignored.

        Examples
        --------
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
        >>> executor = net.simple_bind(mx.cpu(), data=(1, 3))
        >>> executor.arg_dict["fc_weight"][:] = 2
        >>> executor.forward(data=mx.nd.array([[1, 2, 3]]))[0].asnumpy().tolist()
        [[12.0, 12.0]]
        """
        from ..execution.bind import simple_bind
        from ..executor import Executor

        if not isinstance(shared_exec, (Executor, type(None))):
            raise wrong_type("simple_bind: shared_exec", shared_exec, "an Executor")
        if not isinstance(type_dict, (dict, type(None))):
            raise wrong_type("simple_bind: type_dict", type_dict, "a dict of types by name")
        names = {*self.list_arguments(), *self.list_auxiliary_states()}
        shapes = {name: read_shape(name, shape) for name, shape in kwargs.items()
                  if isinstance(shape, (tuple, list)) or name in names}
        types = {name: read_dtype(name, dtype) for name, dtype in (type_dict or {}).items()}
        with tuning(tune):
            bound = simple_bind(
                self, read_context(ctx), grad_req=grad_req, type_dict=types,
                shared_arg_names=shared_arg_names, shared_exec=shared_exec,
                shared_buffer=shared_buffer, shapes=shapes, groups=read_groups(group2ctx),
                stype_dict=stype_dict)
            return Executor(bound._replace(numpy_first=numpy_first), shared_exec)

    def bind(self, ctx: Context, args: Arrays, args_grad: Arrays | None = None,
             grad_req: GradReq = "write", aux_states: Arrays | None = None,
             group2ctx: Mapping[str, Context] | None = None,
             shared_exec: Executor | None = None, tune: bool = False,
             numpy_first: bool | None = None) -> Executor:
        """Bind the symbol to arrays.

        Parameters
        ----------
        ctx : Context
            The device.
        args : list of NDArray or dict of str to NDArray
            The arguments, in the order of `list_arguments()` or by name.
        args_grad : list of NDArray or dict of str to NDArray, optional
            Arrays for the gradients; arguments without one have no gradient.
        grad_req : str, list of str or dict of str to str, default 'write'
            'write', 'add' or 'null': what happens to gradients.
        aux_states : list of NDArray or dict of str to NDArray, optional
            The auxiliary states, in the order of `list_auxiliary_states()` or by name.
        group2ctx : dict of str to Context, optional
            As for `simple_bind`; arrays may then be on any device.
        shared_exec : Executor, optional
            An executor to share memory with.
        tune, numpy_first : bool, optional
            As for `simple_bind`.

        Examples
        --------
        >>> x, value, gradient = mx.sym.Variable("x"), mx.nd.array([3.0]), mx.nd.zeros(1)
        >>> executor = (x * x).bind(mx.cpu(), {"x": value}, args_grad={"x": gradient})
        >>> executor.forward(is_train=True)[0].asscalar().item()
        9.0
        >>> executor.backward(mx.nd.ones(1))
        >>> gradient.asscalar().item()
        6.0
        """
        from ..execution.bind import bind
        from ..executor import Executor

        if not isinstance(args, (list, tuple, Mapping)):
            raise wrong_type("bind: args", args, "a list of NDArray or a dict of NDArray by name")
        if not isinstance(shared_exec, (Executor, type(None))):
            raise wrong_type("bind: shared_exec", shared_exec, "an Executor")
        with tuning(tune):
            bound = bind(self, read_context(ctx), args, args_grad, grad_req, aux_states,
                         read_groups(group2ctx))
            return Executor(bound._replace(numpy_first=numpy_first), shared_exec)

    def eval(self, ctx: Context | None = None, **kwargs: NDArray) -> list[NDArray]:
        """Compute the outputs for given arguments: bind, and run one forward pass.

        Parameters
        ----------
        ctx : Context, optional
            The device; the current context unless given.
        **kwargs : NDArray
            The arguments, by name.

        Examples
        --------
        >>> a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
        >>> (a + b).eval(a=mx.nd.array([1]), b=mx.nd.array([2]))[0].asnumpy().tolist()
        [3.0]
        """
        return self.bind(current_context() if ctx is None else ctx, kwargs).forward()

    def gradient(self, wrt: Sequence[str]) -> NoReturn:
        """Raise an MXNetError, as in MXNet: bind the symbol and call `backward`.

        Parameters
        ----------
        wrt : list of str
            Ignored.
        """
        raise MXNetError("gradient is not implemented for Symbol (nor is it in MXNet): bind the "
                         "symbol with args_grad and call backward()")

    grad = gradient

    def optimize_for(self, backend: str, *args: object, **kwargs: object) -> Symbol:
        """Return the symbol: every graph is optimized when it is bound.

        Parameters
        ----------
        backend, *args, **kwargs
            Accepted for compatibility and ignored.
        """
        return self

    def get_backend_symbol(self, backend: str) -> Symbol:
        """Return the symbol: there is one backend.

        Parameters
        ----------
        backend : str
            Accepted for compatibility and ignored.
        """
        return self

    # -- text and files ---------------------------------------------------------------------

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """Return the graph as JSON in the format of MXNet 1.9.

        Parameters
        ----------
        remove_amp_cast : bool, default True
            Whether to leave out the casts that automatic mixed precision inserted.
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
        from ..core.atomic import atomic_write
        from ..core.foreign import refuse_suffix

        refuse_suffix(os.fspath(fname), ".json")
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
        """Describe the graph: of each node operator, name, inputs with output index, attributes."""
        return graph_text(self.entries)


def __getattr__(name: str) -> object:
    """MXNet keeps `Variable`, `Group`, `load` and the rest in this module."""
    from . import functions

    if name in functions.__all__:
        return getattr(functions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

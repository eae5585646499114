"""`SymbolBlock`: a symbol with its parameters, called on arrays.

Outside of `autograd.record()` a call runs an executor that is bound once for each combination of
shapes; inside, the nodes run one by one, so that they are recorded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import autograd
from .. import symbol as sym
from ..base import MXNetError
from ..checkpoint import save_checkpoint
from ..context import Context
from ..executor import Executor
from ..graph import Entry, Graph
from ..ndarray import NDArray, invoke
from ..symbol import Symbol
from ..symbol.compose import copy_graph, substitute
from .parameter import ParameterDict

__all__ = ["SymbolBlock"]


class SymbolBlock:
    """A network given by a symbol, which is called on arrays.

    Parameters
    ----------
    outputs : Symbol or list of Symbol
        What a call returns.
    inputs : Symbol or list of Symbol
        Variables that a call takes; all others are parameters.
    params : ParameterDict or dict of str to Parameter, optional
        Parameters to share.

    Raises
    ------
    MXNetError
        If an input is no variable of the outputs.

    Examples
    --------
    >>> data = mx.sym.var("data")
    >>> net = mx.gluon.SymbolBlock(mx.sym.FullyConnected(data, num_hidden=2, name="fc"), data)
    >>> net.initialize(mx.init.One())
    >>> net(mx.nd.ones((1, 3))).shape
    (1, 2)
    """

    def __init__(self, outputs: Any, inputs: Any, params: Any = None):
        self.symbol = _joined(outputs if isinstance(outputs, Symbol) else sym.Group(list(outputs)))
        variables = [inputs] if isinstance(inputs, Symbol) else list(inputs)
        self.input_names = [str(each.name) for each in variables]
        states = self.symbol.list_auxiliary_states()
        names = [*self.symbol.list_arguments(), *states]
        if unknown := [name for name in self.input_names if name not in names]:
            raise MXNetError(f"SymbolBlock: inputs {unknown} are no variables of the outputs: "
                             f"{names}")
        self._params = ParameterDict(shared=params)
        for name in names:
            if name not in self.input_names and self._params._get_impl(name) is None:
                self._params.get(name, grad_req="null" if name in states else "write",
                                 allow_deferred_init=True)
        self._executors: dict[Any, Executor] = {}

    @staticmethod
    def imports(symbol_file: str, input_names: str | Sequence[str], param_file: str | None = None,
                ctx: Any = None, allow_missing: bool = False, ignore_extra: bool = False
                ) -> SymbolBlock:
        """Load a network that `HybridBlock.export` or `Module.save_checkpoint` wrote.

        Parameters
        ----------
        symbol_file : str
            File of the symbol, `...-symbol.json`.
        input_names : str or list of str
            Names of the inputs.
        param_file : str, optional
            File of the parameters, `...-0000.params`.
        ctx : Context, optional
            Device; the current context by default.
        allow_missing : bool, default False
            Whether parameters may be missing in the file.
        ignore_extra : bool, default False
            Whether the file may hold other arrays.

        Raises
        ------
        MXNetError
            If a file is damaged, or parameters are missing.
        """
        names = [input_names] if isinstance(input_names, str) else list(input_names)
        block = SymbolBlock(sym.load(symbol_file), [sym.var(name) for name in names])
        if param_file is not None:
            block._params.load(param_file, ctx, allow_missing, ignore_extra)
        return block

    def __repr__(self) -> str:
        return f"SymbolBlock({self.input_names} -> {self.symbol.list_outputs()})"

    @property
    def params(self) -> ParameterDict:
        """Parameters and auxiliary states by name."""
        return self._params

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Return the parameters by name.

        Parameters
        ----------
        select : str, optional
            Regular expression that names must match from their beginning.
        """
        collected = ParameterDict()
        collected.update({name: parameter for name, parameter in self._params.items()
                          if select is None or re.match(select, name)})
        return collected

    def initialize(self, init: Any = None, ctx: Any = None, verbose: bool = False,
                   force_reinit: bool = False) -> None:
        """Initialize parameters that have no values.

        Parameters
        ----------
        init : Initializer or str, optional
            Uniform values by default.
        ctx : Context, optional
            Device.
        verbose : bool, default False
            Accepted for compatibility.
        force_reinit : bool, default False
            Whether to replace values that are there.
        """
        self._params.initialize(init, ctx, verbose, force_reinit)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Accepted for compatibility: a symbol is compiled in any case.

        Parameters
        ----------
        active : bool, default True
            Has no effect.
        **kwargs
            Have no effect.
        """

    def cast(self, dtype: Any) -> None:
        """Change the element type of the parameters.

        For float16, those of batch normalization become float32, as in MXNet.

        Parameters
        ----------
        dtype : dtype
            Element type.

        Examples
        --------
        >>> data = mx.sym.var("data")
        >>> net = mx.gluon.SymbolBlock(mx.sym.FullyConnected(data, num_hidden=2, name="fc"), data)
        >>> net.initialize()
        >>> net.cast("float64")
        >>> net(mx.nd.ones((1, 3), dtype="float64")).dtype
        <class 'numpy.float64'>
        """
        half = np.dtype(dtype) == np.float16
        wide = {entry.node.name for node in Graph(self.symbol.entries).nodes
                if half and node.op is not None and node.op.name == "BatchNorm"
                for entry in node.inputs[1:]}
        for name, each in self._params.items():
            each.cast(np.float32 if name in wide else dtype)
        self._executors.clear()

    def save_parameters(self, filename: str) -> None:
        """Write the parameters to a file.

        Parameters
        ----------
        filename : str
            File.
        """
        self._params.save(filename)

    def load_parameters(self, filename: str, ctx: Any = None, allow_missing: bool = False,
                        ignore_extra: bool = False) -> None:
        """Read the parameters from a file.

        Parameters
        ----------
        filename : str
            File of `save_parameters` or of a checkpoint.
        ctx : Context, optional
            Device.
        allow_missing, ignore_extra
            As for `imports`.
        """
        self._params.load(filename, ctx, allow_missing, ignore_extra)

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write the symbol and the parameters to files, as `mx.model.save_checkpoint`.

        Parameters
        ----------
        path : str
            Beginning of the names of the files.
        epoch : int, default 0
            Number in the name of the file of the parameters.
        remove_amp_cast : bool, default True
            Whether to leave out the casts that automatic mixed precision inserted.
        """
        states = self.symbol.list_auxiliary_states()
        arrays = {name: each.data() for name, each in self._params.items()}
        save_checkpoint(path, epoch, self.symbol,
                        {name: x for name, x in arrays.items() if name not in states},
                        {name: x for name, x in arrays.items() if name in states},
                        remove_amp_cast)

    def __call__(self, *args: Any) -> Any:
        """Compute the outputs: an array, or a list of several; for symbols, compose a symbol."""
        if args and len(args) == len(self.input_names) and all(
                isinstance(x, Symbol) for x in args):
            return self.symbol(**dict(zip(self.input_names, args, strict=True)))
        if len(args) != len(self.input_names) or not all(isinstance(x, NDArray) for x in args):
            raise MXNetError(f"SymbolBlock: given {[type(x).__name__ for x in args]}, expected "
                             f"arrays for {self.input_names}")
        inputs = dict(zip(self.input_names, args, strict=True))
        self._finish(inputs)
        if autograd.is_recording():
            recorded = self._record(inputs)
        else:
            outputs = self._executor(inputs).forward(autograd.is_training(), **inputs)
            recorded = [y.copy() for y in outputs]
        return recorded[0] if len(recorded) == 1 else recorded

    def infer_shape(self, *args: NDArray) -> None:
        """Find the shapes of the parameters, without computing outputs.

        Parameters
        ----------
        *args : NDArray
            Inputs, of which only the shapes are used.
        """
        self._finish(dict(zip(self.input_names, args, strict=True)))

    def _finish(self, inputs: dict[str, NDArray]) -> None:
        """Make the parameters whose shapes the inputs tell."""
        waiting = [name for name, each in self._params.items() if each._data is None]
        if not waiting:
            return
        arguments, _, states = self.symbol.infer_shape(
            **{name: x.shape for name, x in inputs.items()})
        names = [*self.symbol.list_arguments(), *self.symbol.list_auxiliary_states()]
        shapes = dict(zip(names, [*(arguments or ()), *(states or ())], strict=True))
        for name in waiting:
            if not self._params[name]._deferred_init:
                self._params[name].data()  # an error
            self._params[name].shape = shapes[name]
            self._params[name]._finish_deferred_init()

    def _executor(self, inputs: dict[str, NDArray]) -> Executor:
        """The executor for arrays like the inputs."""
        ctx: Context = next(iter(inputs.values())).context
        key = (ctx, *((x.shape, np.dtype(x.dtype)) for x in inputs.values()),
               *(id(each.data()) for each in self._params.values()))
        if key not in self._executors:
            arrays = {name: x.copy() for name, x in inputs.items()}
            arrays |= {name: each.data() for name, each in self._params.items()}
            self._executors[key] = self.symbol.bind(
                ctx, {name: arrays[name] for name in self.symbol.list_arguments()},
                grad_req="null",
                aux_states={name: arrays[name] for name in self.symbol.list_auxiliary_states()})
        return self._executors[key]

    def _record(self, inputs: dict[str, NDArray]) -> list[NDArray]:
        """Run the nodes one by one, recorded by `autograd`."""
        graph = Graph(self.symbol.entries)
        values: dict[Entry, NDArray] = {}
        for node in graph.nodes:
            if node.op is None:
                values[Entry(node, 0)] = (inputs[node.name] if node.name in inputs
                                          else self._params[node.name].data())
                continue
            outputs = invoke(node.op, [values[entry] for entry in node.inputs])
            for index, array in enumerate(outputs if isinstance(outputs, list) else [outputs]):
                values[Entry(node, index)] = array
        return [values[entry] for entry in graph.outputs]


def _joined(symbol: Symbol) -> Symbol:
    """The network in which variables of one name, which are one parameter, are one variable."""
    names = symbol.list_inputs()
    if len({*names}) == len(names):
        return symbol
    entries, first = copy_graph(symbol.entries), dict[str, Entry]()
    for node in Graph(entries).variables:
        first.setdefault(node.name, Entry(node))
    return Symbol(substitute(entries, first))

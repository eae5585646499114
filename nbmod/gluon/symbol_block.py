"""`SymbolBlock`: a `HybridBlock` whose trace is given, such as a network that was exported."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import symbol as sym
from ..base import STORAGE_FLAGS, ArgumentError, CheckError, DTypeArg, element_type
from ..graph import Entry, Graph
from ..ndarray import NDArray
from ..symbol import Symbol
from ..symbol.compose import copy_graph, substitute
from .base_parameter import Parameter
from .call_structure import agree, flatten, regroup
from .hybrid_block import HybridBlock
from .parameter_dict import ParameterDict
from .parameter_files import ParameterFile
from .utils import Contexts

__all__ = ["SymbolBlock"]

_ROW_SPARSE = str(STORAGE_FLAGS["row_sparse"])


class SymbolBlock(HybridBlock):
    """A network given by a symbol, which is called on arrays or symbols.

    Parameters
    ----------
    outputs : Symbol or nested list of Symbol
        Results of a call.
    inputs : Symbol or nested list of Symbol
        Variables that a call takes; all others are parameters.
    params : ParameterDict or dict of str to Parameter, optional
        Parameters to share.

    Examples
    --------
    >>> data = mx.sym.var("data")
    >>> net = mx.gluon.SymbolBlock(mx.sym.FullyConnected(data, num_hidden=2, name="fc"), data)
    >>> net.initialize(mx.init.One())
    >>> net(mx.nd.ones((1, 3))).shape
    (1, 2)
    """

    def __init__(self, outputs: Any, inputs: Any,
                 params: ParameterDict | Mapping[str, Parameter] | None = None):
        super().__init__()
        self._prefix = ""
        variables, self._in_format = flatten(
            list(inputs) if isinstance(inputs, Symbol) else inputs, "input")
        results, self._out_format = flatten(outputs, "output")
        self.symbol = _joined(results[0] if len(results) == 1 else sym.Group(results))
        if computed := [each.name for each in variables if each.entries[0].node.op is not None]:
            raise CheckError(f"Input symbols must be variable, but {computed[0]} is an output of "
                             "operators")
        self.input_names = [str(each.name) for each in variables]
        self._cached_graph = variables, self.symbol
        self._params = ParameterDict("", _as_dict(params))
        self._add_parameters()
        start = len(os.path.commonprefix([*self._params]))
        self._reg_params = {name[start:]: each for name, each in self._params.items()}

    def _add_parameters(self) -> None:
        """Make a parameter of each variable that is no input, where none is shared."""
        arguments, states = self.symbol.list_arguments(), self.symbol.list_auxiliary_states()
        types, _, state_types = self.symbol.infer_type_partial()
        attributes = self.symbol.attr_dict()
        for name, dtype in zip([*arguments, *states], [*types, *state_types], strict=True):
            if name in self.input_names or self._params._get_impl(name) is not None:
                continue
            if attributes.get(name, {}).get("__storage_type__") == _ROW_SPARSE:
                raise CheckError(f"SymbolBlock doesn't support Parameter {name!r} because its "
                                 "storage type is 'row_sparse'.")
            self._params.get(name, grad_req="null" if name in states else "write",
                             dtype=dtype or np.float32, allow_deferred_init=True)

    @staticmethod
    def imports(symbol_file: str, input_names: str | Sequence[str], param_file: str | None = None,
                ctx: Contexts = None, allow_missing: bool = False, ignore_extra: bool = False
                ) -> SymbolBlock:
        """Load a network that `HybridBlock.export` or `Module.save_checkpoint` wrote.

        Parameters
        ----------
        symbol_file : str
            File of the symbol, ``...-symbol.json``.
        input_names : str or list of str
            Names of the inputs.
        param_file : str, optional
            File of the parameters, ``...-0000.params``, whose element types they get.
        ctx : Context or list of Context, optional
            Devices; `cpu(0)` by default.
        allow_missing : bool, default False
            Whether parameters may be missing in the file.
        ignore_extra : bool, default False
            Whether the file may hold other arrays.

        Raises
        ------
        AssertionError
            If parameters are missing.
        MXNetError
            If a file is damaged.
        """
        names = [input_names] if isinstance(input_names, str) else list(input_names)
        block = SymbolBlock(sym.load(symbol_file), [sym.var(name) for name in names])
        if param_file is None:
            return block
        try:
            block.collect_params().load(param_file, ctx, allow_missing, ignore_extra,
                                        cast_dtype=True, dtype_source="saved")
        except CheckError as error:
            unknown = sorted({*names} - {*block.symbol.list_inputs()})
            if not unknown:
                raise
            arrays = ParameterFile.read(param_file).by_whole_name("").arrays
            others = [name for name in block.symbol.list_inputs() if name not in arrays]
            raise CheckError(f"{error} {symbol_file} has no variables {unknown}, which input_names "
                             f"tells; those without arrays in the file are {others}.") from None
        return block

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(\n{self.symbol!r} : {len(self.input_names)} -> "
                f"{len(self.symbol)}\n)")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_cached_graph": self._cached_graph}

    def _clear_cached_op(self) -> None:
        self._cached_op = None

    def reset_ctx(self, ctx: Contexts) -> None:
        """Move the parameters to other devices.

        Parameters
        ----------
        ctx : Context or list of Context
            Devices.
        """
        self.collect_params().reset_ctx(ctx)

    def cast(self, dtype: DTypeArg) -> None:
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
        half = element_type(dtype) == np.float16
        wide = {entry.node.name for node in Graph(self.symbol.entries).nodes
                if half and node.op is not None and node.op.name == "BatchNorm"
                for entry in node.inputs[1:]}
        self._clear_cached_op()
        for name, each in self._params.items():
            each.cast("float32" if name in wide else dtype)

    def infer_shape(self, *args: Any) -> None:
        """Find the shapes of the parameters, and make those that are initialized.

        Parameters
        ----------
        *args : NDArray
            Arguments of a call, of which only the shapes are used.
        """
        super().infer_shape(*args)
        for parameter in self._params.values():
            parameter._finish_deferred_init()

    def forward(self, x: Any, *args: Any) -> Any:
        """Compute the outputs for arrays, or compose a symbol for symbols.

        Parameters
        ----------
        x, *args : NDArray or Symbol
            Inputs, in the order of `input_names`.
        """
        if not isinstance(x, (NDArray, Symbol)):
            raise CheckError("HybridBlock requires the first argument to forward be either Symbol "
                             f"or NDArray, but got {type(x)}; SymbolBlock: expected arrays for "
                             f"{self.input_names}")
        if isinstance(x, NDArray):
            with x.context:
                return self._call_cached_op(x, *args)
        flat, form = flatten([x, *args], "input")
        assert self._in_format is not None and self._out_format is not None
        if not agree(form, self._in_format):
            raise ArgumentError(f"SymbolBlock: symbols of structure {form} are given, expected "
                                f"{self._in_format} for {self.input_names}")
        inputs = {name: each.entries[0] for name, each in zip(self.input_names, flat, strict=True)}
        entries = substitute(copy_graph(self.symbol.entries), inputs)
        return regroup([Symbol([entry]) for entry in entries], self._out_format)


def _as_dict(params: ParameterDict | Mapping[str, Parameter] | None) -> ParameterDict | None:
    """Parameters to share, as a `ParameterDict`."""
    if params is None or isinstance(params, ParameterDict):
        return params
    shared = ParameterDict()
    shared.update(params)
    return shared


def _joined(symbol: Symbol) -> Symbol:
    """The network in which variables of one name, which are one parameter, are one variable."""
    names = symbol.list_inputs()
    if len({*names}) == len(names):
        return symbol
    entries, first = copy_graph(symbol.entries), dict[str, Entry]()
    for node in Graph(entries).variables:
        first.setdefault(node.name, Entry(node))
    return Symbol(substitute(entries, first))

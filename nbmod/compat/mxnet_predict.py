"""`mxnet_predict`: the small interface for inference that MXNet's amalgamation has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import ndarray as nd
from .. import symbol as sym
from ..base import MXNetError
from ..checkpoint import strip_kind
from ..context import Context
from ..core.reprs import safe_repr, shaped
from ..ndarray import NDArray
from ..serving import bind_for_inference

__all__ = ["Predictor", "load_ndarray_file"]


class Predictor:
    """A network bound for inference.

    Parameters
    ----------
    symbol_file : str
        JSON text of the symbol: the contents of the file, not its name.
    param_raw_bytes : bytes
        Contents of a file of parameters.
    input_shapes : dict of str to tuple of int
        Shapes of the inputs.
    dev_type : {'cpu', 'gpu'}, default 'cpu'
        Kind of device.
    dev_id : int, default 0
        Number of the device.
    type_dict : dict of str to dtype, optional
        Element types of the inputs; float32 by default.

    Raises
    ------
    MXNetError
        If the symbol or the parameters are damaged, or a shape is missing.

    Examples
    --------
    >>> import os, tempfile
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fc.params")
    ...     mx.nd.save(path, {"arg:fc_weight": mx.nd.ones((2, 3)), "arg:fc_bias": mx.nd.zeros(2)})
    ...     with open(path, "rb") as file:
    ...         parameters = file.read()
    >>> predictor = Predictor(net.tojson(), parameters, {"data": (1, 3)})
    >>> predictor.forward(data=[[1, 2, 3]])
    >>> predictor.get_output(0).tolist()
    [[6.0, 6.0]]
    """

    def __init__(self, symbol_file: str, param_raw_bytes: bytes,
                 input_shapes: Mapping[str, tuple[int, ...]], dev_type: str = "cpu",
                 dev_id: int = 0, type_dict: Mapping[str, Any] | None = None):
        symbol, arrays = sym.load_json(symbol_file), load_ndarray_file(param_raw_bytes)
        if not isinstance(arrays, dict):
            raise MXNetError("Predictor: the parameters have no names, expected a file of a "
                             "checkpoint")
        shapes = dict(input_shapes)
        context = Context(dev_type, dev_id)
        arguments, states = ({strip_kind(name): array.as_in_context(context)
                              for name, array in arrays.items() if name.startswith(kind)}
                             for kind in ("arg:", "aux:"))
        self._executor = bind_for_inference((symbol, arguments, states), shapes, type_dict or {})
        self._inputs = [*shapes]

    @safe_repr
    def __repr__(self) -> str:
        arrays = self._executor.arg_dict
        return f"<Predictor: {shaped((name, arrays[name].shape) for name in self._inputs)}>"

    def forward(self, **kwargs: Any) -> None:
        """Compute the outputs.

        Parameters
        ----------
        **kwargs
            Values of inputs by name: arrays of NumPy, or lists.

        Raises
        ------
        MXNetError
            For an unknown input.
        """
        for name, value in kwargs.items():
            if name not in self._inputs:
                raise MXNetError(f"forward: there is no input {name!r}; inputs are {self._inputs}")
            self._executor.arg_dict[name][:] = np.asarray(value)
        self._executor.forward(is_train=False)

    def reshape(self, input_shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Change the shapes of inputs.

        Parameters
        ----------
        input_shapes : dict of str to tuple of int
            New shapes.
        """
        shapes: dict[str, Any] = dict(input_shapes)
        self._executor = self._executor.reshape(allow_up_sizing=True, **shapes)

    def get_output(self, index: int) -> np.ndarray:
        """Return an output.

        Parameters
        ----------
        index : int
            Its position.
        """
        return self._executor.outputs[index].asnumpy()


def load_ndarray_file(nd_bytes: bytes) -> dict[str, NDArray] | list[NDArray]:
    """Return the arrays in the contents of a file of parameters.

    Parameters
    ----------
    nd_bytes : bytes
        Contents of the file.
    """
    return nd.load_frombuffer(nd_bytes)

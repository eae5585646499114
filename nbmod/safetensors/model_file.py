"""Parameters and whole networks in `.safetensors` files.

Parameters have the names of MXNet's checkpoints, `arg:<name>` and `aux:<name>`.  A network is the
JSON of its symbol in the metadata, so that one file is a model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from .. import symbol as sym
from ..base import FLAG_OF_DTYPE, Array, MXNetError, did_you_mean
from ..checkpoint import join_params, split_params
from ..context import cpu
from ..ndarray import NDArray
from ..ndarray.saving import warn_of_nan
from ..symbol import Symbol
from .tensor_file import SafetensorsError, read_tensors, write_tensors

__all__ = ["SYMBOL", "as_ndarrays", "load", "load_model", "parse_symbol", "save", "save_model",
           "split_by_symbol"]

SYMBOL = "mxnet_symbol"
"""The metadata that has the JSON of a symbol."""

Path = str | os.PathLike[str]
Params = dict[str, NDArray]


def save(path: Path, data: Mapping[str, NDArray | Array],
         metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays to a `.safetensors` file, as a whole or not at all.

    Parameters
    ----------
    path : str or path
        Name of the file.
    data : dict of str to NDArray
        Arrays by name, from any device; NumPy arrays are accepted, too.
    metadata : dict of str to str, optional
        Texts by name.

    Raises
    ------
    SafetensorsError
        If `data` is not a dict, or the format cannot hold a name, a text or a type.
    MXNetError
        If the file cannot be written, or its name has the suffix of another format.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "net.safetensors")
    ...     mx.safetensors.save(path, {"weight": mx.nd.array([1, 2], dtype="float16")})
    ...     mx.safetensors.load(path)["weight"].asnumpy()
    array([1., 2.], dtype=float16)
    """
    if not isinstance(data, Mapping):
        raise SafetensorsError(f"{path}: expected a dict of arrays by name, given a "
                               f"{type(data).__name__}: this format has no arrays without names")
    write_tensors(path, {name: array.asnumpy() if isinstance(array, NDArray) else array
                         for name, array in data.items()}, metadata)


def load(path: Path) -> Params:
    """Read the arrays of a `.safetensors` file.

    Parameters
    ----------
    path : str or path
        Name of the file, whoever wrote it.

    Returns
    -------
    dict of str to NDArray
        Arrays on the CPU by name, in the order of the header.  Scalars have shape (1,), as no
        NDArray has none; elements of bfloat16 are widened to float32.

    Raises
    ------
    SafetensorsError
        If the file is damaged.
    MXNetError
        If it cannot be read, or has a type that no NDArray has; `read_tensors` reads that for
        NumPy.
    """
    return as_ndarrays(path, read_tensors(path)[0])


def as_ndarrays(path: Path, arrays: Mapping[str, Array]) -> Params:
    """Wrap NumPy arrays of a file as NDArrays on the CPU; scalars have shape (1,).

    Parameters
    ----------
    path : str or path
        Name of the file, for error messages.
    arrays : dict of str to numpy.ndarray
        Arrays by name.

    Raises
    ------
    MXNetError
        If an array has a type that no NDArray has.
    """
    converted = {}
    for name, array in arrays.items():
        if array.dtype not in FLAG_OF_DTYPE:
            raise MXNetError(f"{path}: array {name!r} has elements of {array.dtype}, expected one "
                             f"of {', '.join(map(str, FLAG_OF_DTYPE))}; read it by NumPy and "
                             "convert it")
        converted[name] = NDArray(array if array.ndim else array.reshape(1), cpu())
    warn_of_nan(converted, os.fspath(path))
    return converted


def save_model(path: Path, symbol: Symbol, arg_params: Mapping[str, NDArray],
               aux_params: Mapping[str, NDArray], metadata: Mapping[str, str] | None = None,
               remove_amp_cast: bool = True) -> None:
    """Write a network and its parameters to one `.safetensors` file, as a whole or not at all.

    Parameters
    ----------
    path : str or path
        Name of the file.
    symbol : Symbol
        The network.
    arg_params, aux_params : dict of str to NDArray
        Parameters and auxiliary states by name.
    metadata : dict of str to str, optional
        More texts by name, such as a licence.
    remove_amp_cast : bool, default True
        Omit casts that mixed precision inserted.

    Raises
    ------
    SafetensorsError
        If the format cannot hold a name, a text or a type.
    MXNetError
        If the file cannot be written, or its name has the suffix of another format.

    Examples
    --------
    >>> import os, tempfile
    >>> net = mx.sym.Variable("data") * mx.sym.Variable("scale")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "net.safetensors")
    ...     mx.safetensors.save_model(path, net, {"scale": mx.nd.array([2])}, {})
    ...     symbol, arg_params, aux_params = mx.safetensors.load_model(path)
    >>> symbol.list_arguments(), arg_params["scale"].asscalar().item(), aux_params
    (['data', 'scale'], 2.0, {})
    """
    save(path, join_params(arg_params, aux_params),
         {"format": "mxnet", SYMBOL: symbol.tojson(remove_amp_cast), **(metadata or {})})


def load_model(path: Path) -> tuple[Symbol, Params, Params]:
    """Read a network and its parameters from a file that `save_model` wrote.

    Parameters
    ----------
    path : str or path
        Name of the file.

    Returns
    -------
    symbol : Symbol
        The network.
    arg_params, aux_params : dict of str to NDArray
        Parameters and auxiliary states by name.

    Raises
    ------
    SafetensorsError
        If the file is damaged, or has no network.
    MXNetError
        If it cannot be read.
    """
    arrays, metadata = read_tensors(path)
    symbol = parse_symbol(path, metadata)
    if symbol is None:
        raise SafetensorsError(f"{path}: there is no network in it: the metadata has no {SYMBOL!r}"
                               f"{did_you_mean(SYMBOL, metadata)}; nbmod.safetensors.load reads "
                               "the arrays")
    return symbol, *split_by_symbol(as_ndarrays(path, arrays), symbol)


def parse_symbol(path: Path, metadata: Mapping[str, str]) -> Symbol | None:
    """Read the network in metadata, if there is one.

    Parameters
    ----------
    path : str or path
        Name of the file, for error messages.
    metadata : dict of str to str
        Its metadata.

    Raises
    ------
    SafetensorsError
        If it is damaged.
    """
    if SYMBOL not in metadata:
        return None
    try:
        return sym.load_json(metadata[SYMBOL])
    except MXNetError as error:
        raise SafetensorsError(f"{path}: metadata {SYMBOL!r}: {error}") from None


def split_by_symbol(params: Mapping[str, NDArray], symbol: Symbol | None) -> tuple[Params, Params]:
    """Divide arrays into parameters and auxiliary states, both by name.

    Parameters
    ----------
    params : dict of str to NDArray
        Arrays, named ``arg:<name>``, ``aux:<name>`` or ``<name>``.
    symbol : Symbol or None
        The network, which tells what is a state among those without a prefix.
    """
    states = set(symbol.list_auxiliary_states()) if symbol is not None else set()
    named = {name if name.startswith(("arg:", "aux:")) else
             f"{'aux' if name in states else 'arg'}:{name}": array
             for name, array in params.items()}
    return split_params(named, "parameters")

"""Checkpoints, and the helpers that connect a Module with its key-value store.

A checkpoint is two files that real MXNet reads and writes: `<prefix>-symbol.json` and
`<prefix>-<epoch:04d>.params`, whose arrays are named `arg:<name>` and `aux:<name>`.
"""

from __future__ import annotations

import logging
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

from . import kvstore as kvs
from . import ndarray as nd
from .base import MXNetError
from .config import CONFIG
from .context import cpu

__all__ = ["BatchEndParam", "save_checkpoint", "load_checkpoint", "load_params"]

BatchEndParam = namedtuple("BatchEndParam", ["epoch", "nbatch", "eval_metric", "locals"])

UPDATE_LOCALLY_ABOVE = 1024 * 1024 * 16
"""A parameter of more elements is updated on every device instead of on the `local` store."""


def save_checkpoint(prefix: str, epoch: int, symbol: Any, arg_params: Mapping[str, Any],
                    aux_params: Mapping[str, Any], remove_amp_cast: bool = True) -> None:
    """Save a network and its parameters in MXNet's format.

    Writes ``<prefix>-symbol.json`` and ``<prefix>-<epoch>.params``, `epoch` with four digits.

    Parameters
    ----------
    prefix : str
        Beginning of the file names, with a directory if wanted.
    epoch : int
        Number of the checkpoint.
    symbol : Symbol or None
        The network; with None only parameters are saved.
    arg_params, aux_params : dict of str to NDArray
        Parameters and auxiliary states by name.
    remove_amp_cast : bool, default True
        Omit casts that mixed precision inserted from the saved symbol.

    Examples
    --------
    >>> import os, tempfile
    >>> import nbmod as mx
    >>> net = mx.sym.Variable("data") * mx.sym.Variable("scale")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prefix = os.path.join(folder, "net")
    ...     mx.model.save_checkpoint(prefix, 12, net, {"scale": mx.nd.array([2])}, {})
    ...     sorted(os.listdir(folder))
    ...     symbol, arg_params, aux_params = mx.model.load_checkpoint(prefix, 12)
    ['net-0012.params', 'net-symbol.json']
    >>> symbol.list_arguments(), arg_params["scale"].asnumpy().tolist(), aux_params
    (['data', 'scale'], [2.0], {})
    """
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    name = f"{prefix}-{epoch:04d}.params"
    nd.save(name, join_params(arg_params, aux_params))
    logging.info('Saved checkpoint to "%s"', name)


def load_params(prefix: str, epoch: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Load the parameters of a checkpoint.

    Parameters
    ----------
    prefix : str
        Beginning of the file names, as given to `save_checkpoint`.
    epoch : int
        Number of the checkpoint.

    Returns
    -------
    arg_params, aux_params : dict of str to NDArray
        Parameters and auxiliary states by name.

    Raises
    ------
    MXNetError
        If the file is damaged or is not a checkpoint.
    """
    name = f"{prefix}-{epoch:04d}.params"
    loaded = nd.load(name)
    if not loaded:
        logging.warning("Params file '%s' is empty", name)
        return {}, {}
    if not isinstance(loaded, dict):
        raise MXNetError(f"{name}: the arrays have no names, so this is no checkpoint; "
                         "read it with mx.nd.load")
    return split_params(loaded, name)


def join_params(arg_params: Mapping[str, Any], aux_params: Mapping[str, Any]) -> dict[str, Any]:
    """Join parameters and auxiliary states, on the CPU, under the names used in files.

    Parameters
    ----------
    arg_params, aux_params : dict of str to NDArray
        Parameters and auxiliary states by name.

    Returns
    -------
    dict of str to NDArray
        Arrays named ``arg:<name>`` and ``aux:<name>``.
    """
    return {f"{kind}:{name}": value.as_in_context(cpu())
            for kind, params in (("arg", arg_params), ("aux", aux_params))
            for name, value in params.items()}


def split_params(arrays: Mapping[str, Any], where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split what `join_params` joined.

    Parameters
    ----------
    arrays : dict of str to NDArray
        Arrays named ``arg:<name>`` and ``aux:<name>``; MXNetError for other names.
    where : str
        Name of the file, for the error message.

    Returns
    -------
    arg_params, aux_params : dict of str to NDArray
        Parameters and auxiliary states by name.
    """
    params: dict[str, dict[str, Any]] = {"arg": {}, "aux": {}}
    for key, value in arrays.items():
        kind, _, name = key.partition(":")
        if kind not in params or not name:
            raise MXNetError(f"{where}: array {key!r} is neither 'arg:<name>' nor 'aux:<name>'")
        params[kind][name] = value
    return params["arg"], params["aux"]


def load_checkpoint(prefix: str, epoch: int) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Load a network and its parameters, saved by nbmod or MXNet.

    Parameters
    ----------
    prefix : str
        Beginning of the file names, as given to `save_checkpoint`.
    epoch : int
        Number of the checkpoint.

    Returns
    -------
    symbol : Symbol
        The network.
    arg_params, aux_params : dict of str to NDArray
        Parameters and auxiliary states by name.

    Raises
    ------
    MXNetError
        If a file is damaged or is not part of a checkpoint.
    """
    from . import symbol as sym

    symbol = sym.load(f"{prefix}-symbol.json")
    return symbol, *load_params(prefix, epoch)


def _create_kvstore(kvstore: Any, num_device: int, arg_params: Mapping[str, Any]
                    ) -> tuple[Any, bool]:
    """(store or None, whether it updates the parameters) for a kvstore argument of `fit`.

    A single device needs no store, unless one is given as an object.  Stores update parameters if
    they can, MXNET_UPDATE_ON_KVSTORE allows it, and no parameter is too large for 'local'.
    """
    store: Any = kvstore
    if kvstore is None or isinstance(kvstore, str) and num_device == 1 and "dist" not in kvstore:
        return None, False
    if isinstance(kvstore, str):
        store = kvs.create(kvstore)
    elif not isinstance(kvstore, kvs.KVStoreBase):
        raise TypeError("kvstore must be KVStore, str or None")
    too_large = kvstore == "local" and any(
        value.size > UPDATE_LOCALLY_ABOVE for value in arg_params.values())
    capable = store.is_capable(kvs.KVStoreBase.OPTIMIZER)
    return store, capable and CONFIG.update_on_kvstore and not too_large


def _initialize_kvstore(kvstore: Any, param_arrays: Sequence[Any], arg_params: Mapping[str, Any],
                        param_names: Sequence[str], update_on_kvstore: bool) -> None:
    """Put every parameter into the store, under its name."""
    for name, on_devices in zip(param_names, param_arrays, strict=True):
        if update_on_kvstore or not hasattr(kvstore, "init"):  # which custom stores need not have
            kvstore.broadcast(name, arg_params[name], out=on_devices)
        else:
            kvstore.init(name, arg_params[name])


def _update_params_on_kvstore(param_arrays: Sequence[Any], grad_arrays: Sequence[Any],
                              kvstore: Any, param_names: Sequence[str]) -> None:
    """Push every gradient, pull every updated parameter; `KVStore` takes all at once."""
    trained = _trained(grad_arrays)
    if type(kvstore) is kvs.KVStore and trained:
        kvstore.pushpull([param_names[index] for index in trained],
                         [grad_arrays[index] for index in trained],
                         out=[param_arrays[index] for index in trained])
        return
    for index in trained:
        kvstore.pushpull(param_names[index], grad_arrays[index], out=param_arrays[index],
                         priority=-index)


def _trained(grad_arrays: Sequence[Any]) -> list[int]:
    """Indices of the parameters that have gradients."""
    return [index for index, grads in enumerate(grad_arrays) if grads[0] is not None]


def _update_params(param_arrays: Sequence[Any], grad_arrays: Sequence[Any], updater: Any,
                   num_device: int, kvstore: Any = None, param_names: Sequence[str] | None = None
                   ) -> None:
    """Update on every device by itself, after summing gradients through a store, if any."""
    trained = _trained(grad_arrays)
    keys = [param_names[index] if param_names else index for index in trained]
    if type(kvstore) is kvs.KVStore and trained:
        kvstore.pushpull(keys, [grad_arrays[index] for index in trained])
    elif kvstore is not None:
        for key, index in zip(keys, trained, strict=True):
            kvstore.pushpull(key, grad_arrays[index], priority=-index)
    for device in range(num_device if trained else 0):
        updater([index * num_device + device for index in trained],
                [grad_arrays[index][device] for index in trained],
                [param_arrays[index][device] for index in trained])


def __getattr__(name: str) -> Any:
    """Import `FeedForward` on first use, as it imports modules, which import this file."""
    if name == "FeedForward":
        from .module.feedforward import FeedForward

        return FeedForward
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

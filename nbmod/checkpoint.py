"""Checkpoints: the two files in which MXNet saves a network and its parameters.

They are `<prefix>-symbol.json` and `<prefix>-<epoch:04d>.params`, whose arrays are named
`arg:<name>` and `aux:<name>`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping

from . import ndarray as nd
from . import symbol as sym
from .base import MXNetError
from .context import cpu
from .core.atomic import finish_sets
from .core.integrity import saving_together, verify_checkpoint
from .core.model_archive import ModelArchive, archive_at
from .graph import Graph
from .ndarray import NDArray
from .symbol import Symbol
from .symbol.json_reader import read_graph

__all__ = ["arrays_in", "declare_shapes", "epochs_of", "join_params", "load_archive",
           "load_checkpoint", "load_params", "read_archived", "save_checkpoint", "split_params",
           "strip_kind", "verify_checkpoint"]


def save_checkpoint(prefix: str, epoch: int, symbol: Symbol | None,
                    arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray],
                    remove_amp_cast: bool = True, integrity: bool = False) -> None:
    """Save a network and its parameters in MXNet's format.

    Writes ``<prefix>-symbol.json`` and ``<prefix>-<epoch>.params``, `epoch` with four digits. The
    files replace older ones when both are complete.

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
    integrity : bool, default False
        Write ``<prefix>-<epoch>.sha256``, too, from which `load_checkpoint` with ``verify=True``
        finds every damaged bit.

    Examples
    --------
    >>> import os, tempfile
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
    network, name = f"{prefix}-symbol.json", f"{prefix}-{epoch:04d}.params"
    with saving_together(f"{prefix}-{epoch:04d}", [network], integrity):
        nd.save(name, join_params(arg_params, aux_params))
        if symbol is not None:
            symbol.save(network, remove_amp_cast=remove_amp_cast)
    logging.info('Saved checkpoint to "%s"', name)


def load_params(prefix: str, epoch: int | None, verify: bool = False
                ) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Load the parameters and the auxiliary states of a checkpoint.

    Parameters
    ----------
    prefix : str
        Beginning of the file names, as given to `save_checkpoint`; or an archive, as for
        `load_checkpoint`.
    epoch : int or None
        Number of the checkpoint; None for the newest.
    verify : bool, default False
        Verify all files of the checkpoint first (see `verify_checkpoint`).

    Raises
    ------
    MXNetError
        If the file is missing (with the epochs that exist), damaged or not a checkpoint.
    """
    archive = _archive_at(prefix, verify)
    if archive is not None:
        return _archived_params(archive, archive.find(epoch).params)
    finish_sets(os.path.dirname(prefix))
    if epoch is None:
        epoch = max(epochs_of(prefix), default=0)
    name = f"{prefix}-{epoch:04d}.params"
    if not os.path.exists(name):
        raise MXNetError(f"{name}: cannot be read: No such file or directory; {_epochs(prefix)}")
    if verify:
        verify_checkpoint(prefix, epoch)
    loaded = nd.load(name)
    if not loaded:
        logging.warning("Params file '%s' is empty", name)
        return {}, {}
    if not isinstance(loaded, dict):
        raise MXNetError(f"{name}: the arrays have no names, so this is no checkpoint; "
                         "read it with mx.nd.load")
    return split_params(loaded, name)


def epochs_of(prefix: str) -> list[int]:
    """Return the numbers of the epochs of which there are parameters, ascending.

    Parameters
    ----------
    prefix : str
        Beginning of the file names, as given to `save_checkpoint`.
    """
    folder, base = os.path.split(prefix)
    finish_sets(folder)
    pattern = re.compile(re.escape(base) + r"-(\d{4,})\.params")
    names = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)


def _epochs(prefix: str) -> str:
    """The epochs of which there are parameters, in words."""
    epochs = epochs_of(prefix)
    if not epochs:
        return f"there are no parameters of prefix {prefix!r}"
    skipped = "..., " if len(epochs) > 20 else ""
    return f"epochs that exist: {skipped}{', '.join(map(str, epochs[-20:]))}"


def join_params(arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]
                ) -> dict[str, NDArray]:
    """Join parameters and auxiliary states, on the CPU, as ``arg:<name>`` and ``aux:<name>``.

    Parameters
    ----------
    arg_params, aux_params : dict of str to NDArray
        Parameters and auxiliary states by name.
    """
    return {f"{kind}:{name}": value.as_in_context(cpu())
            for kind, params in (("arg", arg_params), ("aux", aux_params))
            for name, value in params.items()}


def strip_kind(name: str) -> str:
    """Remove the `arg:` or `aux:` of a name in a file of parameters; others are returned unchanged.

    Parameters
    ----------
    name : str
        Name in the file.
    """
    return name[4:] if name.startswith(("arg:", "aux:")) else name


def split_params(arrays: Mapping[str, NDArray], where: str
                 ) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Split what `join_params` joined into parameters and auxiliary states by name.

    Parameters
    ----------
    arrays : dict of str to NDArray
        Arrays named ``arg:<name>`` and ``aux:<name>``; MXNetError for other names.
    where : str
        Name of the file, for the error message.
    """
    params: dict[str, dict[str, NDArray]] = {"arg": {}, "aux": {}}
    for key, value in arrays.items():
        kind, _, name = key.partition(":")
        if kind not in params or not name:
            raise MXNetError(f"{where}: array {key!r} is neither 'arg:<name>' nor 'aux:<name>'")
        params[kind][name] = value
    return params["arg"], params["aux"]


def declare_shapes(symbol: Symbol, params: Mapping[str, NDArray]) -> None:
    """Let the variables of a network declare the shapes of their arrays.

    Those of parameters need not follow from the data, as in ``broadcast_mul(data, scale)``; all
    that infers shapes, such as `Module.bind`, then needs the data alone.

    Parameters
    ----------
    symbol : Symbol
        The network, whose variables are changed.
    params : dict of str to NDArray
        Parameters and auxiliary states by name.
    """
    for node in Graph(symbol.entries).variables:
        if node.name in params:
            node.attrs["__shape__"] = str(params[node.name].shape)


def load_checkpoint(prefix: str, epoch: int | None, verify: bool = False
                    ) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Load a network and its parameters, saved by nbmod or MXNet.

    Parameters
    ----------
    prefix : str
        Beginning of the file names, as given to `save_checkpoint`; or the name of an archive with
        them, such as ``model.tar.gz``, or of a prefix in one, such as ``models.zip/net``.
    epoch : int or None
        Number of the checkpoint; None for the newest.
    verify : bool, default False
        Compare all files of the checkpoint with the checksums that ``integrity=True`` wrote, so
        that every damaged bit is an error.

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
    archive = _archive_at(prefix, verify)
    if archive is not None:
        return load_archive(archive, epoch)
    finish_sets(os.path.dirname(prefix))
    if epoch is None:
        epoch = max(epochs_of(prefix), default=0)
    if verify:
        verify_checkpoint(prefix, epoch)
    symbol = sym.load(f"{prefix}-symbol.json")
    return symbol, *load_params(prefix, epoch)


def load_archive(archive: ModelArchive, epoch: int | None = None
                 ) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Load the network of an archive and its parameters.

    Parameters
    ----------
    archive : ModelArchive
        The archive.
    epoch : int, optional
        Number of the checkpoint; the newest by default.

    Returns
    -------
    symbol : Symbol
        The network.
    arg_params, aux_params : dict of str to NDArray
        Parameters and auxiliary states by name.

    Raises
    ------
    MXNetError
        If one of them is missing or damaged, or it is not clear which.
    """
    members = archive.find(epoch)
    if members.symbol is None:
        archive.fail("there is no network (-symbol.json), only parameters",
                     "`nbmod convert` writes these to a file")
    text, where = archive.content(members.symbol), f"{archive.path}/{members.symbol}"
    return Symbol(read_graph(text, where)), *_archived_params(archive, members.params)


def _archive_at(prefix: str, verify: bool) -> ModelArchive | None:
    archive = archive_at(prefix)
    if archive is not None and verify:
        raise MXNetError(f"{prefix}: verify=True compares the files of a checkpoint with its "
                         "checksums, and this is an archive: leave it out")
    return archive


def _archived_params(archive: ModelArchive, name: str | None
                     ) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    if name is None:
        archive.fail("there are no parameters", "give an archive that has them")
    return split_params(read_archived(archive, name), f"{archive.path}/{name}")


def read_archived(archive: ModelArchive, name: str) -> dict[str, NDArray]:
    """Read the parameters in a member of an archive, by their names in the file.

    Parameters
    ----------
    archive : ModelArchive
        The archive.
    name : str
        Name of the member.

    Raises
    ------
    MXNetError
        If it is damaged, or its arrays have no names.
    """
    arrays = arrays_in(archive, name)
    if isinstance(arrays, dict):
        return arrays
    if arrays:
        raise MXNetError(f"{archive.path}/{name}: the arrays have no names, so these are no "
                         "parameters")
    return {}


def arrays_in(archive: ModelArchive, name: str) -> list[NDArray] | dict[str, NDArray]:
    """Read a member of an archive, as `mx.nd.load` reads a file: a dict if arrays have names.

    Parameters
    ----------
    archive, name
        As for `read_archived`.

    Raises
    ------
    MXNetError
        If it is damaged.
    """
    try:
        return nd.load_frombuffer(archive.members[name])
    except MXNetError as error:
        where = f"{archive.path}/{name}"
        raise MXNetError(str(error).replace("<buffer>", where, 1)) from None

"""`mx.gluon.utils`: splitting batches over devices, clipping gradients, fetching files."""

from __future__ import annotations

import hashlib
import inspect
import os
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import IO, Any

import numpy as np

from .. import ndarray as nd
from ..base import (
    ArgumentError,
    ArgumentTypeError,
    CheckError,
    MXNetError,
    UnwritableFile,
    did_you_mean,
    plain_numbers,
    warn_user,
)
from ..context import Context, current_context, is_absent, resolve
from ..core.atomic import atomic_write, named_errors
from ..core.shape_semantics import is_np_shape
from ..ndarray import NDArray

__all__ = ["HookHandle", "check_sha1", "clip_global_norm", "download", "shape_is_known",
           "split_and_load", "split_data"]
__dir__ = __all__.copy

Contexts = Context | Sequence[Context] | None


replace_file = os.replace  # MXNet's name


def split_data(data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True
               ) -> list[NDArray]:
    """Split an array into slices along an axis.

    Parameters
    ----------
    data : NDArray
        Batch.
    num_slice : int
        Number of slices.
    batch_axis : int, default 0
        Axis of the samples.
    even_split : bool, default True
        Whether slices of different sizes are an error; otherwise the first ones have a sample
        more than the last ones.

    Returns
    -------
    list of NDArray
        Slices.  Those along the first axis share memory with `data`, and are csr if it is.

    Raises
    ------
    ValueError
        If there are fewer samples than slices, or they cannot be split evenly.

    Examples
    --------
    >>> [x.shape for x in mx.gluon.utils.split_data(mx.nd.ones((4, 2)), 2)]
    [(2, 2), (2, 2)]
    >>> [len(x) for x in mx.gluon.utils.split_data(mx.nd.ones((8, 2)), 3, even_split=False)]
    [3, 3, 2]
    """
    size = data.shape[batch_axis]
    if size < num_slice:
        raise ArgumentError(f"split_data: data of shape {data.shape} has {size} samples along axis "
                            f"{batch_axis}, too few for {num_slice} slices")
    if even_split and size % num_slice:
        raise ArgumentError(f"split_data: data of shape {data.shape} cannot be split evenly into "
                            f"{num_slice} slices along axis {batch_axis}; use a batch size that is "
                            f"a multiple of {num_slice}, or even_split=False")
    step, rest = divmod(size, num_slice)
    ends = [step * i + min(i, rest) for i in range(num_slice + 1)]
    if batch_axis == 0:
        return [data[begin:end] for begin, end in pairwise(ends)]
    return [nd.slice_axis(data, axis=batch_axis, begin=begin, end=end)
            for begin, end in pairwise(ends)]


def split_and_load(data: Any, ctx_list: Sequence[Context], batch_axis: int = 0,
                   even_split: bool = True) -> list[NDArray]:
    """Split an array into a slice for each device.

    Parameters
    ----------
    data : NDArray or array_like
        Batch.
    ctx_list : list of Context
        Devices.
    batch_axis : int, default 0
        Axis of the samples.
    even_split : bool, default True
        Whether slices of different sizes are an error.

    Examples
    --------
    >>> parts = mx.gluon.utils.split_and_load([[1], [2]], [mx.cpu(0), mx.cpu(1)])
    >>> [part.context for part in parts]
    [cpu(0), cpu(1)]
    """
    contexts = as_contexts(ctx_list)
    array = data if isinstance(data, NDArray) else nd.array(data, ctx=contexts[0])
    if len(contexts) == 1:
        return [array.as_in_context(contexts[0])]
    slices = split_data(array, len(contexts), batch_axis, even_split)
    return [part.as_in_context(ctx) for part, ctx in zip(slices, contexts, strict=True)]


def clip_global_norm(arrays: Iterable[NDArray], max_norm: float, check_isfinite: bool = True
                     ) -> Any:
    """Scale arrays in place so that the norm of all of them together is at most `max_norm`.

    Parameters
    ----------
    arrays : iterable of NDArray
        Arrays, such as gradients; an array stands for its rows.
    max_norm : float
        Largest norm.
    check_isfinite : bool, default True
        Whether to warn of a norm that is not finite, and return a float.

    Examples
    --------
    >>> x = mx.nd.array([3, 4])
    >>> mx.gluon.utils.clip_global_norm([x], 1), x.asnumpy().round(3).tolist()
    (5.0, [0.6000000238418579, 0.800000011920929])
    """
    arrays = [*arrays]
    if not arrays:
        raise ArgumentError("clip_global_norm: no arrays are given, expected at least one")
    ctx = arrays[0].context
    squares = [nd.square(x.astype("float32")).sum().as_in_context(ctx) for x in arrays]
    norm = nd.sqrt(nd.add_n(*squares))
    if check_isfinite and not np.isfinite(norm.asscalar()):
        warn_user("clip_global_norm: the norm of the arrays is not finite; clipping makes them NaN")
    scale = nd.minimum(max_norm / (norm + 1e-8), 1)
    for x in arrays:
        x *= scale.as_in_context(x.context).astype(x.dtype)
    return float(norm.asscalar()) if check_isfinite else norm


def write_checked(source: IO[bytes], target: str, sha1_hash: str | None) -> None:
    """Replace a file by a content, if that arrives whole.

    Parameters
    ----------
    source : binary file
        Content.
    target : str
        File.
    sha1_hash : str or None
        Expected SHA-1.

    Raises
    ------
    ValueError
        If the source cannot be read, or has another SHA-1; the file is as before then.
    """
    digest = hashlib.sha1(usedforsecurity=False)
    with atomic_write(target) as file:
        for block in _blocks(source):
            digest.update(block)
            file.write(block)
        if sha1_hash is not None and digest.hexdigest() != sha1_hash:
            raise ValueError(f"the file has another SHA-1 than {sha1_hash}")


def unzip(archive: str, member: str, target: str, sha1_hash: str | None = None) -> None:
    """Replace a file by a member of an archive, if that is whole.

    Parameters
    ----------
    archive : str
        Zip file.
    member : str
        Name in the archive.
    target : str
        File.
    sha1_hash : str, optional
        Expected SHA-1 of the member.

    Raises
    ------
    MXNetError
        If the archive is damaged or lacks the member, or the file cannot be written; the file is
        as before then.
    ValueError
        If the member has another SHA-1.
    """
    try:
        with zipfile.ZipFile(archive) as file, file.open(member) as content:
            write_checked(content, target, sha1_hash)
    except MXNetError:
        raise
    except (RuntimeError, zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise ArgumentError(f"{archive} is a damaged archive: {error}") from error


def _blocks(answer: IO[bytes]) -> Iterator[bytes]:
    """Contents of the source; an error of reading is none of writing."""
    try:
        while block := answer.read(1 << 20):
            yield block
    except OSError as error:
        raise ValueError(str(error)) from error


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Return whether a file has the given SHA-1.

    Parameters
    ----------
    filename : str
        File.
    sha1_hash : str
        Hexadecimal digits.
    """
    digest = hashlib.sha1(usedforsecurity=False)
    with open(filename, "rb") as file:
        for block in _blocks(file):
            digest.update(block)
    return digest.hexdigest() == sha1_hash


_SILENCE = 60
"""Seconds after which an attempt ends in which a server says nothing."""


def download(url: str, path: str | None = None, overwrite: bool = False,
             sha1_hash: str | None = None, retries: int = 5, verify_ssl: bool = True) -> str:
    """Download a file, unless it is there; each attempt prints a line.

    Parameters
    ----------
    url : str
        Address.
    path : str, optional
        File or folder; by default a file of the address's name in the current folder.
    overwrite : bool, default False
        Whether to replace a file that is there.
    sha1_hash : str, optional
        Expected SHA-1; a file with another is replaced.
    retries : int, default 5
        Attempts after the first.
    verify_ssl : bool, default True
        Certificates are always verified: False is an error.

    Returns
    -------
    str
        Path of the file, which is complete: it is written under another name first.

    Raises
    ------
    MXNetError
        If all attempts fail, or the file has another SHA-1.
    """
    if not verify_ssl:
        raise MXNetError("download: verify_ssl is False, but certificates are always verified")
    name = url.rpartition("/")[2]
    target = os.path.join(path, name) if path and os.path.isdir(path) else path or name
    if not name:
        raise ArgumentError(f"download: the address {url!r} ends without a file name")
    if os.path.exists(target) and not overwrite and (
            sha1_hash is None or check_sha1(target, sha1_hash)):
        return target
    with named_errors(target):
        os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    reason: Exception | None = None
    for _ in range(retries + 1):
        try:
            print(f"Downloading {target} from {url}...", flush=True)
            with urllib.request.urlopen(url, timeout=_SILENCE) as answer:
                write_checked(answer, target, sha1_hash)
            return target
        except UnwritableFile:
            raise
        except (OSError, ValueError) as error:
            reason = error
    raise MXNetError(f"download: {url} could not be fetched to {target}: {reason}")


# -- blocks ---------------------------------------------------------------------------------------


class HookHandle:
    """A hook of a block, which `detach` or the end of a `with` statement removes."""

    def __init__(self) -> None:
        self._hooks: dict[int, Callable[..., object]] | None = None
        self._id = 0

    def attach(self, hooks_dict: dict[int, Callable[..., object]], hook: Callable[..., object]
               ) -> HookHandle:
        """Add a hook, and return this handle.

        Parameters
        ----------
        hooks_dict : dict
            Hooks of the block.
        hook : callable
            Hook.
        """
        if self._hooks is not None:
            raise CheckError("The same handle cannot be attached twice: make another")
        if id(hook) in hooks_dict:
            raise CheckError(f"The same hook cannot be registered twice: {hook!r}")
        self._hooks, self._id = hooks_dict, id(hook)
        hooks_dict[self._id] = hook
        return self

    def detach(self) -> None:
        """Remove the hook, if it is there."""
        if self._hooks is not None:
            self._hooks.pop(self._id, None)
            self._hooks = None

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.detach()


def as_contexts(ctx: object, used: bool = True) -> list[Context]:
    """Return the devices that a `ctx` argument names; the current one for None.

    Parameters
    ----------
    ctx : Context, list of Context or None
        Argument.
    used : bool, default True
        Whether they are used now: otherwise a GPU may be absent as yet.

    Raises
    ------
    MXNetError
        For a GPU that is used and that this machine does not have.
    """
    named = current_context() if ctx is None else ctx
    listed: Any = [named] if isinstance(named, str) or not isinstance(named, Iterable) else named
    return [resolve(each) if used or not is_absent(each) else each for each in listed]


def existing(contexts: Sequence[Context], name: str) -> list[Context]:
    """Return the devices of a parameter that was to wait for its shape.

    Parameters
    ----------
    contexts : list of Context
        Devices, which may be absent.
    name : str
        Name of the parameter.

    Raises
    ------
    MXNetError
        If one is; names the parameter.
    """
    try:
        return as_contexts(contexts)
    except MXNetError as error:
        raise MXNetError(f"Parameter {name!r}: {error}") from None


def without_values(name: str) -> MXNetError:
    """Return the error for a parameter that is read before it has values.

    Parameters
    ----------
    name : str
        Name of the parameter.
    """
    return MXNetError(f"Parameter {name!r} has not been initialized. Call initialize() of the "
                      "block, or load values into it; note that Block.params lacks the parameters "
                      "of children, which Block.collect_params() has.")


def unknown_keyword(block: type, name: str) -> ArgumentTypeError:
    """Return the error for a keyword that no constructor of a block takes.

    Parameters
    ----------
    block : type
        Class of the block.
    name : str
        Keyword.
    """
    takes = inspect.signature(block).parameters.values()
    known = [each.name for each in takes if each.kind not in (each.VAR_KEYWORD,
                                                              each.VAR_POSITIONAL)]
    known += [each for each in ("prefix", "params")
              if each not in known and any(other.name == "kwargs" for other in takes)]
    hint = did_you_mean(name, known) or f"; it takes {', '.join(known)}"
    return ArgumentTypeError(f"{block.__name__}.__init__() got an unexpected keyword argument "
                             f"{name!r}{hint}")


def dimensions(shape: int | Iterable[int]) -> tuple[int, ...]:
    """Return a shape as a tuple.

    Parameters
    ----------
    shape : int or sequence of int
        Shape; one number is one dimension.
    """
    plain = plain_numbers(shape)
    return (plain,) if isinstance(plain, int) else tuple(plain)


def shape_is_known(shape: tuple[int, ...] | None) -> bool:
    """Return whether all dimensions of a shape are known.

    Parameters
    ----------
    shape : tuple of int or None
        Shape, with 0 for an unknown dimension (-1 where `mx.np_shape` is active).
    """
    return shape is not None and (-1 if is_np_shape() else 0) not in shape


def _indent(s_: str, numSpaces: int) -> str:  # noqa: N803 - MXNet's names
    """Text whose lines but the first are indented."""
    return s_.replace("\n", "\n" + " " * numSpaces)


def _brief_print_list(lst: Sequence[object], limit: int = 7) -> str:
    """The first and last of some texts."""
    shown = [f"'{each}'" for each in lst]
    return ", ".join(shown if len(shown) <= limit
                     else [*shown[:limit // 2], "...", *shown[-limit // 2:]])


def _get_repo_url() -> str:
    """Address of MXNet's files of data and models."""
    default = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"
    return os.environ.get("MXNET_GLUON_REPO", default).rstrip("/") + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """Address of one of these files."""
    return f"{_get_repo_url()}{namespace}/{filename}"

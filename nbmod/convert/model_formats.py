"""Files of networks and parameters: each format is read to a `StoredModel` and written from one.

    prefix          <prefix>-symbol.json and <prefix>-<epoch>.params    of MXNet
    *.json          the network of an MXNet checkpoint
    *.params        its parameters
    *.safetensors   parameters, and the network if there is one (`nbmod.safetensors`)
    *.onnx          network and parameters (`nbmod.onnx`)
    *.npz           parameters
    *.tar.gz, ...   an archive with a checkpoint (`nbmod.core.model_archive`)

Two files may be one model: one with the network, the other with the parameters.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import NamedTuple, TypeVar

import numpy as np

from .. import ndarray as nd
from .. import symbol as sym
from ..base import ArgumentError, Array, Forwarded, MXNetError, warn_user
from ..checkpoint import epochs_of, join_params, load_archive, read_archived, save_checkpoint
from ..core.atomic import atomic_write
from ..core.compressed import most_unpacked, refusing, require_plausible
from ..core.foreign import HEAD_SIZE, SUFFIXES, foreign_format
from ..core.model_archive import ModelArchive, archive_at
from ..ndarray import NDArray
from ..safetensors import model_file, tensor_file
from ..symbol import Symbol
from ..symbol.inference_symbol import implied_shapes, labels_of, likely_shape

__all__ = ["FileContent", "OnnxOptions", "StoredModel", "find_parts", "only_archive",
           "read_archive", "read_content", "read_model", "suffix_of", "write_model"]

UNPACKED = 2 ** 30
"""Bytes that the arrays of an .npz file may have, besides 64 times those of the file."""
Params = dict[str, NDArray]
Shapes = Mapping[str, tuple[int, ...]]
T = TypeVar("T")


class StoredModel(NamedTuple):
    """A network and its parameters.

    Attributes
    ----------
    symbol : Symbol or None
        The network; None if the files have parameters only.
    arg_params, aux_params : dict of str to NDArray
        Parameters and auxiliary states by name.
    """

    symbol: Symbol | None
    arg_params: Params
    aux_params: Params

    @property
    def inputs(self) -> list[str]:
        """Names of the arguments of the network that are neither parameters nor labels."""
        if self.symbol is None:
            return []
        labels = {*labels_of(self.symbol, self.arg_params)}
        return [name for name in self.symbol.list_arguments()
                if name not in self.arg_params and name not in labels]

    def implied_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes, for one sample, of inputs that a dense layer reads."""
        if self.symbol is None:
            return {}
        known = {name: array.shape for name, array in self.arg_params.items()}
        return {name: shape for name, shape in implied_shapes(self.symbol, known).items()
                if name in self.inputs}

    def shape_option(self) -> str:
        """An option of commands that fits the first layer, such as --shape data=1,3,224,224."""
        name = next(iter(self.inputs), "data")
        known = {one: array.shape for one, array in self.arg_params.items()}
        sizes = [] if self.symbol is None else likely_shape(self.symbol, known, name)[1:]
        if sizes in ([], ["..."]):
            sizes = [3, "height", "width"]
        numbers = [1, *(size if isinstance(size, int) else SIDE for size in sizes)]
        return f"--shape {name}={','.join(map(str, numbers))}"


SIDE = 224
"""Pixels of a side of an image, in examples."""


@dataclass(frozen=True)
class OnnxOptions:
    """How ONNX files are written, as the arguments of `nbmod.onnx.export_model`.

    Parameters
    ----------
    shapes : dict of str to tuple
        Shapes of inputs by name; those that follow from the others, or that inputs were made with,
        may be missing.
    opset : int, optional
        Version of ONNX's operators.
    dynamic : bool, default False
        Whether sizes that parameters do not fix may be others when the file is run.
    verify : bool, optional
        Whether to compare the outputs of the file, by onnxruntime, with nbmod's; by default where
        it is installed.
    until : str, optional
        Name of the node that the exported network ends with.
    """

    shapes: Shapes = field(default_factory=dict)
    opset: int | None = None
    dynamic: bool = False
    verify: bool | None = None
    until: str | None = None


class FileContent(NamedTuple):
    """The content of one file of a model.

    Attributes
    ----------
    symbol : Symbol or None
        The network, if it is there.
    params : dict of str to NDArray, or None
        The arrays, if it is of a format with arrays, by names with or without their kind.
    """

    symbol: Symbol | None = None
    params: Params | None = None


# ---------------------------------------------------------------------------------------- reading


def read_model(paths: str | Sequence[str], epoch: int | None = None, shapes: Shapes | None = None
               ) -> StoredModel:
    """Read a model of any format: the network, if there is one, and the parameters.

    Parameters
    ----------
    paths : str or list of str
        One file or two, of which one has the network and the other the parameters, the prefix of
        a checkpoint, or an archive that has one. A file ``<prefix>-<epoch>.params`` brings its
        ``<prefix>-symbol.json`` along, if there is one and no other network is given.
    epoch : int, optional
        Which one, for a prefix or an archive; by default the newest.
    shapes : dict of str to tuple, optional
        Shapes of the inputs of an ONNX file, where that leaves them open.

    Raises
    ------
    MXNetError
        If a file cannot be read, is damaged, or is of a format that is not read; if there are two
        networks, or parameters twice.

    Examples
    --------
    >>> import os, tempfile
    >>> net = mx.sym.Variable("data") * mx.sym.Variable("scale")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prefix = os.path.join(folder, "net")
    ...     mx.model.save_checkpoint(prefix, 3, net, {"scale": mx.nd.array([2])}, {})
    ...     model = mx.convert.read_model(prefix)
    >>> model.inputs, sorted(model.arg_params)
    (['data'], ['scale'])
    """
    files = [paths] if isinstance(paths, str) else list(paths)
    archive = only_archive(files)
    if archive is not None:
        return read_archive(archive, epoch)
    names = find_parts(files, epoch)
    parts = [read_content(name, shapes) for name in names]
    symbol = _only([part.symbol for part in parts], "the network is", names)
    params = _only([part.params for part in parts], "the parameters are", names)
    return StoredModel(symbol, *model_file.split_by_symbol(params or {}, symbol))


def only_archive(paths: Sequence[str]) -> ModelArchive | None:
    """Open the archive that a model is in; None if no file is an archive.

    Parameters
    ----------
    paths : list of str
        Names of files.

    Raises
    ------
    MXNetError
        If there is another file beside the archive.
    """
    archives = [(path, archive) for path in paths if (archive := archive_at(path)) is not None]
    if archives and len(paths) > 1:
        raise MXNetError(f"{archives[0][0]}: an archive is a whole model, given {len(paths)} files")
    return archives[0][1] if archives else None


def read_archive(archive: ModelArchive, epoch: int | None = None) -> StoredModel:
    """Read the model of an archive: the network, if there is one, and the parameters.

    Parameters
    ----------
    archive : ModelArchive
        The archive.
    epoch : int, optional
        Which parameters; the newest by default.

    Raises
    ------
    MXNetError
        If there is neither, it is damaged, or it is not clear which.
    """
    members = archive.find(epoch)
    if members.symbol is not None:
        return StoredModel(*load_archive(archive, epoch))
    params = {} if members.params is None else read_archived(archive, members.params)
    return StoredModel(None, *model_file.split_by_symbol(params, None))


def find_parts(paths: Sequence[str], epoch: int | None = None) -> list[str]:
    """Replace the prefix of a checkpoint by its two files, and add the network to parameters.

    Parameters
    ----------
    paths : list of str
        Names of files, or a prefix.
    epoch : int, optional
        Which one, for a prefix; by default the newest.

    Raises
    ------
    MXNetError
        If no file begins with the prefix.
    """
    files: list[str] = []
    for path in paths:
        if suffix_of(path) or os.path.isfile(path):
            files.append(path)
            continue
        number = _newest_epoch(path) if epoch is None else epoch
        files += [f"{path}-symbol.json", f"{path}-{number:04d}.params"]
    match = re.fullmatch(r"(.+)-\d{4,}\.params", files[0]) if len(files) == 1 else None
    if match and os.path.isfile(f"{match[1]}-symbol.json"):
        files.insert(0, f"{match[1]}-symbol.json")
    return files


def _newest_epoch(prefix: str) -> int:
    epochs = epochs_of(prefix)
    if not epochs:
        raise MXNetError(f"{prefix}: there is neither such a file nor a checkpoint "
                         f"{prefix}-0000.params or of another epoch")
    return epochs[-1]


def suffix_of(path: str) -> str:
    """The suffix of a format, such as ``.onnx``; empty if it is none, as in ``resnet-1.5``.

    Parameters
    ----------
    path : str
        Name of the file.
    """
    suffix = os.path.splitext(path)[1].lower()
    return suffix if suffix in SUFFIXES else ""


def _only(parts: Sequence[T | None], what: str, names: Sequence[str]) -> T | None:
    pairs = [(name, part) for name, part in zip(names, parts, strict=True) if part is not None]
    if len(pairs) > 1:
        raise MXNetError(f"{what} in both {pairs[0][0]} and {pairs[1][0]}: give one of them")
    return pairs[0][1] if pairs else None


def read_content(path: str, shapes: Shapes | None = None) -> FileContent:
    """Read one file of a model.

    Parameters
    ----------
    path : str
        Name of the file.
    shapes : dict of str to tuple, optional
        Shapes of the inputs of an ONNX file, where that leaves them open.

    Raises
    ------
    MXNetError
        If it cannot be read, is damaged, or is of a format that is not read.
    """
    suffix = suffix_of(path)
    if suffix == ".onnx":
        return _read_onnx(path, shapes or {})
    if suffix not in _READERS:
        raise MXNetError(f"{path}: {_not_read(suffix)}")
    return _READERS[suffix](path)


def _not_read(suffix: str) -> str:
    if suffix in (".pt", ".pth"):
        return ("files of PyTorch are not read: pass torch.load(...)'s dict of tensors to "
                "nbmod.convert.from_torch(state_dict, symbol)")
    what = SUFFIXES[suffix].split(",")[0] if suffix else "no known suffix"
    return f"a file of {what} is no model; known are {', '.join([*_READERS, '.onnx'])}"


def _read_onnx(path: str, shapes: Shapes) -> FileContent:
    arguments: dict[str, Forwarded] = {"shapes": dict(shapes)} if shapes else {}
    symbol, args, auxs = _onnx().import_model(path, **arguments)
    return FileContent(symbol, join_params(args, auxs))


def _onnx() -> Forwarded:
    """`nbmod.onnx`, which needs the extra `onnx`."""
    return import_module("nbmod.onnx")


def _read_safetensors(path: str) -> FileContent:
    arrays, metadata = tensor_file.read_tensors(path)
    return FileContent(model_file.parse_symbol(path, metadata),
                        model_file.as_ndarrays(path, arrays))


def _read_params(path: str) -> FileContent:
    loaded = nd.load(path)
    if not isinstance(loaded, dict):
        if not loaded:
            return FileContent(None, {})
        raise MXNetError(f"{path}: the arrays have no names, so they are no parameters")
    return FileContent(None, loaded)


def _read_npz(path: str) -> FileContent:
    arrays: dict[str, Array] = {}
    with refusing(path, "an .npz file of arrays"), open(path, "rb") as stream:
        head = stream.read(HEAD_SIZE)
        if not head.startswith(b"PK"):
            raise MXNetError(f"{path}: damaged: no .npz file{foreign_format(head)}")
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as file:
            require_plausible(path, sum(entry.file_size for entry in file.zip.infolist()),
                              most_unpacked(path, UNPACKED))
            for name in file.files:
                arrays[name] = np.asarray(file[name])
    return FileContent(None, model_file.as_ndarrays(path, arrays))


_READERS: dict[str, Callable[[str], FileContent]] = {
    ".json": lambda path: FileContent(sym.load(path)), ".params": _read_params,
    ".safetensors": _read_safetensors, ".npz": _read_npz}


# ---------------------------------------------------------------------------------------- writing


def write_model(model: StoredModel, path: str, epoch: int = 0, onnx: OnnxOptions | None = None
                ) -> list[str]:
    """Write a model in the format of a file's suffix; returns the names of the files.

    Parameters
    ----------
    model : StoredModel
        The network and its parameters.
    path : str
        Name of the file; a name without a known suffix is the prefix of a checkpoint.
    epoch : int, default 0
        Number of the checkpoint, for a prefix.
    onnx : OnnxOptions, optional
        How to write an ONNX file; its shapes are needed for that.

    Raises
    ------
    MXNetError
        If the format needs a network and there is none, or a file cannot be written.

    Warns
    -----
    UserWarning
        If the format cannot hold the network, or cannot hold the parameters.

    Examples
    --------
    >>> import os, tempfile
    >>> net = mx.sym.Variable("data") * mx.sym.Variable("scale")
    >>> model = mx.convert.StoredModel(net, {"scale": mx.nd.array([2])}, {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prefix = os.path.join(folder, "net")
    ...     written = mx.convert.write_model(model, prefix, epoch=3)
    >>> [os.path.basename(path) for path in written]
    ['net-symbol.json', 'net-0003.params']
    """
    suffix = suffix_of(path)
    if suffix not in (*_READERS, ".onnx", ""):
        raise MXNetError(f"{path}: not written: {_not_read(suffix)}")
    params = join_params(model.arg_params, model.aux_params)
    if suffix == ".onnx":
        _write_onnx(model, path, onnx or OnnxOptions())
    elif suffix == ".safetensors":
        metadata = {"format": "mxnet"}
        if model.symbol is not None:
            metadata[model_file.SYMBOL] = model.symbol.tojson()
        model_file.save(path, params, metadata)
    elif suffix == ".npz":
        with atomic_write(path) as stream:
            np.savez(stream, **{name: array.asnumpy()  # type: ignore[arg-type]  # names
                                for name, array in params.items()})
    elif suffix == ".params":
        nd.save(path, model.arg_params if _are_of_a_block(model) else params)
    elif suffix == ".json":
        _require_symbol(model, path).save(path)
    else:
        save_checkpoint(path, epoch, _require_symbol(model, path), model.arg_params,
                        model.aux_params)
        return target_files(path, epoch)
    _warn_of_losses(model, path, suffix)
    return [path]


def _are_of_a_block(model: StoredModel) -> bool:
    """Whether names are those of Gluon's `save_parameters`, such as features.0.weight.

    MXNet's `load_parameters` wants them without kinds.
    """
    return model.symbol is None and not model.aux_params and any(
        "." in name for name in model.arg_params)


def target_files(path: str, epoch: int) -> list[str]:
    """Names of the files that `write_model` may write.

    Parameters
    ----------
    path : str
        Name of the file, or a prefix.
    epoch : int
        Number of the checkpoint, for a prefix.
    """
    suffix = suffix_of(path)
    if suffix == ".onnx":
        return [path, f"{path}.data"]
    return [path] if suffix else [f"{path}-symbol.json", f"{path}-{epoch:04d}.params"]


def _warn_of_losses(model: StoredModel, path: str, suffix: str) -> None:
    if model.symbol is not None and suffix in (".npz", ".params"):
        warn_user(f"{path}: the network is not written, {suffix} files have arrays only; keep it "
                  "in a -symbol.json")
    if suffix == ".json" and (model.arg_params or model.aux_params):
        warn_user(f"{path}: the parameters are not written, .json files have the network only")


def _require_symbol(model: StoredModel, path: str) -> Symbol:
    if model.symbol is None:
        raise MXNetError(f"{path}: not written: there is no network, only parameters; give its "
                         "-symbol.json, too, or write .params, .safetensors or .npz")
    return model.symbol


def _write_onnx(model: StoredModel, path: str, options: OnnxOptions) -> None:
    symbol = _require_symbol(model, path)
    declared = symbol.attr_dict()
    open_inputs = [name for name in model.inputs if "__shape__" not in declared.get(name, {})]
    if not options.shapes and open_inputs:
        raise ArgumentError(f"{path}: give the shapes of the inputs {', '.join(open_inputs)}, "
                            f"such as {model.shape_option()}")
    arguments = {"opset": options.opset, "verify": options.verify, "until": options.until}
    _onnx().export_model(symbol, {**model.arg_params, **model.aux_params}, dict(options.shapes),
                         in_types=None, onnx_file_path=path, dynamic=options.dynamic,
                         **{name: value for name, value in arguments.items() if value is not None})

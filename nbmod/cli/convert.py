"""`convert`: models between MXNet checkpoints, ONNX, safetensors and NumPy files.

    nbmod convert net-symbol.json net-0007.params -o net.onnx --shape data=1,3,224,224
    nbmod convert net --epoch 7 -o net.safetensors
    nbmod convert net.onnx -o net             net-symbol.json and net-0000.params
    nbmod convert model.tar.gz -o net.onnx
    nbmod convert net-0007.states -o net-0007.states.safetensors
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings

from ..base import MXNetError
from ..core.atomic import atomic_write, require_other_files, require_writable
from .options import add_network_options, import_modules

__all__ = ["HELP", "arguments", "run"]

HELP = "convert models between MXNet checkpoints, ONNX, safetensors and NumPy files"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add("sources", nargs="+", metavar="IN", help="the model: .onnx, .safetensors, a .json file "
        "with a .params, .safetensors or .npz file, the prefix of a checkpoint, or an archive with "
        "one (.tar.gz, .zip); or .states")
    add("-o", "--output", required=True, metavar="OUT", help="what to write: .onnx, .safetensors, "
        ".npz, .params, .json, or the prefix of a checkpoint")
    add("--epoch", type=int, help="of the checkpoint with a prefix; default: the newest is read, 0 "
        "is written")
    add_network_options(parser)
    add("--opset", type=int, help="version of ONNX's operators; default: that of export_model")
    add("--dynamic", action="store_true", help="sizes of ONNX inputs may change between runs")
    add("--no-verify", action="store_true", help="do not compare the ONNX file's outputs")
    add("--until", metavar="NODE", help="write the network up to this node to the ONNX file")


def run(options: argparse.Namespace) -> int:
    """Convert; print the files on stdout, and losses of the conversion on stderr."""
    from ..convert import OnnxOptions, write_model
    from ..convert.model_formats import find_parts, target_files
    from ..core.model_archive import archive_name
    from .origins import describe

    import_modules(options)
    if len(options.sources) > 2:
        raise MXNetError(f"convert: {len(options.sources)} files are given, expected a model in "
                         "one or two")
    if _is_states(options.sources[0]):
        return _convert_states(options)
    _refuse_onnx_options(options)
    archive = archive_name(options.sources[0])
    sources = [archive[0]] if archive else find_parts(options.sources, options.epoch)
    targets = target_files(options.output, options.epoch or 0)
    require_other_files(targets, [*sources, *(f"{source}.data" for source in sources)])
    for target in targets:
        require_writable(target)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _tell  # type: ignore[assignment]
        description = describe(options.sources, options.epoch, dict(options.shape))
        shapes = dict(options.shape) or description.shapes
        written = write_model(description.model, options.output, options.epoch or 0, OnnxOptions(
            shapes, options.opset, options.dynamic, False if options.no_verify else None,
            options.until))
    for path in written:
        print(f"{path}: {os.path.getsize(path):,} bytes")
    return 0


def _tell(message: Warning | str, *_: object) -> None:
    print(f"nbmod: convert: {message}", file=sys.stderr)


def _refuse_onnx_options(options: argparse.Namespace) -> None:
    names = [name for name in ("opset", "dynamic", "no_verify", "until") if getattr(options, name)]
    if names and not options.output.endswith(".onnx"):
        raise MXNetError(f"convert: --{names[0].replace('_', '-')} is for an OUT that is .onnx, "
                         f"given {options.output}")


def _is_states(path: str) -> bool:
    return path.endswith((".states", ".states.safetensors"))


def _convert_states(options: argparse.Namespace) -> int:
    """Optimizer states: pickles of MXNet, or safetensors."""
    from ..optimizer.state_files import read_states_file
    from ..optimizer.states import write_states
    from ..optimizer.tensor_states import save_states

    source, = options.sources[:1]
    if len(options.sources) > 1 or not _is_states(options.output):
        raise MXNetError(f"convert: {source} has optimizer states, which are written to one file "
                         f".states or .states.safetensors, given {options.output}")
    require_other_files([options.output], [source])
    require_writable(options.output)
    states, optimizer = read_states_file(source)
    if options.output.endswith(".safetensors"):
        save_states(options.output, states, optimizer)
    else:
        with atomic_write(options.output) as stream:
            write_states(stream, states if optimizer is None else (states, optimizer))
    told = "" if optimizer is None else f" and {type(optimizer).__name__}"
    print(f"{os.fspath(options.output)}: states of {len(states)} parameters{told}")
    return 0

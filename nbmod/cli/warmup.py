"""`warmup`: compile the kernels of a network ahead of its first run."""

from __future__ import annotations

import argparse
import time
from typing import Any

from ..base import MXNetError
from ..core.atomic import require_other_files, require_writable
from ..core.config import numpy_first, tuning
from ..core.foreign import refuse_suffix
from .options import add_network_options, import_modules, symbol_file

__all__ = ["HELP", "arguments", "run", "warm"]

HELP = "compile ahead what a network, or common layers, need, and keep it on disk"

Shapes = dict[str, tuple[int, ...]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("symbol", nargs="?", type=symbol_file,
                        help="the network: a -symbol.json file, or the prefix of a checkpoint; "
                             "default: a small one of common layers, for inference and training")
    add_network_options(parser)
    parser.add_argument("--train", action="store_true", help="backward and an update as well")
    parser.add_argument("--tune", action="store_true", help="measure which algorithm of each "
                        "convolution is the fastest; later binds use it")
    parser.add_argument("--optimizer", default="sgd",
                        help="which one updates, with its defaults; default: %(default)s")
    parser.add_argument("--export", metavar="FILE", help="also write all kernels that are kept to "
                        "this archive (.tar, .tar.gz or .tar.xz)")
    parser.add_argument("--install", metavar="FILE", help="keep the kernels of an "
                        "archive, and compile nothing; it must come from you: kernels are code")


def run(options: argparse.Namespace) -> int:
    """Compile, and print the time and the folder of the cache."""
    from ..ops.build import archive
    from ..ops.jit import cache_folder, keeps_code, kept_files, require_compiler
    from ..symbol import load

    require_compiler("warmup")
    if not keeps_code():
        raise MXNetError("warmup: nothing is kept, because of NBMOD_CACHE=0 or because "
                         f"{cache_folder()} cannot be written; unset it, or set NBMOD_CACHE_DIR")
    if options.install:
        count = archive.install(options.install)
        print(f"{count} kernels of {options.install} are kept in {cache_folder()}")
        return 0
    if options.symbol and not options.shape:
        raise MXNetError("warmup: give the shapes of the network's inputs, such as "
                         "--shape data=1,3,224,224")
    if options.export:
        refuse_suffix(options.export, ".tar")
        require_other_files([options.export], [options.symbol] if options.symbol else [])
        require_writable(options.export)
    import_modules(options)
    started, before = time.perf_counter(), kept_files()
    with tuning(options.tune), numpy_first(False):
        if options.symbol:
            warm(load(options.symbol), dict(options.shape), options.train, options.optimizer)
        else:
            for training in (False, True):
                warm(_common(), {"data": (2, 3, 32, 32)}, training, options.optimizer)
    print(f"{kept_files() - before} kernels compiled in {time.perf_counter() - started:.1f} s, "
          f"kept in {cache_folder()}")
    if options.export:
        print(f"{archive.export(options.export)} kernels are in {options.export}")
    return 0


def warm(symbol: Any, shapes: Shapes, training: bool, optimizer: str = "sgd") -> None:
    """Run a `Module` of `symbol` once in every mode that scripts use, with arbitrary data."""
    from .. import cpu, initializer, io, module, nd

    class Moderate(initializer.Normal):
        """Normal for parameters of any name, such as those of a user's own operators."""

        def _init_default(self, name: str, arr: nd.NDArray) -> None:
            self._init_weight(name, arr)

    arguments = symbol.list_arguments()
    argument_shapes = dict(zip(arguments, symbol.infer_shape(**shapes)[0], strict=True))
    labels = [name for name in arguments if name.endswith("_label") and name not in shapes]
    network = module.Module(symbol, list(shapes), labels, context=cpu())
    label_shapes = [(name, argument_shapes[name]) for name in labels]
    network.bind(list(shapes.items()), label_shapes or None, for_training=training)
    network.init_params(Moderate(0.05))
    batch = io.DataBatch([nd.ones(shapes[name]) for name in shapes],
                         [nd.zeros(argument_shapes[name]) for name in labels])
    network.forward(batch)
    if training:
        network.backward([nd.ones(out.shape) for out in network.get_outputs()])
        network.init_optimizer(optimizer=optimizer)
        network.update()


def _common() -> Any:
    """Convolutions, batch norm, ReLU, pooling, addition, dropout, dense layers."""
    from .. import sym

    x = sym.Variable("data")
    for number, stride in enumerate((1, 2)):
        name = f"unit{number}"
        x = sym.Convolution(x, num_filter=32, kernel=(3, 3), pad=(1, 1), name=f"{name}_conv")
        x = sym.Activation(sym.BatchNorm(x, name=f"{name}_bn"), act_type="relu")
        y = sym.Convolution(x, num_filter=32, kernel=(1, 1), no_bias=True, name=f"{name}_point")
        x = sym.Activation(sym.BatchNorm(y, name=f"{name}_bn2") + x, act_type="relu")
        x = sym.Pooling(x, pool_type="max", kernel=(2, 2), stride=(stride, stride))
    x = sym.Pooling(x, pool_type="avg", global_pool=True, kernel=(1, 1))
    x = sym.FullyConnected(sym.Flatten(x), num_hidden=32, name="dense")
    x = sym.Dropout(sym.Activation(x, act_type="relu"), p=0.5)
    return sym.SoftmaxOutput(sym.FullyConnected(x, num_hidden=10, name="scores"), name="softmax")

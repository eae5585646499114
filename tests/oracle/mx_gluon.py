"""Runs in the MXNet worker: losses, and a network that Gluon exports."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import mxnet as mx
import numpy as np

from tests.programs import gluon_blocks, gluon_losses
from tests.programs import np_shapes as np_shapes_program


def losses() -> list[dict[str, Any]]:
    """Values and gradients of the losses."""
    return gluon_losses.answers(mx)


def export(prefix: str) -> dict[str, Any]:
    """Export a small network; an input, its output, and the gradient of the first weight."""
    mx.random.seed(0)
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Conv2D(4, 3), mx.gluon.nn.BatchNorm(),
                mx.gluon.nn.Activation("relu"), mx.gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    data = mx.nd.array(np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32))
    output = net(data).asnumpy()
    net.export(prefix)
    weight = net[0].weight
    with mx.autograd.record():
        value = mx.nd.square(net(data)).sum()
    value.backward()
    return {"data": data.asnumpy(), "output": output, "gradient": weight.grad().asnumpy(),
            "mean": net[1].running_mean.data().asnumpy()}


def public_names(module: str) -> list[str]:
    """Classes and functions that a module of Gluon defines."""
    found = importlib.import_module(f"mxnet.gluon{module}")
    return [name for name, value in vars(found).items() if not name.startswith("_")
            and (inspect.isclass(value) or inspect.isfunction(value))
            and value.__module__.startswith(found.__name__)]


def names_of(module: str) -> list[str]:
    """Public names of a module of MXNet that are no modules."""
    found = importlib.import_module(f"mxnet.{module}")
    return [name for name, value in vars(found).items()
            if not name.startswith("_") and not inspect.ismodule(value)]


def np_shapes() -> dict[str, Any]:
    """Shapes under both meanings."""
    return np_shapes_program.answers(mx)


def empty_arrays() -> dict[str, Any]:
    """What operators make of arrays without elements; see `np_shapes.empty_answers`."""
    return np_shapes_program.empty_answers(mx)


def legal_options(cases: list[tuple[str, Any]]) -> list[bool]:
    """Whether universal functions take an option."""
    return [mx.util.np_ufunc_legal_option(key, value) for key, value in cases]


def names() -> dict[str, Any]:
    """Names of blocks, parameters and nodes."""
    return gluon_blocks.names(mx)


def structures() -> list[Any]:
    """Formats of arguments and results."""
    return gluon_blocks.structures(mx)


def parameters() -> dict[str, Any]:
    """Facts of parameters."""
    return gluon_blocks.parameters(mx)


def summary() -> list[str]:
    """Lines of summaries."""
    return gluon_blocks.summary(mx)


def errors(folder: str) -> list[tuple[str, str, str]]:
    """Kinds of errors, and how their texts begin."""
    return gluon_blocks.errors(mx, folder)


def write_files(folder: str) -> dict[str, Any]:
    """Write all kinds of files of a network."""
    return gluon_blocks.write_files(mx, folder)


def read_files(folder: str) -> dict[str, Any]:
    """Outputs of networks that are read from files."""
    return gluon_blocks.read_files(mx, folder)

"""Docstrings of the public interface: every parameter is described, every example runs.

`MODULES` lists the modules that are checked, each for its own definitions.  Examples may assume
`import nbmod as mx`.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import nbmod as mx

MODULES = (
    "nbmod.attribute",
    "nbmod.autograd",
    "nbmod.callback",
    "nbmod.callback.limits",
    "nbmod.callback.loggers",
    "nbmod.callback.lr_finder",
    "nbmod.callback.mxnet_callbacks",
    "nbmod.callback.nan_guard",
    "nbmod.callback.epoch_bars",
    "nbmod.callback.tensorboard_writer",
    "nbmod.callback.watchers",
    "nbmod.checkpoint",
    "nbmod.core.config",
    "nbmod.context",
    "nbmod.contrib.autograd",
    "nbmod.contrib.io",
    "nbmod.contrib.tensorboard",
    "nbmod.contrib.text.embedding",
    "nbmod.contrib.text.utils",
    "nbmod.contrib.text.vocab",
    "nbmod.convert.model_formats",
    "nbmod.convert.torch_params",
    "nbmod.engine",
    "nbmod.executor",
    "nbmod.executor_manager",
    "nbmod.compat.feedforward",
    "nbmod.gluon.base_block",
    "nbmod.gluon.base_parameter",
    "nbmod.gluon.constant",
    "nbmod.gluon.contrib.cnn.conv_layers",
    "nbmod.gluon.contrib.data.sampler",
    "nbmod.gluon.contrib.data.text",
    "nbmod.gluon.contrib.estimator.batch_processor",
    "nbmod.gluon.contrib.estimator.estimator",
    "nbmod.gluon.contrib.nn.basic_layers",
    "nbmod.gluon.contrib.rnn.conv_rnn_cell",
    "nbmod.gluon.contrib.rnn.rnn_cell",
    "nbmod.gluon.data.batches",
    "nbmod.gluon.data.dataloader",
    "nbmod.gluon.data.dataset",
    "nbmod.gluon.data.sampler",
    "nbmod.gluon.data.vision.datasets",
    "nbmod.gluon.data.vision.transforms",
    "nbmod.gluon.hybrid_block",
    "nbmod.gluon.loss",
    "nbmod.gluon.model_zoo.image_network",
    "nbmod.gluon.model_zoo.model_store",
    "nbmod.gluon.model_zoo.vision",
    "nbmod.gluon.model_zoo.vision.alexnet",
    "nbmod.gluon.model_zoo.vision.densenet",
    "nbmod.gluon.model_zoo.vision.inception",
    "nbmod.gluon.model_zoo.vision.mobilenet",
    "nbmod.gluon.model_zoo.vision.resnet",
    "nbmod.gluon.model_zoo.vision.squeezenet",
    "nbmod.gluon.model_zoo.vision.vgg",
    "nbmod.gluon.nn.activations",
    "nbmod.gluon.nn.basic_layers",
    "nbmod.gluon.nn.conv_layers",
    "nbmod.gluon.nn.norm_layers",
    "nbmod.gluon.nn.pooling_layers",
    "nbmod.gluon.parameter_dict",
    "nbmod.gluon.rnn.cell_containers",
    "nbmod.gluon.rnn.cell_modifiers",
    "nbmod.gluon.rnn.recurrent_cell",
    "nbmod.gluon.rnn.rnn_cell",
    "nbmod.gluon.rnn.rnn_layer",
    "nbmod.gluon.symbol_block",
    "nbmod.gluon.trainer",
    "nbmod.gluon.utils",
    "nbmod.history",
    "nbmod.image.augmenter_lists",
    "nbmod.image.augmenters",
    "nbmod.image.det_augmenters",
    "nbmod.image.det_iterator",
    "nbmod.image.image_functions",
    "nbmod.image.iterator",
    "nbmod.initializer",
    "nbmod.initializer.base_initializer",
    "nbmod.io.data_iter",
    "nbmod.io.dataset",
    "nbmod.io.generator",
    "nbmod.io.image_det_record",
    "nbmod.io.image_record",
    "nbmod.io.mnist",
    "nbmod.io.native",
    "nbmod.io.ndarray_iter",
    "nbmod.io.prefetching",
    "nbmod.io.record_table",
    "nbmod.io.resize_iter",
    "nbmod.io.sampler",
    "nbmod.io.text",
    "nbmod.kvstore.base",
    "nbmod.kvstore.compression",
    "nbmod.kvstore.kvstore",
    "nbmod.libinfo",
    "nbmod.lr_scheduler",
    "nbmod.metric",
    "nbmod.metric.eval_metric",
    "nbmod.metric.classification",
    "nbmod.metric.likelihood",
    "nbmod.metric.regression",
    "nbmod.model",
    "nbmod.module.base_module",
    "nbmod.module.bound_executors",
    "nbmod.module.bucketing_module",
    "nbmod.module.det_module",
    "nbmod.module.executor_group",
    "nbmod.module.module",
    "nbmod.module.module_interface",
    "nbmod.module.prediction",
    "nbmod.module.python_module",
    "nbmod.module.saved_buckets",
    "nbmod.module.saved_module",
    "nbmod.module.sequential_module",
    "nbmod.monitor",
    "nbmod.name",
    "nbmod.ndarray.contrib",
    "nbmod.ndarray.control_flow",
    "nbmod.ndarray.array_creation",
    "nbmod.ndarray.array_functions",
    "nbmod.ndarray.dlpack",
    "nbmod.mxnet_predict",
    "nbmod.serving",
    "nbmod.sklearn",
    "nbmod.ndarray.host_array",
    "nbmod.ndarray.gradients",
    "nbmod.ndarray.invocation",
    "nbmod.ndarray.ndarray",
    "nbmod.ndarray.random",
    "nbmod.ndarray.saving",
    "nbmod.ndarray.sparse",
    "nbmod.ndarray.update",
    "nbmod.optimizer",
    "nbmod.optimizer.adaptive",
    "nbmod.optimizer.base_optimizer",
    "nbmod.optimizer.contrib",
    "nbmod.optimizer.layerwise",
    "nbmod.optimizer.sgd",
    "nbmod.optimizer.tensor_states",
    "nbmod.optimizer.updater",
    "nbmod.profiler.session",
    "nbmod.profiler.objects",
    "nbmod.random",
    "nbmod.recordio.files",
    "nbmod.recordio.record_headers",
    "nbmod.rnn",
    "nbmod.rnn.base_cell",
    "nbmod.rnn.containers",
    "nbmod.rnn.conv",
    "nbmod.rnn.fused",
    "nbmod.rnn.gates",
    "nbmod.rnn.io",
    "nbmod.rnn.modifiers",
    "nbmod.rnn.rnn",
    "nbmod.runtime",
    "nbmod.safetensors.model_file",
    "nbmod.safetensors.tensor_file",
    "nbmod.core.shape_semantics",
    "nbmod.symbol",
    "nbmod.symbol.contrib",
    "nbmod.symbol.control_flow",
    "nbmod.symbol.fluent",
    "nbmod.symbol.functions",
    "nbmod.symbol.inference",
    "nbmod.symbol.operators",
    "nbmod.symbol.random",
    "nbmod.symbol.symbol",
    "nbmod.test_utils.arrays",
    "nbmod.test_utils.symbol_checks",
    "nbmod.test_utils.compare",
    "nbmod.test_utils.consistency",
    "nbmod.test_utils.datasets",
    "nbmod.test_utils.generators",
    "nbmod.test_utils.process",
    "nbmod.test_utils.tolerance",
    "nbmod.util",
    "nbmod.visualization",
)
SECTIONS = ("Parameters", "Other Parameters")

each_module = pytest.mark.parametrize("name", MODULES)


def public_functions(module: ModuleType) -> Iterator[tuple[str, Any, list[str]]]:
    """(name, function, docstrings that may describe it) of what users call in a module."""
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(thing):
            yield from public_methods(thing)
        elif inspect.isfunction(thing) and (
                inspect.unwrap(thing).__code__.co_filename == module.__file__):  # not an operator
            yield name, thing, [inspect.getdoc(thing) or ""]


def public_methods(owner: type) -> Iterator[tuple[str, Any, list[str]]]:
    """Methods that a class defines; one that overrides another may be described there."""
    for name, found in vars(owner).items():
        method = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
        if not inspect.isfunction(method) or (name.startswith("_") and name != "__init__"):
            continue
        if name == "hybrid_forward":  # calls of a block have its arguments
            continue
        if "<string>" in method.__code__.co_filename:  # a dataclass writes such a method itself
            continue
        owners = owner.__mro__ if name == "__init__" else [
            vars(base)[name] for base in owner.__mro__ if name in vars(base)]
        yield (f"{owner.__name__}.{name}", method,
               [inspect.cleandoc(each.__doc__ or "") for each in owners])


def parameters(function: Any) -> set[str]:
    """Names of the signature's parameters except the instance or class."""
    names = list(inspect.signature(function).parameters)
    return set(names) - {"self", "cls"} if names[:1] in (["self"], ["cls"]) else set(names)


def described(docstring: str) -> set[str]:
    """Names in the sections that a numpydoc docstring has for parameters."""
    lines = docstring.splitlines()
    names: set[str] = set()
    section = ""
    for line, following in zip(lines, [*lines, ""][1:], strict=True):
        if following and not following.strip("-"):
            section = line
        elif section in SECTIONS:
            head = re.match(r"(\*{0,2}\w+(?:, ?\*{0,2}\w+)*)\s*(:|$)", line)
            if head:
                names |= {name.strip(" *") for name in head[1].split(",")}
    return names


@each_module
def test_every_parameter_is_described(name):
    missing = {}
    for where, function, docstrings in public_functions(importlib.import_module(name)):
        left = parameters(function) - set().union(*map(described, docstrings))
        if left:
            missing[where] = sorted(left)
    assert not missing


@each_module
def test_examples_print_what_they_say(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(verbose=False)
    printed: list[str] = []
    finder = doctest.DocTestFinder(exclude_empty=True)
    for examples in finder.find(module, name, extraglobs={"mx": mx}):
        runner.run(examples, out=printed.append)
    assert not runner.failures, "".join(printed)


def test_parameters_are_found_in_docstrings():
    """Preconditions of the first test."""
    text = """Do it.

    Parameters
    ----------
    first, second : int
        One and another: of them.
    *args
        The others.
    Returns
    -------
    third : int
        It.
    """
    assert described(inspect.cleandoc(text)) == {"first", "second", "args"}
    assert described("") == set()

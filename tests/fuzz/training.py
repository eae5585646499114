"""Programs as the network of a Module, trained over epochs; in either library.

`fit` trains by the Module alone, `by_hand` by an executor and an updater, step by step.
"""

from __future__ import annotations

import logging
import zlib
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.program import Program, build, drawn
from tests.fuzz.runs import Results, dtype_of, values_of

BATCHES = 2
LABEL = "unused_label"
"""MXNet does not train without."""
QUIET = logging.getLogger("tests.fuzz.training")
QUIET.setLevel(logging.CRITICAL)
OPTIMIZERS = (
    ("sgd", {"learning_rate": 0.01}), ("sgd", {"learning_rate": 0.01, "momentum": 0.9}),
    ("sgd", {"learning_rate": 0.01, "wd": 0.1, "clip_gradient": 0.5}),
    ("adam", {"learning_rate": 0.01, "epsilon": 0.01}))     # which no rounding reaches


class Training:
    """A program with losses, its data and optimizer; `applies` is False where it cannot be one."""

    def __init__(self, mx: Any, program: Program):
        symbol, self.fixed = build(mx, program)
        self.mx, self.program = mx, program
        self.symbol = mx.sym.Group([*(mx.sym.MakeLoss(output) for output in symbol),
                                    mx.sym.BlockGrad(mx.sym.Variable(LABEL))])
        read = self.symbol.list_arguments()
        self.shapes = {f"x{i}": shape for i, shape in enumerate(program.inputs) if f"x{i}" in read}
        self.batches = {shape[0] for shape in self.shapes.values()}
        self.known = {**self.shapes, LABEL: (max(self.batches, default=1),)}
        names = set(read) - set(self.known) - set(self.fixed)
        # A Module binds what has no type of its own as float32.
        self.applies = (len(self.batches) == 1 and not program.groups and bool(names)
                        and all(dtype_of(value, "float32") == np.float32
                                for value in self.fixed.values()))
        rng = Random(zlib.crc32(program.to_json().encode()))
        self.optimizer, self.epochs = rng.choice(OPTIMIZERS), rng.randint(2, 3)
        # labels and other given values are no parameters
        self.kept = [name for name in read if name in self.fixed]

    def data(self, number: int) -> dict[str, np.ndarray]:
        return {name: drawn(name, shape, "float32", number)
                for name, shape in self.shapes.items()}

    def parameters(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Initial values of arguments and states."""
        shapes, _, states = self.symbol.infer_shape(**self.known)
        tables = zip((self.symbol.list_arguments(), self.symbol.list_auxiliary_states()),
                     (shapes, states), strict=True)
        args, aux = ({name: self._array(name, shape) for name, shape in zip(*table, strict=True)
                      if name not in self.known} for table in tables)
        return args, aux

    def _array(self, name: str, shape: Any) -> Any:
        array = self.mx.nd.zeros(shape)
        array[:] = values_of(name, array, self.fixed)
        return array

    def options(self) -> tuple[str, dict[str, Any]]:
        name, options = self.optimizer
        return name, {**options, "rescale_grad": 0.1}


def fit(mx: Any, training: Training) -> Results:
    """By `Module.fit`."""
    batch = next(iter(training.batches))
    data = {name: np.concatenate([training.data(number)[name] for number in range(BATCHES)])
            for name in training.shapes}
    iterator = mx.io.NDArrayIter(data, np.zeros(BATCHES * batch, np.float32), batch_size=batch,
                                 label_name=LABEL)
    module = mx.mod.Module(training.symbol, data_names=sorted(training.shapes), label_names=[LABEL],
                           fixed_param_names=training.kept, logger=QUIET)
    args, aux = training.parameters()
    name, options = training.options()
    module.fit(iterator, eval_metric=mx.metric.Loss(), optimizer=name, optimizer_params=options,
               arg_params=args, aux_params=aux, num_epoch=training.epochs, kvstore=None)
    args, aux = module.get_params()
    return {name: array.asnumpy() for name, array in {**args, **aux}.items()}


def by_hand(mx: Any, training: Training) -> Results:
    """By an executor, all of whose arrays are given."""
    args, aux = training.parameters()
    trained = [name for name in args if name not in training.kept]
    arrays = {**args, **{name: mx.nd.zeros(shape) for name, shape in training.known.items()}}
    executor = training.symbol.bind(
        mx.cpu(), arrays, aux_states=aux,
        args_grad={name: mx.nd.zeros(args[name].shape) for name in trained},
        grad_req={name: "write" if name in trained else "null" for name in arrays})
    name, options = training.options()
    updater = mx.optimizer.get_updater(mx.optimizer.create(
        name, param_idx2name=dict(enumerate(trained)), **options))
    for _ in range(training.epochs):
        for number in range(BATCHES):
            for each, values in training.data(number).items():
                arrays[each][:] = values
            executor.forward(is_train=True)
            executor.backward()
            for index, each in enumerate(trained):
                updater(index, executor.grad_dict[each], arrays[each])
    return {name: array.asnumpy() for name, array in {**args, **aux}.items()}

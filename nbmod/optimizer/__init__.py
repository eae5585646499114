"""Optimizers: `create("sgd", momentum=0.9)`, the classes that it creates, and `Updater`.

An optimizer chooses rates and makes the update operator of a step; the arithmetic is in
`nbmod.ops.optimizer`.  Files of states are checked when they are read, and nothing in them is
executed.

    base_optimizer.py  `Optimizer`: learning rates, update counts and multipliers
    update_step.py     the update of one parameter by its operator
    sgd.py             SGD, NAG, Signum, SGLD, DCASGD
    adaptive.py        Adam, AdaGrad, RMSProp and others, with a rate for each coordinate
    layerwise.py       LARS, LBSGD and LAMB, for large batches
    contrib.py         GroupAdaGrad
    updater.py         `Updater`: an optimizer with the states of all parameters
    states.py          `.states` files, MXNet's pickles
    state_files.py     files with the states of an updater
    safe_unpickler.py  a reader of pickles that builds plain data and calls nothing
    state_checks.py    checks of optimizers and states that were read
    tensor_states.py   states in `.safetensors` files
    optimizer.py       `mx.optimizer.optimizer`, MXNet's path to the classes

Begin with `base_optimizer.py`.  Imports `base`, `context`, `core`, `lr_scheduler`, `ndarray`,
`ops`, `safetensors.tensor_file` and `symbol`.

Examples
--------
>>> optimizer = mx.optimizer.create("adam", learning_rate=0.1)
>>> updater = mx.optimizer.get_updater(optimizer)
>>> weight = mx.nd.array([4.0])
>>> for _ in range(100):
...     updater(0, 2 * weight, weight)
>>> abs(weight.asscalar().item()) < 0.1
True
"""

from . import contrib, optimizer
from .optimizer import *  # noqa: F403

__all__ = ["contrib", "optimizer"]
__all__ += optimizer.__all__
__dir__ = __all__.copy

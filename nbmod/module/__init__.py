"""The Module API: networks with parameters, an optimizer and a training loop.

The state of a module of any kind is four flags: `binded`, `params_initialized`,
`optimizer_initialized` and `for_training`.  `fit`, `score` and `predict` are written once, in
`base_module` and `prediction`, against the methods of `module_interface`.

    module_interface.py   `ModuleInterface`: the methods of all kinds of modules
    arguments.py          types of arguments; names and contexts, validated
    batch_shapes.py       names, shapes and batch axes of inputs
    turns.py              a lock by which threads take turns, with outputs of their own
    training_position.py  `BatchEndParam`; epoch, batch, iterators and random sequences of a `fit`
    prediction.py         `predict` and `iter_predict`
    base_module.py        `BaseModule`: `fit` and `score`
    fit_warnings.py       warnings of `fit` about likely mistakes, such as a second optimizer
    module_text.py        `repr` of a module
    batch_slices.py       a batch cut for several devices, and outputs joined
    executor_group.py     one executor per device, each with its slice of the batch
    bound_executors.py    executors that a device keeps for the last shapes of batches
    params.py             first values of parameters, and their copies on devices
    optimizer_setup.py    optimizers: created, compared with what a script asks for, restored
    store_updates.py      updates through a key-value store
    reindexed_updater.py  an updater for modules that list the same parameters in other orders
    workers.py            training beside the other ranks of a distributed store
    json_codec.py         plain data and arrays as JSON, for `.resume` files
    resume.py             `.resume` files: all that the three files of a checkpoint omit
    training_state.py     the contents of a `.resume` file: saved, restored, continued
    saved_module.py       checkpoints of modules with one symbol
    module.py             `Module`: one symbol, its parameters and its optimizer
    bucket_keys.py        bucket keys in files
    saved_buckets.py      checkpoints of buckets
    bucketing_module.py   `BucketingModule`: a network for each length of input, shared parameters
    sequential_module.py  `SequentialModule`: a chain of modules
    python_module.py      `PythonModule` and `PythonLossModule`: a step written in Python
    det_module.py         `DetModule`: detection networks, as in SimpleDet

Begin with `module_interface.py`.  Imports `base`, `callback`, `checkpoint`, `context`, `core`,
`execution.bind`, `executor`, `graph`, `initializer`, `io`, `kvstore`, `launcher.position`,
`lr_scheduler`, `metric`, `ndarray`, `ops`, `optimizer`, `profiler` and `symbol`.
"""

from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .det_module import DetModule
from .module import Module
from .python_module import PythonLossModule, PythonModule
from .sequential_module import SequentialModule

__all__ = ["BaseModule", "BucketingModule", "DetModule", "Module", "PythonLossModule",
           "PythonModule", "SequentialModule"]
__dir__ = __all__.copy

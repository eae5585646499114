"""Compile every kernel that the sample table reaches to PTX, without a device or a driver.

    python -m tests.cuda_compile             a sample for every kernel, of one element type each
    python -m tests.cuda_compile Conv "" ... all samples whose names start so, in all their types

A `Ghost` stands in for the GPU: its arrays have no memory, and what would be launched on it is
compiled for the types of the arguments instead.  What numba's simulator cannot show comes out here:
code that cannot be typed, or that needs what a device does not have.

Prints one line, as JSON: how many kernels, what failed, or why nothing could be compiled.
"""

# ruff: noqa: TID251 - this is numba looking at what nbmod gives it

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

os.environ.pop("NUMBA_ENABLE_CUDASIM", None)

import numba.cuda.dispatcher
import numpy as np
from numba import cuda, from_dtype, typeof, types

import nbmod as mx
from nbmod.ops import OPS, device
from nbmod.ops.cuda.device import Gpu
from nbmod.ops.cuda.formula_op import run_program
from nbmod.ops.cuda.launch import Launch
from nbmod.ops.cuda.memory import Array
from nbmod.ops.formula import VOCABULARY
from nbmod.ops.formula_op import FormulaOp
from nbmod.ops.program import Program, Step
from tests import either
from tests.cases import Sample, all_samples

CAPABILITY = (8, 0)
"""Every toolkit since CUDA 11 knows it."""


class Ghost(Gpu):
    """A GPU without memory that remembers its launches."""

    def __init__(self) -> None:
        self.device_id = 0
        self.launches: list[Launch] = []

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        return Array(self, None, 0, shape, dtype)

    def copy(self, src: Any, dst: Any) -> None:
        """Nothing moves."""

    def full(self, shape: Sequence[int], dtype: Any, value: float) -> Array:
        return self.empty(shape, dtype)

    def from_numpy(self, array: np.ndarray) -> Array:
        return self.empty(array.shape, array.dtype)

    def to_numpy(self, array: Array) -> np.ndarray:
        return np.zeros(array.shape, array.dtype)

    def launcher(self, steps: Sequence[Any]) -> Any:
        def run() -> None:
            for step in steps:
                self.launches += [step] if isinstance(step, Launch) else step() or ()

        return run


def bind_and_run(sample: Sample, dtype: str) -> None:
    """Bind the sample to the ghost, forward and backward."""
    symbol = either.compose(mx, sample.op, sample.attrs, list(sample.specs), sample.keyword)
    grads = dict.fromkeys(sample.differentiated(dtype), "write")
    with mx.gpu(0):
        arrays = {name: either.nd(mx, array) for name, array in sample.arrays(dtype).items()}
        args = {name: arrays[name] for name in symbol.list_arguments()}
        aux = {name: arrays[name] for name in symbol.list_auxiliary_states()}
        executor = symbol.bind(
            mx.gpu(0), args, {name: mx.nd.zeros_like(args[name]) for name in grads},
            {name: grads.get(name, "null") for name in args}, aux)
    executor.forward(is_train=sample.is_train)
    if grads:
        executor.backward([mx.nd.zeros(y.shape, mx.gpu(0), y.dtype) for y in executor.outputs])


def signature(launch: Launch) -> tuple[Any, ...]:
    """The types of a launch's arguments."""
    return tuple(types.Array(from_dtype(arg.dtype), 1, "C") if isinstance(arg, Array)
                 else typeof(arg) for arg in launch.args)


def compiles(function: Any, kinds: tuple[Any, ...]) -> str:
    """"" if numba makes PTX of a kernel, else what it said."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text, _ = cuda.compile_ptx(function, kinds, cc=CAPABILITY)
        return "" if ".visible .entry" in text else "no kernel in the PTX"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def chosen(names: Sequence[str]) -> dict[str, Sample]:
    """The named samples, or one for every way to call an op that makes it another kernel."""
    samples = {name: sample for name, sample in all_samples().items()
               if not (sample.error or sample.eager)}
    if names:
        return {name: sample for name, sample in samples.items() if name.startswith(tuple(names))}
    ways: dict[Any, str] = {}
    for name, sample in samples.items():
        family = "formula" if issubclass(OPS[sample.op], FormulaOp) else sample.op
        words = sorted(f"{k} {v}" for k, v in sample.attrs.items() if isinstance(v, (str, bool)))
        ways.setdefault((family, sample.op if words else "", str(words)), name)
    return {name: samples[name] for name in ways.values()}


def ghost_launches(samples: Mapping[str, Sample], types: int) -> list[Launch]:
    """What samples would launch, forward and backward, with so many of their element types."""
    ghost = Ghost()
    device._gpus[0] = ghost
    device.gpu_count = lambda: 1
    for sample in samples.values():
        for dtype in sample.dtypes[:types]:
            try:
                bind_and_run(sample, dtype)
            except mx.MXNetError as error:
                if "no kernels yet" not in str(error):
                    raise
    for real in ("float32", "float64"):
        x = ghost.empty((5,), real)
        ghost.launcher(run_program(vocabulary(), [x, x], [x] * len(VOCABULARY)))()
    return ghost.launches


def vocabulary() -> Program:
    """Every function of the formula language."""
    arguments = {1: "x", 2: "x, z", 3: "x > 0, x, z"}
    steps = tuple(Step(f"y{i}", f"{word}({arguments[count]})")
                  for i, (word, count) in enumerate(VOCABULARY.items()))
    return Program("vocabulary", steps, ("x", "z"), tuple(step.target for step in steps))


def main(names: Sequence[str]) -> dict[str, Any]:
    # Device functions ask the current device for what it can do; there is none.
    numba.cuda.dispatcher.get_current_device = lambda: SimpleNamespace(
        compute_capability=CAPABILITY)
    trial = compiles(lambda x: None, (types.float32[::1],))
    if trial:
        return {"missing": trial}
    launches = ghost_launches(chosen(names), 9 if names else 1)
    wanted = {(launch.kernel.py_func, signature(launch)) for launch in launches}
    failed = {}
    for function, kinds in wanted:
        said = compiles(function, kinds)
        if said:
            failed[f"{function.__module__}.{function.__name__}{kinds}"] = said[:2000]
    return {"kernels": len(wanted), "failed": failed}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))

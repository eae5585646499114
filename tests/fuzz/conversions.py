"""Programs in another form: as a model of ONNX and back, and in mixed precision.

A conversion gives what the other form computes in inference; None where it does not apply.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nbmod.execution.pipeline import validating
from tests.fuzz.program import Program, build
from tests.fuzz.runs import Results, Way, bind, empty, fill, kept_by, results, settings

Conversion = Callable[[Any, Program], "Results | None"]


@contextmanager
def _quiet() -> Iterator[None]:
    """A block without the warnings that conversions log."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@_quiet()
def through_onnx(mx: Any, program: Program) -> Results | None:
    """Exported and imported; not for ops that ONNX does not express."""
    if find_spec("onnx") is None:
        return None
    executor = bind(mx, program)
    symbol = executor._symbol
    values = {**executor.arg_dict, **executor.aux_dict}
    inputs = {name: array for name, array in executor.arg_dict.items() if name.startswith("x")}
    params = {name: array for name, array in values.items() if name not in inputs}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        try:
            mx.onnx.export_model(symbol, params, {name: array.shape for name, array
                                                  in inputs.items()},
                                 onnx_file_path=path, verify=False)
        except mx.MXNetError:
            return None
        try:
            found, args, aux = mx.onnx.import_model(path)
        except mx.onnx.importing.UnsupportedModel:
            return None
    if len(found.list_outputs()) < len(symbol.list_outputs()):
        return None     # what is computed from labels is not exported
    with validating():
        made = found.simple_bind(mx.cpu(), grad_req="null", **{
            name: array.shape for name, array in inputs.items()
            if name in found.list_arguments()})
    made.copy_params_from({**args, **{name: array for name, array in inputs.items()
                                      if name in made.arg_dict}}, aux)
    # States of layers that only labels read are not exported; inference changes none.
    return kept_by(executor) | results(mx, made, program)


@_quiet()
def in_mixed_precision(mx: Any, program: Program) -> Results | None:
    """Converted by AMP; not for programs with ops that do not support float16."""
    symbol, fixed = build(mx, program)
    with settings(mx, program, Way("mixed precision", validates=True)):
        try:
            executor = empty(mx, program, (mx.contrib.amp.convert_symbol(symbol), fixed))
        except mx.MXNetError as error:
            if "NBMOD_CHECK" in str(error):
                raise
            return None
        fill(executor, fixed, narrow="float16")
        return results(mx, executor, program, "float16")

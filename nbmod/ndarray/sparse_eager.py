"""Eager execution of ops some of whose inputs or outputs are sparse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from ..context import Context
from ..graph import Entry
from ..ops.device import CPU
from ..ops.op import Op
from ..ops.optimizer.sgd_update import Update
from ..ops.sparse.fallback import tell
from ..ops.sparse.formats import from_dense, letters_of, to_dense
from ..ops.sparse.forms import compute
from ..ops.sparse.storage_casts import CastStorage
from ..ops.sparse.storage_types import result
from . import tape
from .array_creation import zeros
from .eager import execute
from .invocation import invoke
from .ndarray import NDArray
from .recording import STATE
from .sparse_array import BaseSparseNDArray, of_value
from .sparse_update import update_sparse

__all__ = ["invoke_sparse"]

def invoke_sparse(op: Op, inputs: Sequence[NDArray], out: Any, ctx: Context) -> Any:
    """`invoke` for sparse inputs or outputs."""
    if isinstance(op, Update):
        return _update(op, inputs, out)
    if out is not None:
        return _into(op, inputs, out, ctx)
    if ctx.is_gpu:
        raise MXNetError(f"{op.name}: sparse arrays are on the CPU, given arrays on {ctx}; bring "
                         "them to mx.cpu() by as_in_context")
    values = [array._data for array in inputs]
    letters = letters_of(values)
    recorded = STATE.recording and tape.is_any_recorded(inputs)
    letter = None if recorded and len(op.list_outputs()) > 1 else result(op, letters)
    if letter is None:
        tell(op.name, letters)
        return _on_dense_arrays(op, inputs)
    with np.errstate(all="ignore"):     # infinity and NaN are results
        value = compute(op, values, letter, lambda op, ins: execute(op, ins, CPU)[0])
    array = of_value(value, ctx)
    if recorded:
        node = tape.Recorded(op, [tape.entry_of(array) for array in inputs], ctx)
        tape.save_for_backward(node, values, [value])
        array._entry = Entry(node)
    return array


def _on_dense_arrays(op: Op, inputs: Sequence[NDArray]) -> Any:
    dense = [_dense(array) for array in inputs]
    outputs = invoke(op, dense, casts=False)
    for index in op.aux_indices():
        if inputs[index].is_sparse:
            inputs[index][:] = dense[index]
    return outputs


def _update(op: Op, inputs: Sequence[NDArray], out: Any) -> Any:
    """An update op changes its states; the new weight is written to `out`."""
    if out is None:
        out = inputs[0].copy()
    elif out is not inputs[0]:
        inputs[0].copyto(out)

    def run(arrays: list[np.ndarray]) -> None:
        execute(op, arrays, CPU, arrays[:1])

    update_sparse(op, [out, *inputs[1:]], run)
    return out


def _into(op: Op, inputs: Sequence[NDArray], out: Any, ctx: Context) -> Any:
    """Compute, and copy to the arrays of `out`, which may be of other storage types."""
    targets = [out] if isinstance(out, NDArray) else list(out)
    if not inputs:      # the shape of the results is that of `out`
        fresh = invoke(op, inputs, [zeros(target.shape, ctx, target.dtype) for target in targets],
                       casts=False)
    else:
        fresh = invoke(op, inputs, None, ctx, casts=False)
    results = fresh if isinstance(fresh, list) else [fresh]
    if len(results) != len(targets):
        raise MXNetError(f"{op.name}: {len(targets)} array(s) given as out, expected "
                         f"{len(results)}")
    for source, target in zip(results, targets, strict=True):
        if target.shape != source.shape:
            raise MXNetError(f"{op.name}: out has shape {target.shape}, expected {source.shape}")
        if isinstance(target, BaseSparseNDArray):
            if STATE.recording:
                tape.require_unrecorded(op.name, targets, inputs)
            value = source._data
            if source.stype != target.stype:
                value = from_dense(to_dense(value), target.stype)
            target._data = value.astype(target._data.dtype)
            target._entry = source._entry
        else:
            source.copyto(target)
    return out


def _dense(array: NDArray) -> NDArray:
    return invoke(CastStorage(stype="default"), [array]) if array.is_sparse else array

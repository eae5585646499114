"""Prediction, batch by batch or for all samples of an iterator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..base import ArgumentError, MXNetError
from ..io import DataBatch, DataIter
from ..ndarray import NDArray, array, concatenate
from .arguments import Batch, Predictions, RowFunction
from .executor_group import cut
from .module_interface import ModuleInterface
from .training_position import require_iterator

if TYPE_CHECKING:
    from ..base import Array

__all__ = ["PredictingModule"]


class PredictingModule(ModuleInterface):
    """Prediction of all kinds of modules."""

    def iter_predict(self, eval_data: DataIter, num_batch: int | None = None, reset: bool = True,
                     sparse_row_id_fn: RowFunction = None
                     ) -> Iterator[tuple[list[NDArray], int, Batch]]:
        """Iterate over predictions, batch by batch.

        Parameters
        ----------
        eval_data : DataIter
            Batches of data; labels are not needed.
        num_batch : int, optional
            Predict at most this many batches; all by default.
        reset : bool, default True
            Reset `eval_data` first.
        sparse_row_id_fn : callable, optional
            As for `prepare`.

        Yields
        ------
        (list of NDArray, int, DataBatch)
            Outputs without the samples that pad the last batch, the number of the batch, and the
            batch. Outputs may be overwritten by the next iteration; copy those to be kept.
        """
        self._require("binded", "params_initialized")
        require_iterator("iter_predict: eval_data", eval_data, "reset")
        if reset:
            eval_data.reset()
        for nbatch, batch in enumerate(eval_data):
            if nbatch == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(batch, is_train=False)
            pad = (batch[-1] if isinstance(batch, list) else batch).pad or 0
            outputs = self.get_outputs()
            yield [cut(out, axis, slice(0, out.shape[axis] - pad)) for out, axis in
                   zip(outputs, self._output_axes(len(outputs)), strict=True)], nbatch, batch

    def _output_axes(self, count: int) -> list[int]:
        """Batch axis of each output, -1 for none: the first, in modules that do not define it."""
        return [0] * count

    def predict(self, eval_data: DataIter | NDArray | Array, num_batch: int | None = None,
                merge_batches: bool = True, reset: bool = True, always_output_list: bool = False,
                sparse_row_id_fn: RowFunction = None) -> Predictions:
        """Compute the outputs for all samples of an iterator, or for one array.

        Samples that pad the last batch are removed.

        Parameters
        ----------
        eval_data : DataIter, NDArray or numpy.ndarray
            Batches of data, or one batch as an array. Labels are not needed.
        num_batch : int, optional
            Predict at most this many batches; all by default.
        merge_batches : bool, default True
            Join the outputs of all batches along the batch axis.
        reset : bool, default True
            Reset `eval_data` first.
        always_output_list : bool, default False
            Return a list even if the network has only one output; has no effect without
            `merge_batches`.
        sparse_row_id_fn : callable, optional
            As for `prepare`.

        Returns
        -------
        NDArray or list
            With `merge_batches`, one NDArray, or a list with one for each output; without it a
            list with a list of outputs for each batch. For an array: the first output.

        Raises
        ------
        MXNetError
            If the number of outputs differs between batches that are to be merged.

        Examples
        --------
        >>> data = mx.io.NDArrayIter(mx.nd.array([[1], [2], [3]]), batch_size=2)
        >>> module = mx.mod.Module(mx.sym.Variable("data") * 10, label_names=None)
        >>> module.bind(data.provide_data, for_training=False)
        >>> module.init_params()
        >>> module.predict(data).asnumpy().tolist()
        [[10.0], [20.0], [30.0]]
        """
        self._require("binded", "params_initialized")
        if isinstance(eval_data, (NDArray, np.ndarray)):
            data = array(eval_data) if isinstance(eval_data, np.ndarray) else eval_data
            self.forward(DataBatch([data]))
            return self.get_outputs()[0]
        if not hasattr(eval_data, "provide_data"):
            raise ArgumentError(f"predict: eval_data is a {type(eval_data).__name__}, expected a "
                                "DataIter, NDArray or numpy.ndarray")
        batches = [[out.copy() for out in outputs] for outputs, _, _ in
                   self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn)]
        if not batches or not merge_batches:
            return batches
        merged = _merged_batches(batches, self._output_axes(len(batches[0])))
        return merged if len(merged) > 1 or always_output_list else merged[0]


def _merged_batches(batches: Sequence[Sequence[NDArray]], axes: Sequence[int]) -> list[NDArray]:
    """The outputs of several batches, each joined along its batch axis."""
    if any(len(outputs) != len(batches[0]) for outputs in batches):
        raise MXNetError("predict: cannot merge batches, as the number of outputs differs "
                         "between batches (bucketing?); set merge_batches=False")
    return [concatenate(list(column), axis=max(axis, 0)) for column, axis in
            zip(zip(*batches, strict=True), axes, strict=True)]

"""Loss scaling: small gradients survive in float16 if the loss is multiplied by a large factor."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ... import ndarray as nd
from ...base import ArgumentTypeError, CheckError
from ...gluon.trainer import Trainer
from .casting import installed

__all__ = ["LossScaler", "init_trainer", "scale_loss", "unscale"]
__dir__ = __all__.copy


class LossScaler:
    """The factor of the loss: halved where a gradient overflows, doubled after 2000 good steps.

    Programs set and store its attributes under these names, which are MXNet's.

    Examples
    --------
    >>> mx.contrib.amp.loss_scaler.LossScaler().loss_scale
    65536.0
    """

    def __init__(self) -> None:
        self._loss_scale = 2.0 ** 16
        self._max_loss_scale = 2.0 ** 24
        self._scale_seq_len = 2000
        self._unskipped = 0

    @property
    def loss_scale(self) -> float:
        """The factor of the next loss."""
        return self._loss_scale

    @property
    def _next_loss_scale(self) -> float:
        return self._loss_scale

    @_next_loss_scale.setter
    def _next_loss_scale(self, scale: float) -> None:
        """A state that MXNet has stored: its factor after a step follows one loss later."""
        self._loss_scale = scale

    def has_overflow(self, params: Sequence[Any]) -> bool:
        """Whether a gradient is not finite; the factor of the next loss follows from it.

        Parameters
        ----------
        params : list of Parameter
            Parameters.
        """
        gradients = [x for each in params if each.grad_req != "null" for x in each.list_grad()]
        flags = [nd.multi_all_finite(*group, num_arrays=len(group))
                 for group in _by_context(gradients)]
        if not all(flag.asscalar() for flag in flags):
            self._rescale(self.loss_scale / 2, "decreasing")
            return True
        self._unskipped += 1
        if self._unskipped >= self._scale_seq_len:
            self._rescale(min(self._max_loss_scale, 2 * self.loss_scale), "increasing")
        return False

    def _rescale(self, scale: float, how: str) -> None:
        self._loss_scale, self._unskipped = scale, 0
        logging.info("AMP: %s loss scale to %f", how, scale)


def _by_context(arrays: Sequence[Any]) -> list[list[Any]]:
    """Arrays of each device; sparse ones by their rows."""
    groups: dict[Any, list[Any]] = {}
    for array in arrays:
        groups.setdefault(array.context, []).append(array.data if array.is_sparse else array)
    return [*groups.values()]


def init_trainer(optimizer_or_trainer: Any) -> None:
    """Let a trainer scale losses, and skip steps whose gradients overflow.

    Parameters
    ----------
    optimizer_or_trainer : Trainer
        Trainer.

    Raises
    ------
    AssertionError
        Before `amp.init`, and for a trainer whose store updates parameters.
    TypeError
        If it is no trainer.
    """
    trainer = _require_trainer(optimizer_or_trainer)
    if not installed():
        raise CheckError("AMP not initialized, did you forget to call amp.init()?")
    if trainer._update_on_kvstore:
        raise CheckError("init_trainer: the store of this trainer updates parameters, which no "
                         "overflow stops; give update_on_kvstore=False")
    trainer._amp_loss_scaler, trainer._amp_original_scale = LossScaler(), trainer._scale


@contextmanager
def scale_loss(loss: Any, optimizer_or_trainer: Any) -> Iterator[Any]:
    """Multiply a loss, in a `with` statement; the trainer's next step divides by the factor.

    Parameters
    ----------
    loss : NDArray or list of NDArray
        Loss, or one for each device.
    optimizer_or_trainer : Trainer
        A trainer after `init_trainer`.

    Raises
    ------
    TypeError
        If it is no trainer.
    """
    trainer = _require_trainer(optimizer_or_trainer)
    scale = _scaler_of(trainer).loss_scale
    trainer._scale = trainer._amp_original_scale / scale
    yield [each * scale for each in loss] if isinstance(loss, (list, tuple)) else loss * scale


def unscale(optimizer_or_trainer: Any) -> None:
    """Divide the gradients by the factor now, to clip them for example, and not in the next step.

    Parameters
    ----------
    optimizer_or_trainer : Trainer
        A trainer after `init_trainer`.

    Raises
    ------
    TypeError
        If it is no trainer.
    """
    trainer = _require_trainer(optimizer_or_trainer)
    _scaler_of(trainer)
    factor = trainer._scale / trainer._amp_original_scale
    for parameter in trainer._params:
        for gradient in parameter.list_grad() if parameter.grad_req != "null" else ():
            gradient *= factor
    trainer._scale = trainer._amp_original_scale


def _require_trainer(trainer: Any) -> Any:
    if not isinstance(trainer, Trainer):
        raise ArgumentTypeError(
            f"optimizer_or_trainer should be a Gluon Trainer, instead is {type(trainer)}: AMP is "
            "currently only compatible with Gluon Trainer; mx.mod.Module trains in mixed precision "
            "after amp.init() or by amp.convert_symbol(symbol), or in float16 with "
            "multi_precision=True of its optimizer and rescale_grad for a scaled loss")
    return trainer


def _scaler_of(trainer: Any) -> LossScaler:
    scaler: LossScaler | None = getattr(trainer, "_amp_loss_scaler", None)
    if scaler is None:
        raise CheckError("this trainer scales no losses; call amp.init_trainer(trainer) first")
    return scaler

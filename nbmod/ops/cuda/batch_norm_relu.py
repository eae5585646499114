"""BatchNorm and relu in one op."""

from __future__ import annotations

from ..batch_norm_relu import BatchNormWithReLU
from .batch_norm import backward, backward_scratch, forward, scratch
from .launch import on_gpu

on_gpu(BatchNormWithReLU, forward, backward, scratch, backward_scratch)

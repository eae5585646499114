"""BatchNorm and relu in one op."""

from __future__ import annotations

from ...nn.batch_norm_relu import BatchNormWithReLU
from ..runtime.launch import on_gpu
from .batch_norm import backward, backward_scratch, forward, scratch

on_gpu(BatchNormWithReLU, forward, backward, scratch, backward_scratch)

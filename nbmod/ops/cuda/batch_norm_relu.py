"""BatchNorm and relu in one op."""

from __future__ import annotations

from functools import partial

from ..batch_norm_relu import BatchNormWithReLU
from .batch_norm import backward, backward_scratch, forward, scratch
from .launch import on_gpu

on_gpu(BatchNormWithReLU, partial(forward, relu=True), partial(backward, relu=True), scratch,
       backward_scratch)

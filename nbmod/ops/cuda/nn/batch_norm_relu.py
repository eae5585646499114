"""BatchNorm and relu in one op."""

from __future__ import annotations

from ...dispatch import implements
from ...nn.batch_norm_relu import BatchNormWithReLU
from .batch_norm import backward, backward_scratch, forward, scratch

implements(BatchNormWithReLU, "cuda", forward, backward, scratch, backward_scratch)

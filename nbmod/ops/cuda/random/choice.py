"""Random choices: the host draws, as on the CPU; rows and gradients are computed on the GPU."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...dispatch import implements
from ...op import Call, Spec
from ...random.choice import SampleMultinomial, SampleUniqueZipfian, Shuffle
from ...random.rng import generator
from ..lib.kernel_math import real_of
from ..runtime.device_memory import Arrays
from ..runtime.launch import CudaKernel, Launch, cache, each, grid_stride
from ..tensor.creation import computed_on_host, made_on_host
from ..tensor.indexing import INT32, gather_rows, lookup_rows


@cache
def _share_kernel(real: type[np.floating]) -> CudaKernel:
    """gp = for each probability, the sum of the gradients of its draws, divided by it."""
    @grid_stride
    def share(i, g, p, drawn, gp, categories, draws):
        row, category = i // categories, i % categories
        total = real(0)
        for k in range(row * draws, (row + 1) * draws):
            if np.int32(drawn[k]) == category:
                total += real(g[k]) / real(p[i])
        gp[i] = total
    return share


def _multinomial_backward(op: SampleMultinomial, ins: Arrays, outs: Arrays, call: Call
                          ) -> list[Launch]:
    _, g, data, drawn = ins
    categories = data.shape[-1]
    return each(_share_kernel(real_of(data.dtype)), data.size, g, data, drawn, outs[0], categories,
                drawn.size * categories // data.size)


def _shuffle(op: Shuffle, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    x, order = ins[0], call.scratch[0]

    def draw() -> None:
        x.device.copy(generator().permutation(len(x)).astype(np.int32), order)

    return [draw, *gather_rows(x, lookup_rows(order, len(x)), outs[0], prod(x.shape[1:]))]


implements(SampleMultinomial, "cuda", computed_on_host, _multinomial_backward)
implements(SampleUniqueZipfian, "cuda", made_on_host)
implements(Shuffle, "cuda", _shuffle, scratch=lambda op, ins, outs: [Spec(ins[0].shape[:1], INT32)])

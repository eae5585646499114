"""Dropout: exactly the mask of the CPU, from the same Philox stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch import implements
from ...nn.dropout import LANE, TILE, Dropout
from ...op import Call
from ...random.rng import next_stream
from ..elementwise.formula_op import COPY, TIMES, run_program
from ..lib.fill import fill
from ..lib.kernel_math import real_of
from ..random.rng import philox
from ..runtime.device_memory import Arrays
from ..runtime.launch import CudaKernel, Launch, PerRun, cache, each, grid_stride


@cache
def _mask_kernel(real: type[np.floating]) -> CudaKernel:
    """The mask of `size` elements; a thread generates one block of the stream, four words."""

    @grid_stride
    def mask_kernel(i, mask, size, limit, scale, draw, key):
        words = philox(np.uint64(i), draw, key)
        for word in range(4):
            element = i // LANE * TILE + word * LANE + i % LANE
            if element < size:
                mask[element] = scale if words[word] < limit else real(0)
    return mask_kernel


def _forward(op: Dropout, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    x, y = ins[0], outs[0]
    mask = call.scratch[0] if outs[1] is None else outs[1]
    real = real_of(x.dtype)
    limit, scale = round((1 - op.p) * 2 ** 32), real(1 / (1 - op.p) if op.p < 1 else 0)
    drop = run_program(TIMES, [x, mask], [y])
    keep = run_program(COPY, [x], [y]) + fill(mask, 1)

    def launches() -> list[Launch]:
        if not (call.is_train or op.mode == "always") or op.p == 0:
            return keep
        stream = next_stream()
        blocks = -(-mask.size // TILE) * LANE
        return each(_mask_kernel(real), blocks, mask, mask.size, np.uint64(limit), scale,
                    np.uint64(stream.draw), np.uint64(stream.key)) + drop

    return [PerRun(launches)]


implements(Dropout, "cuda", _forward, scratch=lambda op, ins, outs: [outs[1]])

"""Memory of hybridized training: parameters, their gradients, and one arena."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np

import nbmod as mx
from nbmod import autograd, gluon

MIB = 2 ** 20


def test_resnet_18_trains_in_the_memory_of_its_plan():
    """Beyond parameters and gradients: one arena, and inputs and outputs twice."""
    net, loss_of = gluon.model_zoo.vision.resnet18_v1(classes=10), gluon.loss.L2Loss()
    x, target = mx.nd.random.uniform(shape=(4, 3, 32, 32)), mx.nd.zeros((4, 10))
    net.initialize()
    net(x)      # makes the arrays of parameters
    net.hybridize()
    loss_of.hybridize()
    tracemalloc.start()
    try:
        for _ in range(3):
            with autograd.record():
                loss = loss_of(net(x), target)
            loss.backward()
        gc.collect()
        arrays = tracemalloc.take_snapshot().filter_traces([
            tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)])
    finally:
        tracemalloc.stop()
    used = sum(trace.size for trace in arrays.traces)
    arena, = net.executor.arenas.values()
    assert arena.nbytes == net.executor.compiled.plan.arena[0] > 10 * MIB
    # tables of addresses, which belong to shapes of convolutions, are 0.4 MiB
    assert arena.nbytes < used < arena.nbytes + 4 * x.size * 4 + MIB / 2, used
    for name, each in net.collect_params().items():
        assert each.grad_req == "null" or net.executor.grad_dict[name] is each.grad(), name

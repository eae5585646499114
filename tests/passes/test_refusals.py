"""Refusals are true: a network without the obstacle that a remark names is changed by the pass."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from math import inf
from pathlib import Path
from unittest.mock import patch

import pytest

import nbmod as mx
from nbmod import passes
from nbmod.execution.bind import infer_arrays
from nbmod.graph import Entry, Graph, Node
from nbmod.ops.blocked.layout import LANES
from nbmod.passes.optimize.fold_batch_norm import fold_batch_norm
from nbmod.passes.optimize.fuse_elementwise import SAME, fuse_elementwise
from nbmod.passes.optimize.fuse_epilogue import fuse_epilogue
from nbmod.passes.optimize.pipelines import simplify
from nbmod.passes.remarks import Remark, recording
from nbmod.passes.rewrite import unchanged
from nbmod.passes.switches import run_pass
from tests.fuzz.quantized import Network
from tests.passes.refused_memory import IT, MEMORY_ROWS, Row
from tests.passes.test_remarks import recorded

pytestmark = pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")

X, Y, Z = (mx.sym.Variable(name) for name in "xyz")


@cache
def variable(name: str, *shape: int):
    """The variable of this name: one node."""
    return mx.sym.Variable(name, shape=shape or None)


MATRIX, IMAGES = (64, 160), (8, 2 * LANES, 16, 16)
"""Shapes of inputs: as many elements as kernels are compiled for."""


def net(symbol, request="null", shape=MATRIX, **options) -> list[Remark]:
    """The remarks of binding a network whose inputs have one shape."""
    return recorded(symbol, dict.fromkeys("xyz", shape), request, **options).remarks


def alone(function, symbol, *args, shape=MATRIX, **types) -> list[Remark]:
    """The remarks of one pass."""
    graph = Graph(symbol.entries)
    known = dict.fromkeys([name for name in "xyz" if name in symbol.list_arguments()], shape)
    specs = infer_arrays(graph, known, types).specs
    with recording() as remarks:
        run_pass(function, unchanged(graph, specs), *args)
    return remarks


def dense(data=X, name="dense", **options):
    return mx.sym.FullyConnected(data, num_hidden=160, name=name, **options)


def conv(data=X, name="conv", filters=2 * LANES, **options):
    return mx.sym.Convolution(data, name=name, **{
        "kernel": (3, 3), "pad": (1, 1), "num_filter": filters, **options})


def norm(data, name="norm", **options):
    return mx.sym.BatchNorm(data, name=name, **{"fix_gamma": False, **options})


def relu(data, name="it"):
    return mx.sym.relu(data, name=name)


def add(first, second, name="it"):
    return mx.sym.elemwise_add(first, second, name=name)


def with_state(name, states):
    return norm(X, name, moving_mean=states[0], moving_var=states[1])


def sharing(ok):
    """A sum of a norm whose states another one has, too, or has not."""
    one, two = ([mx.sym.Variable(f"{name}{i}") for i in "12"] for name in "ab")
    return mx.sym.Group([add(with_state("norm", one), Y), with_state("other", two if ok else one)])


NORM = "norm_gamma", "norm_beta"
EPILOGUES: dict[str, Row] = {
    "nothing else reads its input": lambda ok: net(
        mx.sym.Group([relu(d := dense()), mx.sym.sin(dense(name="e") if ok else d)])),
    "what it reads is no output of the graph": lambda ok: net(
        mx.sym.Group([relu(d := dense()), dense(name="e") if ok else d])),
    "the layer is not trained": lambda ok: net(relu(dense()), "null" if ok else "write"),
    "nothing reads the statistics of the norm": lambda ok: alone(fuse_epilogue, mx.sym.Group(
        [relu((n := norm(X, output_mean_var=not ok))[0]), *list(n)[1:]]), (), True),
    "the layer works on blocks, or on a GPU": lambda ok: alone(
        fuse_epilogue, relu(conv()), (), ok, shape=IMAGES),
    "the layer has no ReLU yet": lambda ok: net(relu(dense() if ok else relu(dense(), "first"))),
    "the layer adds nothing, or nothing is trained": lambda ok: alone(
        fuse_epilogue, mx.sym.clip(add(norm(X), Y, "sum"), 0, 6, name="it"), () if ok else NORM,
        True),
    "a dense layer is on a GPU": lambda ok: alone(
        fuse_epilogue, mx.sym.clip(dense(), 0, 6, name="it"), (), ok),
    "the layer adds nothing yet": lambda ok: net(
        add(dense() if ok else add(dense(), Y, "first"), Z)),
    "the sum needs no gradient, or the layer too": lambda ok: alone(
        fuse_epilogue, add(dense(), Y), () if ok else ("y",)),
    "no other node has the states of the norm": lambda ok: alone(
        fuse_epilogue, sharing(ok), NORM, True),
    "a parameter of the norm is trained": lambda ok: alone(
        fuse_epilogue, add(norm(mx.sym.sin(X)), Y), ("x", *NORM) if ok else ("x",), True),
    "results may be rounded differently": lambda ok: net(relu(dense()), exact=not ok),
    "all nodes are on one device": lambda ok: net(
        relu(dense()), groups={} if ok else {"other": mx.cpu(1)}),
    "some layer works on blocks": lambda ok: net(mx.sym.Group(
        [relu(dense(flatten=True)), *([conv(Y)] if ok else []), mx.sym.sin(Z)]),
        shape=IMAGES, trained=("z",)),
}

IDENTITIES: dict[str, Row] = {
    "it has the ctx_group of its input": lambda ok: net(mx.sym.sin(mx.sym.identity(
        mx.sym.cos(X), name="it", attr={} if ok else {"ctx_group": "other"}))),
    "nothing reads its other outputs": lambda ok: net(mx.sym.Group([
        mx.sym.sin(d := mx.sym.Dropout(mx.sym.cos(X), name="it")),
        *([] if ok else [mx.sym.Symbol([Entry(d.entries[0].node, 1)])])])),
    "an output is no variable": lambda ok: net(
        mx.sym.BlockGrad(mx.sym.sin(X) if ok else X, name="it")),
    "outputs stay apart": lambda ok: net(mx.sym.Group(
        [mx.sym.BlockGrad(s := mx.sym.sin(X), name="it"), mx.sym.cos(s) if ok else s])),
    "nothing is trained": lambda ok: net(
        mx.sym.BlockGrad(mx.sym.sin(X), name="it"), "null" if ok else "write"),
}


EQUAL: dict[str, Row] = {
    "it has no states": lambda ok: net(add(*[
        mx.sym.sin(X, name=name) if ok else norm(X, name, **{
            key: variable(key, 160) for key in ("gamma", "beta", "moving_mean", "moving_var")})
        for name in ("one", "it")], "sum")),
    "it draws no random numbers": lambda ok: net(add(*[
        mx.sym.sin(X, name=name) if ok else mx.sym.Dropout(X, name=name, mode="always")
        for name in ("one", "it")], "sum")),
    "zeros among parameters have one sign": lambda ok: net(mx.sym.broadcast_add(
        mx.sym.broadcast_mul(X, X) + mx.sym.sin(X * 0.0),
        mx.sym._internal._mul_scalar(X, scalar=0.0 if ok else -0.0, name="it"))),
}

SHAPES: dict[str, Row] = {
    "it is no output of the graph": lambda ok: net(
        mx.sym.broadcast_add(mx.sym.zeros_like(X, name="it"), X) if ok else
        mx.sym.zeros_like(X, name="it")),
    "it is small enough to be kept": lambda ok: net(
        mx.sym.broadcast_add(mx.sym.zeros_like(X, name="it"), X),
        shape=MATRIX if ok else (1024, 1024)),
    "its inputs draw no random numbers": lambda ok: net(mx.sym.broadcast_add(
        mx.sym.zeros_like(X if ok else mx.sym.sample_poisson(X), name="it"), X)),
}


def looped():
    """A loop over a constant."""
    outputs, _ = mx.sym.contrib.foreach(lambda each, state: (mx.sym.sin(each), state),
                                        mx.sym.ones((1, 160)), [])
    outputs.entries[0].node.name = "it"
    return outputs


CONSTANTS: dict[str, Row] = {
    "it is no output of the graph": lambda ok: net(mx.sym.broadcast_add(
        mx.sym.ones((1, 160), name="it"), X) if ok else mx.sym.ones((1, 160), name="it")),
    "it is small enough to be kept": lambda ok: net(mx.sym.broadcast_add(
        mx.sym.ones((1, 160) if ok else (2 ** 12, 160), name="it"), X),
        shape=(1, 160)),
    "it draws no random numbers": lambda ok: net(mx.sym.broadcast_add(
        mx.sym.ones((1, 160), name="it") if ok else mx.sym.random.uniform(
            shape=(1, 160), name="it"), X)),
    "it runs no graphs": lambda ok: net(mx.sym.broadcast_add(
        mx.sym.sin(mx.sym.ones((1, 160)), name="it") if ok else looped(), X)),
    "nothing is trained": lambda ok: net(mx.sym.broadcast_add(
        mx.sym.ones((1, 160), name="it"), X), "null" if ok else "write"),
}

FOLDS: dict[str, Row] = {
    "channels are the first axis of transposed layers": lambda ok: net(norm(
        mx.sym.Deconvolution(X, kernel=(3, 3), num_filter=6, layout="NCHW" if ok else "NHWC"),
        "it", axis=1 if ok else 3), shape=(2, 4, 5, 5)),
    "it computes in float32 or float64": lambda ok: alone(
        fold_batch_norm, norm(dense(), "it"), x="float32" if ok else "float16"),
    "it scales the channels of the layer": lambda ok: net(
        norm(conv(), "it", axis=1 if ok else 2), shape=IMAGES),
    "nothing reads its statistics": lambda ok: net(mx.sym.Group(list(norm(
        dense(), "it", output_mean_var=not ok)))),
    "all parameters are variables": lambda ok: net(norm(
        dense(), "it", gamma=mx.sym.Variable("g") if ok else mx.sym.sin(mx.sym.Variable("g")))),
    "it has the ctx_group of the layer": lambda ok: net(norm(
        dense(), "it", attr={} if ok else {"ctx_group": "other"})),
    "nothing else reads its input": lambda ok: net(mx.sym.Group(
        [norm(d := dense(), "it"), mx.sym.sin(dense(name="e") if ok else d)])),
    "what it reads is no output of the graph": lambda ok: net(mx.sym.Group(
        [norm(d := dense(), "it"), dense(name="e") if ok else d])),
    "results may be rounded differently": lambda ok: net(norm(dense(), "it"), exact=not ok),
    "nothing is trained": lambda ok: net(norm(dense(), "it"), "null" if ok else "write"),
}


def separable(last, **shown):
    """A depthwise convolution between two others."""
    wide = conv(conv(X, "first", 2 * LANES, kernel=(1, 1), pad=(0, 0)), "deep",
                num_group=2 * LANES)
    return mx.sym.Group([conv(wide, "it", **last), *([wide * 2] if shown else [])])


POINT = {"kernel": (1, 1), "pad": (0, 0)}


def in_bands(symbol, elements=1) -> list[Remark]:
    with patch("nbmod.ops.blocked.depthwise_chain.L2_ELEMENTS", elements), blocked_always():
        return net(symbol, shape=IMAGES)


@contextmanager
def blocked_always(factor: float = inf) -> Iterator[None]:
    """Plain images take this many times as long as they are said to: forever."""
    with patch("nbmod.ops.blocked.choose_algorithm.BLOCKED_FACTOR", factor):
        yield


BANDS: dict[str, Row] = {
    "images are larger than the cache": lambda ok: in_bands(mx.sym.Group([conv(
        conv(X, "first", **POINT), "it", num_group=2 * LANES)]), 1 if ok else 2 ** 40),
    "packed and direct: depthwise after whole, or 1 x 1 after depthwise": lambda ok: in_bands(
        separable(POINT if ok else {})),
    "nothing else reads its input": lambda ok: in_bands(
        separable(POINT) if ok else separable(POINT, shown=True)),
}


def tiled(bytes_, batch=12, added=False, channels=LANES, data=3) -> list[Remark]:
    y = conv(X, "conv", channels)
    y = mx.sym.tanh(y + conv(Y, "other", channels) if added else y)
    y = mx.sym.Pooling(y, kernel=(3, 3), stride=(2, 2), name="it", pool_type="max")
    shapes = {"x": (batch, data, 12, 12), "y": (batch, data, 12, 12)}
    with patch("nbmod.passes.optimize.tile_batch.CACHE_BYTES", bytes_), blocked_always():
        return recorded(conv(y, "after", 8), shapes).remarks


IMAGE_BYTES = LANES * 12 * 12 * 4
TILES: dict[str, Row] = {
    "the batch is larger than the cache": lambda ok: tiled((7 if ok else 12) * IMAGE_BYTES),
    "a tile of the batch keeps all threads busy": lambda ok: tiled((7 if ok else 4) * IMAGE_BYTES),
    "weights are smaller than a tile": lambda ok: tiled(
        7 * IMAGE_BYTES, data=3 if ok else 64 * LANES),
    "the convolution adds nothing": lambda ok: tiled(7 * IMAGE_BYTES, added=not ok),
}


def blocks(symbol, shape=IMAGES, request="null", factor=inf, **options) -> list[Remark]:
    with blocked_always(factor):
        return net(symbol, request, shape, **options)


def image(name="first", data=X, filters=2 * LANES):
    """A blocked convolution."""
    return conv(data, name, filters)


BLOCKS: dict[str, Row] = {
    "it has no ctx_group": lambda ok: blocks(conv(
        name="it", attr={} if ok else {"ctx_group": "other"})),
    "it computes in float32": lambda ok: blocks(
        conv(name="it"), types={} if ok else {"x": "float64"}),
    "images have two axes": lambda ok: blocks(conv(name="it")) if ok else blocks(
        conv(name="it", kernel=(3, 3, 3), pad=(1, 1, 1)), (2, 2 * LANES, 4, 4, 4)),
    "channels come first": lambda ok: blocks(conv(name="it", layout="NCHW" if ok else "NHWC")),
    "channels and filters fill vectors": lambda ok: blocks(
        conv(name="it", filters=2 * LANES if ok else 1)),
    "blocks take less time": lambda ok: blocks(
        conv(conv(name="it"), "after"), factor=inf if ok else 0),
    "it takes a maximum, average or sum, of channels first": lambda ok: blocks(mx.sym.Pooling(
        image(), kernel=(2, 2), pool_type="max" if ok else "lp", p_value=2, name="it")),
    "nothing reads its statistics": lambda ok: blocks(mx.sym.Group(list(norm(
        mx.sym.sin(image()), "it", output_mean_var=not ok)))),
    "it scales channels": lambda ok: blocks(norm(mx.sym.sin(image()), "it", axis=1 if ok else 2)),
    "all inputs are in blocks": lambda ok: blocks(mx.sym.elemwise_mul(
        image(), image("second", Y) if ok else Y, name="it")),
    "whole blocks are joined": lambda ok: blocks(mx.sym.Concat(
        image(filters=2 * LANES + (0 if ok else 1)), image("second"), dim=1, name="it")),
    "channels are joined": lambda ok: blocks(mx.sym.Concat(
        image(), image("second"), dim=1 if ok else 2, name="it")),
    "all tensors have one shape and type": lambda ok: blocks(mx.sym.broadcast_mul(
        image(), image("second", Y) if ok else mx.sym.Pooling(
            image("second"), kernel=(1, 1), global_pool=True, pool_type="avg"), name="it")),
    "its gradients at 0 are 0": lambda ok: blocks(
        mx.sym.tanh(image(), name="it") if ok else mx.sym.sqrt(image(), name="it"),
        request="write"),
    "results may be rounded differently": lambda ok: blocks(conv(name="it"), exact=not ok),
}


def cell(data, state, name, weights=""):
    """A step of a plain recurrent cell."""
    i2h, h2h = (mx.sym.FullyConnected(
        each, variable(f"{weights}{kind}"), num_hidden=6, no_bias=True,
        name=f"{name}_{kind}") for each, kind in ((data, "i2h"), (state, "h2h")))
    return mx.sym.tanh(mx.sym.elemwise_add(i2h, h2h, name=f"{name}_sum"), name=name)


H = variable("h", 4, 6)


def chain(first=H, x=(X, Y), second=""):
    return cell(x[1], cell(x[0], first, "one"), "it", second)


def rnn(symbol, shape=(4, 6), **options) -> list[Remark]:
    return net(symbol, shape=shape, **options)


def lstm(data, c, h, name):
    """A step of an LSTM: h and c."""
    parts = mx.sym.SliceChannel(mx.sym.elemwise_add(*[mx.sym.FullyConnected(
        each, variable(f"lstm_{kind}"), num_hidden=24, no_bias=True)
        for each, kind in ((data, "i2h"), (h, "h2h"))]), num_outputs=4)
    i, f, o = (mx.sym.sigmoid(parts[k]) for k in (0, 1, 3))
    state = mx.sym.elemwise_add(f * c, i * mx.sym.tanh(parts[2]), name=f"{name}_c")
    return mx.sym.elemwise_mul(o, mx.sym.tanh(state), name=name), state


def two_lstm_steps(ok, shown=False, other=False):
    h, c = lstm(X, variable("c", 4, 6), H, "one")
    last, _ = lstm(Y, variable("d", 4, 6) if other else c, h, "it")
    return mx.sym.Group([last, *([mx.sym.sin(c)] if shown else [])])


CELLS: dict[str, Row] = {
    "shapes are known before other passes": lambda ok: rnn(chain(x=[
        layer if ok else norm(layer, f"norm{i}")
        for i, layer in enumerate([dense(X, "a"), dense(Y, "b")])])),
    "it computes in float32 or float64": lambda ok: rnn(
        chain(), types={} if ok else dict.fromkeys(("x", "y", "h", "i2h", "h2h"), "float16")),
    "inputs are matrices": lambda ok: rnn(chain(), (4, 6) if ok else (4, 2, 3)),
    "inputs of all steps have one shape": lambda ok: rnn(chain(
        x=(X, Y if ok else mx.sym.Reshape(Y, shape=(4, 2, 3))))),
    "first states have the shape of others": lambda ok: rnn(chain(
        H if ok else variable("narrow", 4, 2, 3))),
    "no step reads what depends on another one": lambda ok: rnn(following(ok)),
    "nothing else reads the inside of a step": lambda ok: rnn(mx.sym.Group(
        [c := chain(), *([] if ok else [mx.sym.sin(c.get_internals()["it_sum_output"])])])),
    "steps apply one cell": lambda ok: rnn(mx.sym.Group(
        [chain(second="" if ok else "o_"), cell(Z, variable("s", 4, 6), "third", "o_")])),
    "one layer reads the step before": lambda ok: rnn(twice(ok)),
    "i2h and h2h have weights of their own": lambda ok: rnn(tied(ok)),
    "gru blends the state that h2h reads": lambda ok: rnn(two_gru_steps(ok)),
    "states change, and random numbers are drawn, in the order of before":
        lambda ok: rnn(between(ok)),
    "one step continues another": lambda ok: rnn(branches(ok), request="write"),
    "a step goes on with the cell state before": lambda ok: rnn(two_lstm_steps(ok, other=not ok)),
    "nothing else reads a cell state": lambda ok: rnn(two_lstm_steps(ok, shown=not ok)),
    "results may be rounded differently": lambda ok: rnn(chain(), exact=not ok),
    "the device is a CPU": lambda ok: alone_on(ok),
}


def tied(ok):
    """The layers of the second step have one weight."""
    sides = (Y, variable("i2h")), (cell(X, H, "one"), variable("h2h" if ok else "i2h"))
    return mx.sym.tanh(mx.sym.elemwise_add(*[
        mx.sym.FullyConnected(data, weight, num_hidden=6, no_bias=True)
        for data, weight in sides]), name="it")


def two_gru_steps(ok):
    """The second step blends the state that it reads, or another one."""
    h = gru(X, H, H, "one")
    return gru(Y, h, h if ok else variable("other", 4, 6), "it")


def gru(data, h, blended, name):
    i, j = (mx.sym.SliceChannel(mx.sym.FullyConnected(
        each, variable(f"gru_{kind}"), num_hidden=18, no_bias=True), num_outputs=3)
        for each, kind in ((data, "i2h"), (h, "h2h")))
    r, z = (mx.sym.sigmoid(mx.sym.elemwise_add(i[k], j[k])) for k in (0, 1))
    candidate = mx.sym.tanh(mx.sym.elemwise_add(i[2], r * j[2]))
    return mx.sym.elemwise_add((1 - z) * candidate, z * blended, name=name)


def between(ok):
    """A norm of the first step, and one that the second step reads, whose states are its own."""
    h = cell(X, H, "one")
    first, second = (norm(each, f"norm{i}", moving_mean=variable(f"mean{i * ok}", 6),
                          moving_var=variable(f"var{i * ok}", 6)) for i, each in enumerate([h, Y]))
    return mx.sym.Group([first, cell(second, h, "it")])


def following(ok):
    h = cell(X, H, "one")
    return cell(Y if ok else mx.sym.sin(h), h, "it")


def twice(ok):
    h = cell(X, H, "one")
    return cell(Y if ok else h, h, "it")


def branches(ok):
    h = cell(X, H, "one")
    return mx.sym.Group([cell(Y, h, "it"), cell(Z, variable("s", 4, 6) if ok else h, "other")])


def alone_on(on_cpu) -> list[Remark]:
    """Simplification, on a CPU or not."""
    inferred = infer_arrays(Graph(chain().entries), {"x": (4, 6), "y": (4, 6)}, {})
    with recording() as remarks:
        simplify(*inferred, blocks=on_cpu)
    return remarks


def many(count):
    """A chain of functions."""
    whole = X
    for number in range(count):
        whole = mx.sym.sin(whole, name=f"sin{number}")
    return mx.sym.cos(whole, name="it")


def sums(ok):
    terms = [mx.sym.Variable(f"t{i}", shape=MATRIX) for i in range(13 if ok else 14)]
    whole = terms[0]
    for number, term in enumerate(terms[1:-1]):
        whole = mx.sym.elemwise_add(whole, term, name=f"sum{number}")
    return add(whole, terms[-1])


def fused(symbol, num_outputs, ctx=None) -> list[Remark]:
    """Elementwise fusion alone, where so many outputs are those of forward."""
    graph, specs = infer_arrays(Graph(symbol.entries), {"x": MATRIX}, {})
    with recording() as remarks:
        fuse_elementwise(graph, specs, [ctx or mx.cpu()] * graph.num_entries, num_outputs)
    return remarks


SQUARE = (96, 96)


def mean(data):
    return mx.sym.mean(data, axis=1, name="it")


def later(ok):
    """A product, and a matrix product that runs before its reader."""
    one, two = mx.sym.dot(X, Y, name="one"), mx.sym.dot(X, Z, name="two")
    product = mx.sym.sin(one) if ok else mx.sym.elemwise_mul(one, two)
    return add(product, mx.sym.dot(Y, Z))


ELEMENTS: dict[str, Row] = {
    "it has as many elements as kernels are compiled for": lambda ok: net(
        relu(mx.sym.sin(X)), shape=MATRIX if ok else (2, 3)),
    "it computes in float32 or float64 alone": lambda ok: net(
        relu(mx.sym.sin(X)), types={"x": "float32" if ok else "float16"}),
    "both have one shape": lambda ok: net(mx.sym.broadcast_add(
        mx.sym.sin(X), Y if ok else variable("deep", 3, *MATRIX), name="it")),
    "both have one type": lambda ok: net(
        relu(mx.sym.sin(X)) if ok else mx.sym.Cast(mx.sym.sin(X), dtype="float64", name="it")),
    "both are forward, or backward": lambda ok: fused(
        mx.sym.Group([s := mx.sym.sin(X), relu(s)]), 2 if ok else 1),
    "a tensor is read in one shape": lambda ok: net(mx.sym.elemwise_add(
        mx.sym.sum(X, axis=1), mx.sym.mean(X, axis=1 if ok else 0)), "write", SQUARE),
    "no other node is between them": lambda ok: net(
        add(s := mx.sym.sin(X), mx.sym.dot(Y if ok else s, Z)), shape=SQUARE),
    "no more memory is alive in between": lambda ok: net(later(ok), shape=SQUARE),
    "what it reads is no sum": lambda ok: net(mx.sym.broadcast_sub(
        mx.sym.exp(X), mx.sym.sin(Y) if ok else mx.sym.mean(Y, axis=1, keepdims=True), name="it")),
    "a kernel writes the sum alone": lambda ok: net(mx.sym.Group([
        mean(mx.sym.cos(s := mx.sym.sin(X))), *([] if ok else [s])])),
    "what is summed is no output of the graph": lambda ok: net(mx.sym.Group([
        mean(s := mx.sym.sin(X)), *([] if ok else [s])])),
    "nothing else reads what is summed": lambda ok: net(mx.sym.Group([
        mean(s := mx.sym.sin(X)), mx.sym.dot(Y if ok else s, Z)]), shape=SQUARE),
    "results may be rounded differently": lambda ok: net(mean(mx.sym.sin(X)), exact=not ok),
    "sums are on a CPU": lambda ok: fused(
        mean(mx.sym.sin(X)), 1, mx.cpu() if ok else mx.gpu()),
    "one output is a sum": lambda ok: net(mx.sym.tanh(mx.sym.broadcast_mul(
        variable("column", 64, 1), X if ok else variable("row", 1, 160), name="it")), "write"),
    "an input has the shape of the kernel": lambda ok: net(mx.sym.sum((
        mx.sym.tanh if ok else mx.sym.identity)(mx.sym.broadcast_mul(
            X, variable("row", 1, 160), name="it")), axis=1), trained=("row",)),
    "it is not added where an operand is computed": lambda ok: net(mx.sym.Group([
        mx.sym.sin(X), mx.sym.cos(X) if ok else dense(X)]), "write"),
    "a kernel computes few nodes": lambda ok: net(many(23 if ok else 24)),
    "a kernel has few tensors": lambda ok: net(sums(ok)),
}

MIRRORED: dict[str, Row] = {
    "it is no output of the graph": lambda ok: mirrored(mx.sym.Group(
        [mx.sym.sin(t := mx.sym.tanh(X, name="it")), *([] if ok else [t])])),
    "a second run gives the same": lambda ok: mirrored(mx.sym.sin(
        mx.sym.tanh(X, name="it") if ok else mx.sym.Dropout(X, name="it"))),
    "it is cheap, or has the attribute force_mirroring": lambda ok: mirrored(mx.sym.sin(
        dense(name="it", attr={"force_mirroring": "True"} if ok else {}))),
    "backward reads it": lambda ok: mirrored(mx.sym.sin(mx.sym.tanh(X, name="it")) if ok else
                                             mx.sym.sin(X, name="first") + mx.sym.BlockGrad(
                                                 mx.sym.cos(Y, name="it") * 2)),
}


DIFFERENTIATED: dict[str, Row] = {
    "an output has a gradient for it": lambda ok: net(
        mx.sym.sin(X if ok else mx.sym.BlockGrad(X)), "write"),
}


def mirrored(symbol) -> list[Remark]:
    with patch.dict(os.environ, {"MXNET_BACKWARD_DO_MIRROR": "1"}):
        return net(symbol, "write")


def in_memory(apart: bool) -> list[Remark]:
    """A gradient in an array of its own, or in that of its variable."""
    x = mx.nd.ones(MATRIX)
    with recording() as remarks:
        mx.sym.sin(X).bind(mx.cpu(), {"x": x}, {"x": x.copy() if apart else x})
    return remarks


GRADIENTS: dict[str, Row] = {
    "a node computes it": lambda ok: net(mx.sym.sin(X) if ok else mx.sym.identity(X), "write"),
    "it is no view": lambda ok: net(mx.sym.sin(X) if ok else mx.sym.Reshape(
        mx.sym.sin(mx.sym.Reshape(X, shape=(-1,))), shape=MATRIX), "write"),
    "it is no output, nor the gradient of another variable": lambda ok: net(
        mx.sym.sin(mx.sym.elemwise_mul(Y, X) if ok else mx.sym.elemwise_add(Y, X)), "write"),
    "its op can add to what is there": lambda ok: net(
        mx.sym.FullyConnected(Y, X, num_hidden=64, no_bias=True) if ok else mx.sym.sort(X), "add"),
    "nothing else reads it": lambda ok: net(mx.sym.FullyConnected(
        Y, X if ok else mx.sym.elemwise_add(X, mx.sym.sin(Z)), num_hidden=64, no_bias=True), "add"),
    "no other array of the user has its memory": lambda ok: in_memory(apart=ok),
}


def quantized(follow, low="int8", attr=None, three=False) -> list[Remark]:
    """A quantized convolution, and what `follow` makes of it, called "it"."""
    layers = Network(mx.sym, lambda name, shape, dtype: mx.sym.Variable(
        name, shape=shape, dtype=dtype))
    shape = (2, 16, 6, 6, 6) if three else (2, 16, 6, 6)
    sums = layers.conv("conv", layers.data(*shape, dtype="int8"), 16, 16,
                       (3, 3, 3) if three else (3, 3), attr=attr or {})
    if attr or three or follow is None:
        sums[0].entries[0].node.name = "it"
        return net(sums[0])
    result = follow(layers, sums)
    result[0].entries[0].node.name = "it"
    return net(mx.sym.Group(list(result)))


def requantized(ok, layers, sums):
    return layers.bytes("first", sums) if ok else layers.contrib.requantize(*sums)


def activated(layers, sums, out_type="int8"):
    return layers.relu("relu", layers.bytes("first", sums, out_type=out_type))


BYTES: dict[str, Row] = {
    "it has no ctx_group": lambda ok: quantized(
        None, attr={} if ok else {"ctx_group": "other"}),
    "kernels of bytes fit its axes and groups of channels": lambda ok: quantized(
        None, three=not ok),
    "its range is calibrated": lambda ok: quantized(
        lambda layers, sums: requantized(ok, layers, sums)),
    "the layer gives int8": lambda ok: quantized(
        lambda layers, sums: activated(layers, sums, "int8" if ok else "uint8")),
    "it reads the range of the layer": lambda ok: quantized(
        lambda layers, sums: layers.bytes("first", sums if ok else [
            sums[0], *[mx.sym.Variable(name, shape=(1,)) for name in ("low", "high")]])),
    "nothing else reads its input": lambda ok: quantized(lambda layers, sums: [
        *layers.bytes("first", sums), *([] if ok else [mx.sym.Cast(sums[0], dtype="float32")])]),
    "what it reads is no output of the graph": lambda ok: quantized(lambda layers, sums: [
        *layers.bytes("first", sums), *([] if ok else [sums[0]])]),
}

OWN_SUBJECTS = {"an input has the shape of the kernel": "it_backward",
                "a tensor is read in one shape": "x_grad_add", "one output is a sum": "it_backward",
                "it is not added where an operand is computed": "x_grad_add"}
"""Subjects of rules of gradients."""

ROWS: dict[str, tuple[str | int, dict[str, Row]]] = {
    "fuse_epilogue": ("it", EPILOGUES), "skip_identities": ("it", IDENTITIES),
    "cse": ("it", EQUAL), "fold_shape_reads": ("it", SHAPES),
    "hoist_constants": ("it", CONSTANTS), "fold_batch_norm": ("it", FOLDS),
    "fuse_depthwise": ("it", BANDS), "tile_batch": ("it", TILES),
    "blocked_layout": ("it", BLOCKS), "reroll_rnn": ("it", CELLS),
    "fuse_elementwise": ("it", ELEMENTS),
    **{name: (IT, rows) for name, rows in MEMORY_ROWS.items()}, "mirror": ("it", MIRRORED),
    "fuse_int8": ("it", BYTES), "with_gradients": ("x", DIFFERENTIATED),
    "write_gradients": ("x_grad", GRADIENTS)}
"""Pass -> the node whose remarks are looked at, and for each rule a network: with the obstacle, or
without."""


@pytest.mark.planned_only
@pytest.mark.parametrize("name, rule", [
    (name, rule) for name, (_, rows) in ROWS.items() for rule in rows])
def test_what_is_refused_is_done_without_the_obstacle(name, rule):
    require_truth(name, rule)


def require_truth(name: str, rule: str) -> None:
    subject, rows = ROWS[name]
    subject = OWN_SUBJECTS.get(rule, subject)
    obstructed, free = ([each for each in rows[rule](ok) if each.pass_name == name]
                        for ok in (False, True))
    (refusal, *_) = [each for each in about(subject, obstructed) if each.rule == rule]
    assert refusal.verdict == "refused" and "obstacle(" in line_of(refusal.where)
    results = made_into(subject, obstructed)
    # A node may be fused with other producers than this one, or joined elsewhere.
    if "producer" in refusal.evidence:
        results &= made_into(refusal.evidence["producer"].name, obstructed)
    elif "whole" in refusal.evidence:
        results &= {refusal.evidence["whole"]}
    assert not results
    assert any(each.verdict == "done" for each in about(subject, free))
    assert rule not in [each.rule for each in about(subject, free)]


def line_of(where: str) -> str:
    file, _, line = where.partition(":")
    path = Path(passes.__file__).parents[1] / file
    return path.read_text(encoding="utf-8").splitlines()[int(line) - 1]


def about(subject: str | int, remarks: list[Remark]) -> list[Remark]:
    """The remarks about the node of this name, or about this entry."""
    return [each for each in remarks if subject == (
        each.subject.name if isinstance(each.subject, Node) else each.subject)]


def made_into(subject: str | int, remarks: list[Remark]) -> set[object]:
    """The nodes, or wholes, into which passes have made a node or an entry; or what was done."""
    return {each.evidence.get("into", each.evidence.get("whole", each.rule))
            for each in about(subject, remarks) if each.verdict == "done"}


UNREACHED = {
    "both are on one device": "copies are between nodes on different devices",
    "it has one output": "no formula has several",
    "sums are float32 or float64": "no operator gives sums in float16 of float32",
}
"""Rules that no network breaks -> why the passes ask nevertheless."""


def test_every_rule_has_a_network():
    found = {rule for path in Path(passes.__file__).parent.rglob("*.py")
             for rule in rules_of(ast.parse(path.read_text(encoding="utf-8")))} | {*SAME}
    covered = {rule for _, rows in ROWS.values() for rule in rows}
    assert found - covered == {*UNREACHED}
    assert not covered - found


def rules_of(tree: ast.Module) -> Iterator[str]:
    """The texts of obstacles in a file."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.args:
            rule = call.args[0]
            if call.func.id in ("obstacle", "_record_missed") and isinstance(rule, ast.Constant):
                yield rule.value

"""The op table: `OPS[name]` is the class of an op, under its name or any alias.

Op families are modules, imported one after another until a name that is looked for has appeared;
the light ones, which eager expressions use, come first.  Nothing here compiles anything at import,
and no op knows `nd`, `sym` or executors: ops compute on arrays of NumPy or of a device.

    op.py           `Op`: its fields are parameters, its methods rules; `Spec`, `Call`, `Backward`
    shape.py        shapes with unknown dimensions: unification, sizes, errors
    param.py        types of parameters; MXNet's strings to values, and back
    regions.py      rectangular regions of tensors; slices along an axis as columns of rows
    traits.py       `OpTraits`: answers of ops to passes: views, in-place pairs, state, elements
    subgraph.py     `Body`: a graph that a node runs; `SubgraphRun`: the part that a run needs
    dispatch.py     the table of implementations: NumPy, compiled, eager, on a GPU, sparse
    rules.py        rules of types and gradients that op families share
    internal.py     ops that passes insert: accumulation, copies between devices, zeros
    jit.py          `@kernel` and `@inlined`: the only module that uses `numba.njit`
    device.py       `Device`: memory, copies and execution on a CPU or GPU
    custom.py       `Custom`: the op whose rules and computation are a user's Python class
    signature.py    how users call ops: signatures, docstrings, splitting of arguments
    param_docs.py   one line about each parameter that many ops share, for help texts and docs/ops
    refused_ops.py  MXNet's ops that are absent on purpose, and what to use instead
    build/          the compile cache, and how numba compiles and links kernels
    simd/           micro-kernels in LLVM IR, and the vector registers of the host
    elementwise/    the formula language, its compiler, and all elementwise ops
    tensor/         shapes, slices, order, indices, reductions
    linalg/         matrix products (GEMM), factorisations
    control_flow/   loops and branches over subgraphs
    random/         the random number generator, sampling, densities
    optimizer/      update steps of optimizers
    nn/             layers: convolution, pooling, normalization, softmax, losses
    rnn/            recurrent layers
    image/          preprocessing, resampling, warping
    detection/      boxes, anchors, regions of interest
    contrib/        Fourier transforms, count sketches, Hawkes processes
    quantization/   8-bit integers and layers on them
    onednn/         fused layers in files of MXNet's oneDNN backend
    blocked/        convolution and its neighbours in the channel-blocked layout
    sparse/         arrays of which only some elements or rows are stored
    numpy_forms/    ops whose own methods call kernels, defined with NumPy
    cuda/           the GPU: its driver, its compiler, its simulator, and GPU kernels of all ops

Begin with `op.py`.  Imports `base`, `context`, `core`, `graph` and `test_utils`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from importlib import import_module

from ..base import MXNetError, did_you_mean
from ..core.fork import fresh
from ..core.interrupts import deferred
from .op import _TABLE, Backward, Call, Mode, Op, Spec
from .refused_ops import refuse_absent

__all__ = ["OPS", "Op", "Backward", "Call", "Mode", "Spec"]

LIGHT = ("elementwise.unary_binary", "elementwise.scalar", "elementwise.broadcast",
         "tensor.reduce", "tensor.repetition", "elementwise.identity", "elementwise.arithmetic",
         "elementwise.cast", "tensor.creation", "linalg.dot", "tensor.manipulate",
         "tensor.rearrange", "tensor.slicing", "tensor.indexing")
HEAVY = ("tensor.ordering", "nn.softmax", "nn.activation", "random.sampling", "random.choice",
         "nn.dropout", "nn.loss", "nn.fully_connected", "nn.convolution", "nn.deconvolution",
         "nn.pooling", "nn.batch_norm", "nn.layer_norm", "nn.lrn_l2", "image.resize",
         "nn.adaptive_pooling", "detection.boxes", "detection.multibox", "detection.roi",
         "detection.proposal", "detection.roi_align", "detection.roi_rotated",
         "detection.deformable", "image.preprocess", "image.color", "custom", "rnn.rnn",
         "optimizer.sgd_update", "optimizer.adaptive_update", "optimizer.lamb_update",
         "optimizer.multi_weight_update", "optimizer.multi_tensor", "nn.sequence", "nn.attention",
         "nn.ctc", "linalg.linalg", "linalg.triangular", "nn.im2col", "tensor.rows", "random.pdf",
         "tensor.histogram", "contrib.spectrum", "image.spatial_transformer", "image.correlation",
         "nn.batch_norm_relu", "contrib.hawkes", "tensor.cumulative", "elementwise.allclose",
         "quantization.quantize", "quantization.quantized_layers",
         "quantization.quantized_elementwise", "quantization.calibrate_entropy",
         "quantization.intgemm",
         "control_flow.control", "onednn.fused_layers", "sparse.storage_casts",
         ".contrib.simpledet")  # beside this package: operators of a fork of MXNet


class OpTable(Mapping[str, type[Op]]):
    """Read-only mapping from op names and aliases to op classes."""

    def __init__(self) -> None:
        self._pending = [*LIGHT, *HEAVY]
        self._loading = fresh(threading.RLock())

    def load(self, families: tuple[str, ...] = LIGHT + HEAVY) -> None:
        """Import op families that have not been imported yet."""
        with self._loading:
            for family in [f for f in self._pending if f in families]:
                with deferred():
                    self._pending.remove(family)
                    import_module(f".{family}", __name__)

    def __getitem__(self, name: str) -> type[Op]:
        if name not in _TABLE:
            with self._loading:
                while name not in _TABLE and self._pending:
                    self.load((self._pending[0],))
        return _TABLE[name]

    def find(self, name: str, where: str = "") -> type[Op]:
        """The op class, or an MXNetError that suggests the nearest name."""
        try:
            return self[name]
        except KeyError:
            place = f"node {where}: " if where else ""
            refuse_absent(name, place)
            hint = did_you_mean(name, self) or "; mx.register_op adds operators of one's own"
            raise MXNetError(f"{place}unknown operator {name!r}{hint}") from None

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(list(_TABLE))

    def __len__(self) -> int:
        self.load()
        return len(_TABLE)


OPS = OpTable()

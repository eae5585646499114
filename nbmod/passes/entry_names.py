"""Names of entries, and of the nodes that passes for users insert after them.

Such nodes are saved with the graph, so they have the names that MXNet gives them.

Assumes: nothing; two entries have one name where their nodes have.  Graphs are wired by entries,
never by these names.

Nodes may have one name.  `distinct_names` tells them apart for those who know nodes by name: files,
drawings, monitors.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..base import numbered
from ..graph import Entry, Node

__all__ = ["distinct_names", "inserted_name", "output_name"]

# Operators whose outputs MXNet knows by name; those of all others it numbers.
_NAMED_OUTPUTS = frozenset("""
    Activation BatchNorm BilinearSampler Concat Convolution Convolution_v1 Correlation Crop Custom
    Deconvolution Dropout FullyConnected GridGenerator GroupNorm InstanceNorm L2Normalization LRN
    LayerNorm LeakyReLU MakeLoss Pad Pooling Pooling_v1 RNN ROIPooling SVMOutput SequenceLast
    SequenceMask SequenceReverse SliceChannel SoftmaxActivation SoftmaxOutput SpatialTransformer
    SwapAxis UpSampling col2im elemwise_add im2col make_loss softmax softmin _rnn_param_concat
    _contrib_BatchNormWithReLU _contrib_DeformableConvolution _contrib_DeformablePSROIPooling
    _contrib_ModulatedDeformableConvolution _contrib_MultiBoxDetection _contrib_MultiBoxPrior
    _contrib_MultiBoxTarget _contrib_MultiProposal _contrib_PSROIPooling _contrib_Proposal
    _contrib_ROIAlign _contrib_RROIAlign _contrib_SyncBatchNorm _contrib_count_sketch _contrib_fft
    _contrib_hawkesll _contrib_ifft _contrib_index_array _contrib_interleaved_matmul_encdec_qk
    _contrib_interleaved_matmul_encdec_valatt _contrib_interleaved_matmul_selfatt_qk
    _contrib_interleaved_matmul_selfatt_valatt
""".split())


def output_name(entry: Entry) -> str:
    """The name under which symbols list an entry: `<node>_<output>`, a variable's own."""
    node = entry.node
    return node.name if node.op is None else f"{node.name}_{node.op.list_outputs()[entry.index]}"


def inserted_name(entry: Entry, what: str) -> str:
    """The name of a node that does `what` to an entry."""
    node = entry.node
    if node.op is None or node.op.name in _NAMED_OUTPUTS:
        return f"{output_name(entry)}_{what}"
    return f"{node.name}_{entry.index}_{what}"


def distinct_names(nodes: Iterable[Node]) -> dict[Node, str]:
    """A name of its own for every node (see `base.numbered`)."""
    nodes = list(nodes)
    return dict(zip(nodes, numbered([node.name for node in nodes]), strict=True))

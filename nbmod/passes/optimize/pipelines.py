"""The pass pipelines: which optimizations run before inference and before training.

Each line of `simplify` runs one pass on the result of the line before it.  Some of them hold only
in inference, such as that Dropout is the identity, and intermediate results may disappear: the
executor runs the result for `forward(is_train=False)` without a monitor.

Assumes: all nodes are on one device, and all arrays have elements (`execution.pipeline`:
`compile_graph`, `_simplify`); training and monitors run the graph as it was, unless it was made for
training (`Executor._observe`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from ...graph import Graph, Node
from ...ops.op import Spec
from ..remarks import is_recording, obstacle, record, refused, withheld
from ..rewrite import Rewritten, unchanged
from ..switches import PASSES, run_pass, unobserved
from .blocked_layout import blocked_layout
from .cse import cse, skip_identities
from .fold_batch_norm import fold_batch_norm
from .fuse_depthwise import fuse_depthwise
from .fuse_epilogue import fuse_epilogue
from .fuse_int8 import fuse_int8
from .hoist_constants import fold_shape_reads, hoist_constants
from .reroll_rnn import reroll_rnn
from .tile_batch import tile_batch

__all__ = ["for_training", "optimized", "simplify"]

TRAINING = {"reroll_rnn", "blocked_layout", "fuse_epilogue"}
"""Passes that run in training as in inference."""
INEXACT = {"fold_batch_norm", "reroll_rnn", "blocked_layout", "fuse_epilogue", "fuse_depthwise",
           "tile_batch"}
"""Passes that form sums in another order."""
CPU_ONLY = {"fuse_int8", "reroll_rnn", "blocked_layout", "fuse_depthwise", "tile_batch"}


def optimized(graph: Graph, specs: Sequence[Spec], trained: Collection[str], exact: bool,
              blocks: bool, apart: bool) -> Rewritten:
    """`graph` as `for_training` or `simplify` makes it; unchanged where its nodes may be `apart`,
    on several devices."""
    run = partial(for_training, graph, specs, trained) if trained else partial(
        simplify, graph, specs)
    if not apart:
        return run(exact, blocks)
    _record_missed("all nodes are on one device", PASSES, partial(run, exact, blocks))
    return unchanged(graph, specs)


def simplify(graph: Graph, specs: Sequence[Spec], exact: bool = False, blocks: bool = False
             ) -> Rewritten:
    """`graph`, whose entries have these `specs`, optimized for inference.

    With `exact`, only passes that give bitwise the same results run.  `blocks` allows blocked
    layouts and recurrent layers, which exist on CPUs only.
    """
    if exact:
        _record_missed("results may be rounded differently", INEXACT,
                       partial(simplify, graph, specs, False, blocks))
    if not blocks:
        _record_missed("the device is a CPU", CPU_ONLY,
                       partial(simplify, graph, specs, exact, True))
    network = run_pass(skip_identities, unchanged(graph, specs))
    network = run_pass(cse, network)
    network = run_pass(fold_shape_reads, network)
    network = run_pass(fuse_int8, network) if blocks else network
    if not exact:
        network = run_pass(fold_batch_norm, network)
        network = run_pass(reroll_rnn, network) if blocks else network
        network = run_pass(blocked_layout, network) if blocks else network
        network = run_pass(fuse_epilogue, network, (), not blocks)
        network = run_pass(fuse_depthwise, network)
        network = run_pass(tile_batch, network)
    return run_pass(hoist_constants, network)


def for_training(graph: Graph, specs: Sequence[Spec], trained: Collection[str],
                 exact: bool = False, blocks: bool = False) -> Rewritten:
    """`graph` optimized for training, before gradients of the variables `trained` are added.

    Only ops that passes inserted are hoisted out of the training loop, such as packing weights
    that are not trained.
    """
    network = unchanged(graph, specs)
    _record_missed("nothing is trained", {*PASSES} - TRAINING,
                  partial(simplify, graph, specs, exact, blocks))
    if exact:
        _record_missed("results may be rounded differently", TRAINING,
                       partial(for_training, graph, specs, trained, False, blocks))
        return network
    if not blocks:
        _record_missed("the device is a CPU", CPU_ONLY,
                       partial(for_training, graph, specs, trained, False, True))
        return run_pass(fuse_epilogue, network, trained, True)
    network = run_pass(reroll_rnn, network)
    blocked = run_pass(blocked_layout, network, trained)
    if blocked is network:    # there are no epilogues on CPUs, and no weights that are packed
        _record_missed("some layer works on blocks", {"fuse_epilogue"},
                       partial(run_pass, fuse_epilogue, network, trained), True)
        return network
    return run_pass(hoist_constants, run_pass(fuse_epilogue, blocked, trained), True)


def _record_missed(rule: str, passes: Collection[str], run: Callable[[], Rewritten],
                  with_refused: bool = False) -> None:
    """Record, if remarks are recorded, what these passes would do in `run` as refused, since `rule`
    does not hold; `with_refused`, also what they would refuse."""
    if not is_recording():
        return
    with withheld() as remarks, unobserved():
        network = run()
    why, (graph, _) = obstacle(rule), network.first
    for remark in remarks:
        if not isinstance(remark.subject, Node) or remark.pass_name not in passes:
            continue
        subject = network.origin.get(remark.subject, remark.subject)
        if remark.verdict == "done" and graph.find(subject):
            refused(remark.pass_name, subject, why)
        elif remark.verdict == "refused" and with_refused:
            record(remark)

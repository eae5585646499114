"""Ops of MXNet that are not here on purpose: their names are errors that say what to use.

They read graphs in csr arrays, for the samplers of the library DGL.  No network has them, and they
have no gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..base import MXNetError

__all__ = ["absent_function", "refuse_absent"]

_NEIGHBOURS = "dgl.sampling.sample_neighbors, or a choice of x.indices from x.indptr[i] on"
ABSENT = {
    "_contrib_dgl_csr_neighbor_uniform_sample": _NEIGHBOURS,
    "_contrib_dgl_csr_neighbor_non_uniform_sample": _NEIGHBOURS,
    "_contrib_dgl_subgraph": "dgl.node_subgraph, or x.asscipy()[nodes][:, nodes]",
    "_contrib_dgl_graph_compact": "dgl.compact_graphs, or x.asscipy()[nodes][:, nodes]",
    "_contrib_dgl_adjacency": "x.asscipy() with ones as data",
    "_contrib_edge_id": "x.asscipy()[rows, columns]"}
"""Name -> what to use."""


def refuse_absent(name: str, where: str = "") -> None:
    """MXNetError if an op is absent; `where` names the node."""
    if name in ABSENT:
        raise MXNetError(f"{where}operator {name!r} is not implemented: it is for the graph "
                         f"samplers of DGL, not for networks; use {ABSENT[name]}")


def absent_function(name: str) -> Callable[..., NoReturn] | None:
    """A function that raises this error; None for other names."""
    if name not in ABSENT:
        return None

    def call(*args: Any, **kwargs: Any) -> NoReturn:
        refuse_absent(name)
        raise AssertionError(name)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""Not implemented; use {ABSENT[name]}."""
    return call

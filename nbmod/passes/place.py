"""Placement: the device of every node, and copies where an edge crosses from one to another.

A device is any value that can be compared and hashed.  Groups of nodes (the attribute `ctx_group`)
are put on devices by the user; everything else goes where it causes little traffic:

    an array                          where it is
    a node without a group            where its first input is
    a node that a pass added          with its source: a gradient is computed where forward was
    a sum of gradients                where both parts are; else with the node they belong to
    a node without inputs             where it is read

Afterwards only `CrossDeviceCopy` nodes read what is on another device.

Assumes: a node that a pass added has the node as `source` on whose behalf it is; without one it is
where its first input is (`_nearby`).  That groups are known, and states where they change; checked
in `group_device` and `with_copies`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from ..base import MXNetError
from ..graph import Entry, Graph, Node
from ..ops.internal import CrossDeviceCopy
from .remarks import done, is_recording

__all__ = ["array_devices", "group_device", "place", "with_copies"]

D = TypeVar("D", bound=Hashable)


def group_device(node: Node, groups: Mapping[str, D]) -> D | None:
    """The device of the node's group; None without a group, or without any groups at all."""
    group = node.attrs.get("__ctx_group__")
    if group is None or not groups:
        return None
    if group not in groups:
        raise MXNetError(f"{node.describe()}: its ctx_group {group!r} is not among those of "
                         f"group2ctx: {sorted(groups)}")
    return groups[group]


def array_devices(graph: Graph, groups: Mapping[str, D], default: D) -> dict[str, D]:
    """Where the arrays of the variables are made, by name: in the variable's group, or by default.

    The states of a node without a group are where it runs, if they have no group either.
    """
    if not groups:
        return {node.name: default for node in graph.variables}
    devices = {id(node): group_device(node, groups) or default for node in graph.variables}
    free = {id(node.inputs[index].node) for node in graph.nodes if node.op is not None
            for index in node.op.aux_indices()
            if not any(group_device(each, groups) for each in (node, node.inputs[index].node))}
    known = {key: device for key, device in devices.items() if key not in free}
    placed = place(graph, groups, known, default)
    return {node.name: placed[id(node)] for node in graph.variables}


def place(graph: Graph, groups: Mapping[str, D], known: Mapping[int, D], default: D
          ) -> dict[int, D]:
    """The device of every node, by its `id`.

    `known` are the devices of arrays: by `id` of the variables, and of the nodes that end in arrays
    of the user.  A node that follows its input goes by the input's group first (MXNet's rule).
    Without groups everything is on the default device.
    """
    if not groups:
        return dict.fromkeys(map(id, graph.nodes), default)
    device: dict[int, D] = {}
    for node in graph.nodes:
        for candidate in (group_device(node, groups), known.get(id(node)), _nearby(node, device)):
            if candidate is not None:
                device[id(node)] = candidate
                break
    for node in reversed(graph.nodes):
        here = device.setdefault(id(node), default)
        for entry in node.inputs:
            device.setdefault(id(entry.node), here)
    device.update(known)
    return device


def _nearby(node: Node, device: Mapping[int, D]) -> D | None:
    """The device of a node without a group, as far as that follows from nodes before it."""
    inputs = [device[id(entry.node)] for entry in node.inputs if id(entry.node) in device]
    apart = node.op_name != "_grad_add" or len(set(inputs)) > 1
    if node.source is not None and apart:
        return device.get(id(node.source))
    return inputs[0] if inputs else None


def with_copies(graph: Graph, device: Mapping[int, D]) -> tuple[Graph, dict[int, D]]:
    """`graph` with a `CrossDeviceCopy` on every edge that crosses, and the devices of its nodes.

    Readers of an entry on one device share the copy there.  Raises MXNetError for a node whose
    state is elsewhere: it would change a copy.
    """
    if len(set(device.values())) == 1:
        return graph, dict(device)
    for node in graph.nodes:
        for index in node.op.aux_indices() if node.op is not None else ():
            state, here = node.inputs[index].node, device[id(node)]
            if device[id(state)] != here:
                raise MXNetError(f"{node.describe()} is on {here}, but its state {state.name} on "
                                 f"{device[id(state)]}: give both the same ctx_group, or bring "
                                 "the array there")
    copies: dict[tuple[Entry, D], Node] = {}

    def wire(node: Node, old: Entry, new: Entry) -> Entry:
        here = device[id(node)]
        if device[id(old.node)] == here:
            return new
        if (new, here) not in copies:
            name = f"{new.node.name}_{new.index}_copy"
            copies[new, here] = Node(CrossDeviceCopy(), name, [new])
            done("place", old.node, "another device reads a copy", copy=copies[new, here],
                 device=str(here))
        return Entry(copies[new, here])

    whole, clones = graph.rewired(wire)
    for node in graph.nodes if is_recording() else ():
        if id(node) in clones:
            done("place", node, "its inputs are on its device", into=clones[id(node)])
    placed = {id(clones.get(id(node), node)): device[id(node)] for node in graph.nodes}
    placed.update({id(copy): here for (_, here), copy in copies.items()})
    return whole, placed

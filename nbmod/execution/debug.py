"""Looking at a compiled graph: its steps and memory plan as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.reprs import aligned, shaped
from ..graph import Entry, Node
from ..ops.elementwise.fused_elements import FusedElements
from ..passes.memory.plan_step import NONE
from .bind import BindArguments
from .pipeline import CompiledGraph

if TYPE_CHECKING:
    from ..ndarray import NDArray

__all__ = ["debug_str", "described", "entry_names"]


def described(binding: BindArguments, outputs: Sequence[NDArray], compiled: CompiledGraph | None
              ) -> str:
    """The name and the arrays of a network, and the size of its plan."""
    symbol = binding.symbol
    arrays = [shaped((name, array.shape) for name, array in named) for named in (
        binding.args.items(), zip(symbol.list_outputs(), outputs, strict=False))]
    text = f"{symbol.name or 'of a group'} on {binding.ctx}: {' -> '.join(arrays)}"
    return text if compiled is None else (
        f"{text}\n {len(compiled.nodes)} steps, {compiled.plan.total_bytes:,} bytes of memory for "
        "results")


def debug_str(compiled: CompiledGraph, outputs: Sequence[str], first: str | None = None,
              notes: Sequence[Mapping[int, Sequence[str]]] = ()) -> str:
    """Every step with its inputs, outputs, and the memory each output got; then the totals.

    Memory reads `offset+bytes` in the arena, `held` for a graph output's own buffer, `user` for an
    array of the caller, `-` for an output that nothing reads; `= name` tells whose memory is
    reused.
    With several contexts, each of which has an arena, a column says where each step runs.
    Before the steps come the changes that passes have made to the symbol's graph, and what is
    computed only when a parameter has changed; after them the choices among several algorithms.
    `first` says which form runs at first, if that is not this one; `notes` are those of watchers,
    by step, shown below it.

    The steps of a loop's or branch's subgraph follow, indented; there memory is in the workspace
    that its step got, and `node's` is an array of the loop itself.

    The last two lines are MXNet's, which scripts parse: whole megabytes of arena and outputs, and
    the number of steps with a workspace.
    """
    names = entry_names(compiled)
    owners = {eid: f"user: gradient of {name}" for eid, name in compiled.gradients.items()}
    rows: list[tuple[str, ...]] = [
        ("step", "node (op)", "context", "shape", "type", "memory", "reads")]
    for index, node in enumerate(compiled.nodes):
        if index == compiled.num_forward:
            rows.append(("", "-- backward --", "", "", "", "", ""))
        rows += _step_rows(compiled, index, node, names, owners)
        rows += [("", note, "", "", "", "", "") for of_step in notes
                 for note in of_step.get(index, ())]
    if len(compiled.spaces) == 1:
        rows = [(*row[:2], *row[3:]) for row in rows]
    lines = ["Symbol outputs: " + ", ".join(outputs), *([first] if first else []),
             *_changes(compiled), *_derived(compiled, names), *aligned(rows, range(7)),
             *_bodies(compiled), *_chosen(compiled)]
    plan = compiled.plan
    if len(compiled.spaces) > 1:
        lines += [f"arena of {compiled.spaces[space]}: {nbytes} bytes"
                  for space, nbytes in sorted(plan.arena.items())]
    lines += [f"arena {sum(plan.arena.values())} bytes, "
              f"outputs {plan.held_bytes} bytes, "
              f"{len(plan.views)} of {len(compiled.nodes)} steps are free (views)",
              f"Total {plan.total_bytes >> 20} MB allocated",
              f"Total {sum(map(bool, plan.scratch))} TempSpace resource requested", ""]
    return "\n".join(lines)


def _changes(compiled: CompiledGraph) -> Iterator[str]:
    """Lines about the changes that passes made, and when a change does not hold."""
    for rewritten, what in ((compiled.simplified, "Rewritten, {} change(s):"),
                            (compiled.fused, "Fused, {} chain(s) of elementwise nodes:")):
        if rewritten is not None and rewritten.notes:
            yield what.format(len(rewritten.notes))
            yield from (f"  {note}" for note in rewritten.notes)
    if compiled.notes or compiled.is_simplified:
        training = compiled.is_simplified and not compiled.heads
        yield (f"Monitors{' and forward(is_train=True)' if training else ''} run the graph "
               "without these changes")


def _derived(compiled: CompiledGraph, names: list[str]) -> Iterator[str]:
    """A line for each array that is computed beside the steps and stays."""
    if not compiled.constants:
        return
    outputs = [(node, eid) for group in compiled.constants for node in group
               for eid in compiled.graph.output_eids(node) if eid in compiled.external]
    nbytes = sum(compiled.sizes[eid] for _, eid in outputs)
    yield f"Derived, computed when what they read has changed, {nbytes} bytes:"
    for node, eid in outputs:
        reads = ", ".join(names[source] for source in compiled.graph.input_eids(node))
        shape, dtype = compiled.specs[eid]
        yield f"  {names[eid]} ({node.op_name})  {shape}  {dtype}  reads: {reads or 'nothing'}"


def _bodies(compiled: CompiledGraph, indent: str = "  ") -> Iterator[str]:
    """The steps of all subgraphs that nodes run, and of those in them."""
    for index, subgraphs in compiled.subgraphs.items():
        for _, body, offsets, nbytes in subgraphs:
            yield (f"{indent}body of {compiled.nodes[index].name}: {len(body.nodes)} steps "
                   f"in {nbytes} bytes")
            names = entry_names(body)
            owners = dict.fromkeys(body.external, "node's")
            owners |= {eid: f"{start}+{body.sizes[eid]}" for eid, start in offsets.items()}
            rows = [(*row[:2], *row[3:]) for step, node in enumerate(body.nodes)
                    for row in _step_rows(body, step, node, names, owners)]
            yield from (f"{indent}  {line}" for line in aligned(rows, range(6)))
            yield from _bodies(body, indent + "  ")


def _chosen(compiled: CompiledGraph) -> Iterator[str]:
    """The implementations of nodes that have several, and the rejected ones with their costs."""
    for node, choice in zip(compiled.nodes, compiled.choices, strict=True):
        for part in () if choice is None else choice.parts or [choice]:
            costs = [str(each) for each in part.rejected if each.estimate.cost is not None]
            if costs:
                what = f"{node.name} {part.op}" if part is not choice else node.name
                yield f"{what}: {part.chosen}; rejected: {', '.join(costs)}"


def entry_names(compiled: CompiledGraph) -> list[str]:
    """Names of all entries, as tables and pictures show them."""
    names = []
    for node in compiled.graph.nodes:
        if node.is_variable:
            names.append(node.name)
        elif isinstance(node.op, FusedElements):
            names += node.op.labels
        else:
            outputs = node.required_op.list_outputs()
            names += [node.name if len(outputs) == 1 else f"{node.name}.{o}" for o in outputs]
    return names


def _step_rows(compiled: CompiledGraph, index: int, node: Node, names: list[str],
               owners: Mapping[int, str]) -> list[tuple[str, ...]]:
    """One row per output that is wanted, the first with the step's number, name and inputs.

    `owners` says whose the memory of entries is that is not planned.

    Several outputs of a fused node follow it under their own names.
    """
    step = compiled.plan_steps[index]
    first = compiled.graph.eid(Entry(node))
    head = (str(index), f"{node.name} ({node.op_name})", str(compiled.devices[first]))
    inputs = ", ".join(names[eid] for eid in step.inputs)
    rows: list[tuple[str, ...]] = []
    fused = isinstance(node.op, FusedElements) and node.num_outputs > 1
    if fused:
        rows.append((*head, "", "", "", inputs))
        inputs = ""
    for position, eid in enumerate(step.outputs):
        if eid == NONE and position:
            continue
        shown = first + position
        head = ("", f"  {names[shown]}", "") if fused else head
        rows.append((*head, *map(str, compiled.specs[shown]),
                     _memory(compiled, index, eid, names, owners), inputs))
        head, inputs = ("", "", ""), ""
    return rows


def _memory(compiled: CompiledGraph, index: int, eid: int, names: list[str],
            owners: Mapping[int, str]) -> str:
    plan = compiled.plan
    if eid == NONE:
        return "-"
    if eid in owners:
        return owners[eid]
    if eid in plan.view_of:
        kind = "piece" if eid in plan.pieces else "view"
        return f"= {names[plan.view_of[eid]]} ({kind})"
    storage, step = plan.storages[plan.storage[eid]], compiled.plan_steps[index]
    place = "held" if storage.held else f"{storage.offset}+{storage.size}"
    if eid in plan.pieces:
        start, rows, apart = plan.pieces[eid]
        place = f"{place}, {start}+{compiled.specs[eid].nbytes // rows} of it"
        place += f" and every {apart} on" if rows > 1 else ""
    if index in plan.views:
        kind = ("joined in place" if step.concat_offsets else "read in place" if step.split_offsets
                else f"= {names[step.inputs[0]]} (view)")
        return f"{place} {kind}"
    if eid in plan.inplace:
        return f"{place} = {names[plan.inplace[eid]]} (in place)"
    return f"{place} += (added to)" if eid in plan.add else place

"""Looking at a bound executor: the plan as a table of text and as a chart, and what monitors see.

All only read what binding left behind (`computed`, `plan_steps`, `plan`, `shape`, `dtype`); nothing
here runs anything.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from ..graph import Entry, Node
from ..ops.control_flow.control_base import Control
from ..ops.elementwise.fused_elements import FusedElements
from ..ops.op import Backward
from ..passes.memory.plan_step import NONE

if TYPE_CHECKING:
    from ..executor import Executor
    from .steps import Program

__all__ = ["debug_str", "named_inputs", "named_outputs", "plan_chart"]


def named_inputs(node: Node, arrays: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """What a monitor sees of a node's inputs, under MXNet's names: `<node>_<input>`, and before
    that a variable under its own name.  Gradients have no names for theirs and number them."""
    op = node.required_op
    numbered = isinstance(op, Backward)
    names = [f"input{i}" for i in range(len(arrays))] if numbered else op.list_inputs()
    for entry, name, array in zip(node.inputs, names, arrays, strict=True):
        if entry.node.is_variable:
            yield entry.node.name, array
        yield f"{node.name}_{name}", array


def named_outputs(node: Node, arrays: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """What a monitor sees of a node's outputs, hidden ones included, under MXNet's names.

    What a loop saves for its gradients is nobody's business.
    """
    op = node.required_op
    names: Sequence[str] = op.list_outputs()
    if isinstance(op, Control):
        names, arrays = names[:op.num_visible], arrays[:op.num_visible]
    if isinstance(op, Backward):
        names = [f"output{i}" for i in range(len(names))] if len(names) > 1 else ["output"]
    for name, array in zip(names, arrays, strict=True):
        yield f"{node.name}_{name}", array


def debug_str(executor: Executor) -> str:
    """Every step with its inputs, outputs, and the memory each output got; then the totals.

    Memory reads `offset+bytes` in the arena, `held` for a graph output's own buffer, `user` for an
    array of the caller, `-` for an output nobody reads; `= name` tells whose memory was taken over.
    With several contexts, each of which has an arena, a column says where each step runs.
    Before the steps stands what passes have changed in the symbol's graph, and what is computed
    only when a parameter has changed.

    What a loop or a branch runs stands below, indented; there memory is in the block that its step
    got as scratch, and `node's` is an array of the loop itself.
    """
    names = _entry_names(executor)
    rows: list[tuple[str, ...]] = [
        ("step", "node (op)", "context", "shape", "type", "memory", "reads")]
    for index, node in enumerate(executor.computed):
        if index == executor.num_forward:
            rows.append(("", "-- backward --", "", "", "", "", ""))
        rows += _step_rows(executor, index, node, names)
    if len(executor.spaces) == 1:
        rows = [(*row[:2], *row[3:]) for row in rows]
    lines = ["Symbol outputs: " + ", ".join(executor._symbol.list_outputs()),
             *_changes(executor), *_derived(executor, names), *_table(rows), *_bodies(executor)]
    plan = executor.plan
    lines += [*_arenas(executor), f"arena {sum(plan.arena.values())} bytes, "
              f"outputs {plan.held_bytes} bytes, "
              f"{len(plan.views)} of {len(executor.computed)} steps are free (views)",
              f"Total {_megabytes(plan.total_bytes)} MB allocated"]
    return "\n".join(lines)


def _changes(executor: Executor) -> Iterator[str]:
    """What passes did, a line each."""
    if executor.lean.notes:
        yield f"Rewritten, {len(executor.lean.notes)} change(s):"
        yield from (f"  {note}" for note in executor.lean.notes)
    if executor.fused.notes:
        yield f"Fused, {len(executor.fused.notes)} chain(s) of elementwise nodes:"
        yield from (f"  {note}" for note in executor.fused.notes)


def _derived(executor: Executor, names: list[str]) -> Iterator[str]:
    """What runs beside the steps, a line for each array that is kept."""
    if not executor.derived:
        return
    kept = [(node, eid) for group in executor.lean.groups for node in group
            for eid in executor.graph.output_eids(node) if eid in executor.external]
    nbytes = sum(executor.sizes[eid] for _, eid in kept)
    yield f"Derived, computed when what they read has changed, {nbytes} bytes:"
    for node, eid in kept:
        reads = ", ".join(names[source] for source in executor.graph.input_eids(node))
        yield (f"  {names[eid]} ({node.op_name})  {executor.shape[eid]}  {executor.dtype[eid]}"
               f"  reads: {reads or 'nothing'}")


def _bodies(program: Program, indent: str = "  ") -> Iterator[str]:
    """The steps of all that nodes run, and of what nodes in there run."""
    for index, bodies in program.bodies.items():
        for body in bodies:
            yield (f"{indent}body of {program.computed[index].name}: {len(body.computed)} steps "
                   f"in {body.nbytes} bytes")
            names = _entry_names(body)
            rows = [(*row[:2], *row[3:]) for step, node in enumerate(body.computed)
                    for row in _step_rows(body, step, node, names)]
            yield from (f"{indent}  {line}" for line in (_table(rows) if rows else ()))
            yield from _bodies(body, indent + "  ")


def _arenas(executor: Executor) -> Iterator[str]:
    """The arena of each context, if there are several."""
    if len(executor.spaces) > 1:
        for space, nbytes in sorted(executor.plan.arena.items()):
            yield f"arena of {executor.spaces[space]}: {nbytes} bytes"


def _megabytes(nbytes: int) -> str:
    return f"{nbytes / 2 ** 20:.4g}"


def _entry_names(executor: Program) -> list[str]:
    names = []
    for node in executor.graph.nodes:
        if node.op is None:
            names.append(node.name)
        elif isinstance(node.op, FusedElements):
            names += node.op.labels
        else:
            outputs = node.op.list_outputs()
            names += [node.name if len(outputs) == 1 else f"{node.name}.{o}" for o in outputs]
    return names


def _step_rows(executor: Program, index: int, node: Node, names: list[str]) -> list[tuple]:
    """One row per output that is wanted, the first with the step's number, name and inputs.

    Several outputs of a fused node stand below it under the names that they have.
    """
    step = executor.plan_steps[index]
    first = executor.graph.eid(Entry(node))
    head = (str(index), f"{node.name} ({node.op_name})", str(executor.context[first]))
    inputs = ", ".join(names[eid] for eid in step.inputs)
    rows: list[tuple] = []
    fused = isinstance(node.op, FusedElements) and node.num_outputs > 1
    if fused:
        rows.append((*head, "", "", "", inputs))
        inputs = ""
    for position, eid in enumerate(step.outputs):
        if eid == NONE and position:
            continue
        shown = first + position
        head = ("", f"  {names[shown]}", "") if fused else head
        rows.append((*head, *map(str, executor.specs[shown]),
                     _memory(executor, index, eid, names), inputs))
        head, inputs = ("", "", ""), ""
    return rows


def _table(rows: list[tuple]) -> list[str]:
    """Rows with columns of equal width."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows]


def _memory(executor: Program, index: int, eid: int, names: list[str]) -> str:
    plan = executor.plan
    if eid == NONE:
        return "-"
    place = executor.place(eid)
    if place:
        return place
    if eid in plan.view_of:
        kind = "piece" if eid in plan.pieces else "view"
        return f"= {names[plan.view_of[eid]]} ({kind})"
    storage, step = plan.storages[plan.storage[eid]], executor.plan_steps[index]
    place = "held" if storage.held else f"{storage.offset}+{storage.size}"
    if eid in plan.pieces:
        start, rows, apart = plan.pieces[eid]
        place = f"{place}, {start}+{executor.specs[eid].nbytes // rows} of it"
        place += f" and every {apart} on" if rows > 1 else ""
    if index in plan.views:
        kind = "joined in place" if step.joins else "read in place" if step.cuts else (
            f"= {names[step.inputs[0]]} (view)")
        return f"{place} {kind}"
    if eid in plan.inplace:
        return f"{place} = {names[plan.inplace[eid]]} (in place)"
    return f"{place} += (added to)" if eid in plan.add else place


WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 900, 420, 70, 40, 60


def plan_chart(executor: Executor, path: str | pathlib.Path | None = None) -> str:
    """The arena over time as SVG text, written to `path` if one is given.

    To the right the steps, upwards the addresses.  One box per storage, from its first write to
    its last read; boxes that touch vertically at one step are alive together.  Held outputs are
    drawn above the arena, scratch memory hatched pale.
    """
    boxes = list(_boxes(executor))
    top = max([offset + size for offset, size, *_ in boxes], default=1)
    steps = max(len(executor.computed), 1)
    scale_x = (WIDTH - LEFT - 20) / steps
    scale_y = (HEIGHT - TOP - BOTTOM) / top
    base = HEIGHT - BOTTOM
    parts = [_svg_head(executor, top)]
    for offset, size, first, last, label, kind in boxes:
        x, y = LEFT + first * scale_x, base - (offset + size) * scale_y
        width, height = (last - first + 1) * scale_x, size * scale_y
        parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                     f'height="{height:.1f}"><title>{escape(label)}</title></rect>')
        text = _fitting(label.split(":")[0], width) if height > 11 else ""
        if text:
            parts.append(f'<text x="{x + width / 2:.1f}" y="{y + height / 2 + 4:.1f}" '
                         f'text-anchor="middle">{escape(text)}</text>')
    parts.append(_svg_axes(executor, scale_x, scale_y, base, top))
    text = "\n".join(parts) + "\n</svg>\n"
    if path is not None:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    return text


def _fitting(names: str, width: float) -> str:
    """As many of `a = b = c` as fit into `width`, at about 6.2 units a letter; "" if none does."""
    owners = names.split(" = ")
    for count in range(len(owners), 0, -1):
        text = " = ".join(owners[:count]) + (" = ..." if count < len(owners) else "")
        if 6.2 * len(text) < width:
            return text
    return ""


def _boxes(executor: Executor) -> Any:
    """(offset, size, first, last, label, kind) of every storage, held ones stacked on top.

    The arenas of several contexts stand one above the other.
    """
    plan, names = executor.plan, _entry_names(executor)
    members: dict[int, list[str]] = {}
    for eid, sid in enumerate(plan.storage):
        if sid != NONE:
            members.setdefault(sid, []).append(names[eid])
    start = {space: sum(plan.arena.get(before, 0) for before in range(space))
             for space in range(len(executor.spaces))}
    top = sum(plan.arena.values())
    for sid, storage in enumerate(plan.storages):
        owners = members.get(sid)
        label = " = ".join(owners) if owners else "scratch"
        label = f"{label}: {storage.size} bytes, steps {storage.first}-{storage.last}"
        kind = "held" if storage.held else "entry" if owners else "scratch"
        if storage.held:
            yield top, storage.size, storage.first, len(executor.computed) - 1, label, kind
            top += storage.size
        else:
            offset = start[storage.space] + storage.offset
            yield offset, storage.size, storage.first, storage.last, label, kind


def _svg_head(executor: Executor, top: int) -> str:
    plan = executor.plan
    title = (f"{executor._symbol.name or 'graph'}: {len(executor.computed)} steps, "
             f"arena {sum(plan.arena.values()):,} bytes, outputs {plan.held_bytes:,} bytes")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="11">\n<style>'
            ".entry{fill:#9ecae1}.held{fill:#a1d99b}.scratch{fill:#eee}"
            "rect{stroke:#555;stroke-width:.5}.axis{stroke:#333}.half{stroke:#c33;"
            "stroke-dasharray:4 3}</style>\n"
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff" stroke="none"/>\n'
            f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>')


def _svg_axes(executor: Executor, scale_x: float, scale_y: float, base: float, top: int) -> str:
    steps = len(executor.computed)
    parts = [f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{base}H{WIDTH - 20}"/>']
    for fraction in (0, 0.25, 0.5, 0.75, 1):
        y = base - fraction * top * scale_y
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">'
                     f'{_short_bytes(fraction * top)}</text>')
    for index in range(0, steps, max(steps // 12, 1)):
        parts.append(f'<text x="{LEFT + (index + .5) * scale_x:.1f}" y="{base + 15}" '
                     f'text-anchor="middle">{index}</text>')
    if executor.num_forward < steps:
        x = LEFT + executor.num_forward * scale_x
        parts.append(f'<path class="half" d="M{x:.1f} {TOP}V{base}"/><text x="{x + 4:.1f}" '
                     f'y="{TOP + 2}">backward</text>')
    parts.append(f'<text x="{LEFT}" y="{base + 34}">steps to the right, addresses upwards; '
                 "blue: intermediate tensors, green: outputs, grey: scratch</text>")
    return "\n".join(parts)


def _short_bytes(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GB"

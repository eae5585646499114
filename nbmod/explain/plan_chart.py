"""The memory plan as an image, for documents and notebooks; the page draws it, too."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from xml.sax.saxutils import escape

from ..core.atomic import atomic_write
from .schema import PlanFacts

__all__ = ["PlanChart", "plan_chart"]


class PlanChart(str):
    """A picture of a memory plan as SVG text, which notebooks show as the picture."""

    def __repr__(self) -> str:
        title = self.partition('font-size="14">')[2].partition("<")[0]
        return f"<Memory plan of {title}>"

    def _repr_svg_(self) -> str:
        return str(self)


WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 900, 420, 70, 40, 60


def plan_chart(plan: PlanFacts, name: str, path: str | PathLike[str] | None = None) -> PlanChart:
    """The arena over time as SVG text, written to `path` if one is given.

    To the right the steps, upwards the addresses.  One box per storage, from its first write to
    its last read; boxes that touch vertically at one step are alive together.  Held outputs are
    drawn above the arena, scratch memory hatched pale.
    """
    boxes = list(_boxes(plan))
    top = max([offset + size for offset, size, *_ in boxes], default=1)
    steps = max(len(plan.steps), 1)
    scale_x = (WIDTH - LEFT - 20) / steps
    scale_y = (HEIGHT - TOP - BOTTOM) / top
    base = HEIGHT - BOTTOM
    parts = [_svg_head(plan, name)]
    for offset, size, first, last, label, kind in boxes:
        x, y = LEFT + first * scale_x, base - (offset + size) * scale_y
        width, height = (last - first + 1) * scale_x, size * scale_y
        parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                     f'height="{height:.1f}"><title>{escape(label)}</title></rect>')
        text = _fitting(label.split(":")[0], width) if height > 11 else ""
        if text:
            parts.append(f'<text x="{x + width / 2:.1f}" y="{y + height / 2 + 4:.1f}" '
                         f'text-anchor="middle">{escape(text)}</text>')
    parts.append(_svg_axes(plan, scale_x, scale_y, base, top))
    text = PlanChart("\n".join(parts) + "\n</svg>\n")
    if path is not None:
        with atomic_write(path) as file:
            file.write(text.encode())
    return text


def _fitting(names: str, width: float) -> str:
    """The first names of `a = b = c` that fit into `width`, at about 6.2 units a letter, or ""."""
    owners = names.split(" = ")
    for count in range(len(owners), 0, -1):
        text = " = ".join(owners[:count]) + (" = ..." if count < len(owners) else "")
        if 6.2 * len(text) < width:
            return text
    return ""


def _boxes(plan: PlanFacts) -> Iterator[tuple[int, int, int, int, str, str]]:
    """(offset, size, first, last, label, kind) of every storage, held ones stacked on top.

    The arenas of several contexts are stacked.
    """
    arenas = [*plan.memory.arenas.values()]
    top = sum(arenas)
    for storage in plan.storages:
        size, first, last = storage.nbytes, storage.first, storage.last
        names = [plan.entries[eid].name for eid in storage.entries] or ["scratch"]
        label = f"{' = '.join(names)}: {size} bytes, steps {first}-{last}"
        if storage.offset is None:
            yield top, size, first, len(plan.steps) - 1, label, "held"
            top += size
        else:
            kind = "entry" if storage.entries else "scratch"
            yield sum(arenas[:storage.space]) + storage.offset, size, first, last, label, kind


def _svg_head(plan: PlanFacts, name: str) -> str:
    title = (f"{name}: {len(plan.steps)} steps, arena {sum(plan.memory.arenas.values()):,} bytes, "
             f"outputs {plan.memory.held:,} bytes")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="11">\n<style>'
            ".entry{fill:#9ecae1}.held{fill:#a1d99b}.scratch{fill:#eee}"
            "rect{stroke:#555;stroke-width:.5}.axis{stroke:#333}.half{stroke:#c33;"
            "stroke-dasharray:4 3}</style>\n"
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff" stroke="none"/>\n'
            f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>')


def _svg_axes(plan: PlanFacts, scale_x: float, scale_y: float, base: float, top: int) -> str:
    phases = [step.phase for step in plan.steps]
    steps = len(phases)
    parts = [f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{base}H{WIDTH - 20}"/>']
    for fraction in (0, 0.25, 0.5, 0.75, 1):
        y = base - fraction * top * scale_y
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">'
                     f'{_short_bytes(fraction * top)}</text>')
    for index in range(0, steps, max(steps // 12, 1)):
        parts.append(f'<text x="{LEFT + (index + .5) * scale_x:.1f}" y="{base + 15}" '
                     f'text-anchor="middle">{index}</text>')
    if "backward" in phases:
        x = LEFT + phases.index("backward") * scale_x
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

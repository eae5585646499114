"""The memory plan as a picture: for documents and notebooks, and in the page, which adds zoom.

Places are percentages of areas that lie in each other: what is as large as its area when the
picture is drawn can be enlarged or moved within it later, while texts keep their size.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from ..core.atomic import atomic_write
from .schema import PlanFacts, StorageFacts

__all__ = ["PlanChart", "StorageBox", "boxes_of", "page_chart", "plan_chart"]


class PlanChart(str):
    """A picture of a memory plan as SVG text, which notebooks show as the picture."""

    def __repr__(self) -> str:
        title = self.partition('class="title"')[2].partition(">")[2].partition("<")[0]
        return f"<Memory plan of {title}>"

    def _repr_svg_(self) -> str:
        return str(self)


@dataclass(frozen=True)
class StorageBox:
    """A storage in the picture: from step to step, from address to address."""

    storage: int
    left: int
    right: int
    low: int
    high: int
    role: str
    names: str

    @property
    def title(self) -> str:
        """Everything about it, for whoever points at it."""
        steps = (f"step {self.left}" if self.right - self.left == 1 else
                 f"steps {self.left} to {self.right - 1}")
        return f"{self.names}: {self.high - self.low:,} bytes, {steps}, {ROLES[self.role]}"


ROLES = {"forward": "forward only", "kept": "kept for the backward pass", "backward": "backward",
         "scratch": "workspace", "output": "output", "small": "small ones, summed"}
FOLDER = Path(__file__).with_name("page")
WIDTH, HEIGHT, PLOT_WIDTH, PLOT_HEIGHT = 900, 436, 810, 300
AREAS = {"storages": (70, 36, PLOT_WIDTH, PLOT_HEIGHT), "addresses": (0, 36, 64, PLOT_HEIGHT),
         "alive": (70, 348, PLOT_WIDTH, 40), "most": (0, 348, 64, 40),
         "numbers": (70, 388, PLOT_WIDTH, 20), "legend": (70, 416, PLOT_WIDTH, 12)}
"""Left, top, width and height of the parts of the picture."""
OVERFLOWS = {"addresses": "visible", "most": "visible"}
NAME_WIDTH, NAME_HEIGHT = 34, 12
"""Pixels of a box that has room for its name."""
BANDS = 32
NAMED_ZOOM = 32
"""Boxes that get room for it by this zoom have a name in the page."""
ROWS = PLOT_HEIGHT // 2
"""Rows of pixels in which lower boxes are summed."""


def plan_chart(plan: PlanFacts, name: str, path: str | PathLike[str] | None = None,
               top: int = 0) -> PlanChart:
    """The memory over time as SVG text, written to `path` if one is given.

    To the right the steps, upwards the addresses; below them the bytes that are alive.  One box per
    storage, from its first write to its last read; boxes that touch vertically at one step are
    alive together.  Held outputs are drawn above the arenas; boxes that would be very low are
    summed.  The scale ends at `top` bytes, or where the plan ends if that is more.
    """
    title = (f"{name}: {len(plan.steps):,} steps, arena {sum(plan.memory.arenas.values()):,} "
             f"bytes, outputs {plan.memory.held:,} bytes")
    text = PlanChart("\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" class="memory-chart" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label={quoteattr(title)}>',
        f"<style>{_style()}</style>", f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="title" x="70" y="22">{escape(title)}</text>',
        *_Drawing(plan, False, top).parts(), "</svg>\n"]))
    if path is not None:
        with atomic_write(path) as file:
            file.write(text.encode())
    return text


def page_chart(plan: PlanFacts) -> str:
    """The picture within the page, where every storage has a box: whoever zooms sees it."""
    parts = _Drawing(plan, True).parts()
    return "\n".join(['<div class="memory-chart">', *parts, "</div>"])


def boxes_of(plan: PlanFacts) -> list[StorageBox]:
    """A box for each storage with bytes: contexts one above the other, then held outputs."""
    sizes = [*plan.memory.arenas.values()]
    top, boxes = sum(sizes), []
    for number, each in enumerate(plan.storages):
        low = top if each.offset is None else sum(sizes[:each.space]) + each.offset
        top += each.nbytes if each.offset is None else 0
        if not each.nbytes:
            continue
        right = 1 + (len(plan.steps) - 1 if each.held else each.last)
        role = _role(plan, each)
        boxes.append(StorageBox(number, each.first, right, low, low + each.nbytes, role,
                         _names(plan, each)))
    return boxes


def _role(plan: PlanFacts, storage: StorageFacts) -> str:
    """The purpose of a storage: a key of `ROLES`."""
    if storage.held:
        return "output"
    if storage.scratch_of is not None:
        return "scratch"
    phases = [plan.steps[step].phase for step in (storage.first, storage.last)]
    return phases[0] if phases[0] == phases[1] else "kept"


def _names(plan: PlanFacts, storage: StorageFacts) -> str:
    """The tensors in a storage, or the step whose workspace it is."""
    if storage.scratch_of is not None:
        return f"workspace of {plan.steps[storage.scratch_of].name}"
    return " = ".join(plan.entries[eid].name for eid in storage.entries)


# -- drawing --------------------------------------------------------------------------------------


class _Drawing:
    """The parts of a picture as SVG."""

    def __init__(self, plan: PlanFacts, is_page: bool, top: int = 0):
        self.plan, self.is_page = plan, is_page
        self.steps, self.top = max(len(plan.steps), 1), max(plan.memory.total, top, 1)
        boxes = boxes_of(plan)
        self.low = [box for box in boxes if self._is_low(box)]
        self.high = [box for box in boxes if not self._is_low(box)]
        self.roles = {box.role for box in boxes} | ({"small"} if self.low else set())

    def _is_low(self, box: StorageBox) -> bool:
        return (box.high - box.low) * ROWS < self.top

    def parts(self) -> Iterator[str]:
        yield from self._area("storages", [
            '<svg class="zooms" width="100%" height="100%">', *map(self._box, self.high),
            *self._summed(), *(self._bands() if self.is_page else ()), *self._lines(),
            '</svg><rect class="frame" width="100%" height="100%"/>'])
        yield from self._area("alive", [self._curve()])
        yield from self._area("addresses", [
            _text("100%", f"{100 - 25 * quarter}%", _short_bytes(quarter / 4 * self.top), "end")
            for quarter in range(5)])
        yield from self._area("most", [
            _text("100%", "5", _short_bytes(max([0, *self.plan.memory.live])), "end"),
            _text("100%", "20", "alive", "end")])
        count = min(12, self.steps)
        yield from self._area("numbers", [
            _text(_percent(index + .5, count), "10", str(int((index + .5) / count * self.steps)))
            for index in range(count)])
        yield from self._area("legend", self._legend())

    def _area(self, name: str, content: Iterable[str]) -> Iterator[str]:
        """A part in its place; the page has places of its own."""
        place = zip(("x", "y", "width", "height"), AREAS[name], strict=True)
        attributes = "" if self.is_page else "".join(f' {side}="{size}"' for side, size in place)
        yield f'<svg class="{name}" overflow="{OVERFLOWS.get(name, "hidden")}"{attributes}>'
        yield from content
        yield "</svg>"

    def _box(self, box: StorageBox) -> str:
        """A box, and its name where there is room for it, or will be when the page is zoomed."""
        width, height = (box.right - box.left) / self.steps, (box.high - box.low) / self.top
        place = (f'x="{_percent(box.left, self.steps)}" '
                 f'y="{_percent(self.top - box.high, self.top)}" '
                 f'width="{_percent(width)}" height="{_percent(height)}"')
        number = f' data-storage="{box.storage}"' if self.is_page else ""
        drawn = (f'<rect class="box {box.role}"{number} {place}><title>{escape(box.title)}'
                 "</title></rect>")
        zoom = NAMED_ZOOM if self.is_page else 1
        if width * zoom * PLOT_WIDTH > NAME_WIDTH and height * zoom * PLOT_HEIGHT > NAME_HEIGHT:
            shown = ' display="none"' if self.is_page else ""
            drawn += (f'\n<svg class="name"{shown} {place}><text x="4" y="50%" dy="4">'
                      f"{escape(box.names)}</text></svg>")
        return drawn

    def _summed(self) -> Iterator[str]:
        """Low boxes: those that touch in a row of pixels are one."""
        rows = defaultdict(list)
        for box in self.low:
            rows[(box.low + box.high) * ROWS // (2 * self.top)].append((box.left, box.right))
        yield '<g class="summed">'
        for row, spans in rows.items():
            for left, right in _joined(sorted(spans)):
                yield (f'<rect class="small" x="{_percent(left, self.steps)}" '
                       f'y="{_percent(ROWS - 1 - row, ROWS)}" '
                       f'width="{_percent(right - left, self.steps)}" '
                       f'height="{_percent(1, ROWS)}"/>')
        yield "</g>"

    def _bands(self) -> Iterator[str]:
        """Low boxes in bands of addresses: the page shows those that it has enlarged."""
        bands = defaultdict(list)
        for box in self.low:
            bands[box.low * BANDS // self.top].append(box)
        for band, boxes in bands.items():
            top = self.top - max(box.high for box in boxes)
            yield (f'<g class="band" display="none" y="{_percent(top, self.top)}" '
                   f'height="{_percent(1 - band / BANDS - top / self.top)}">')
            yield from map(self._box, boxes)
            yield "</g>"

    def _lines(self) -> Iterator[str]:
        """Where the backward pass begins, and where arenas end and held outputs begin."""
        phases = [step.phase for step in self.plan.steps]
        if "backward" in phases:
            x = _percent(phases.index("backward"), self.steps)
            yield (f'<line class="line phase" x1="{x}" x2="{x}" y2="100%"/>'
                   f'<text class="phase-name" x="{x}" dx="4" dy="11">backward</text>')
        arenas = sum(self.plan.memory.arenas.values())
        if 0 < arenas < self.top:
            y = _percent(self.top - arenas, self.top)
            yield f'<line class="line" y1="{y}" x2="100%" y2="{y}"/>'

    def _curve(self) -> str:
        """The bytes alive at each step, with the peak."""
        live, peak = self.plan.memory.live, self.plan.memory.peak_step
        most = max([1, *live])
        path = "".join(f"V{1000 - round(1000 * nbytes / most)}h1" for nbytes in live)
        mark = "" if peak is None else f'<rect class="peak" x="{peak}" width="1" height="1000"/>'
        return ('<svg class="zooms along" width="100%" height="100%" preserveAspectRatio="none" '
                f'viewBox="0 0 {self.steps} 1000"><path class="curve" d="M0 1000{path}V1000z"/>'
                f"{mark}</svg>")

    def _legend(self) -> Iterator[str]:
        x = 0
        for role, text in ROLES.items():
            if role in self.roles:
                yield (f'<rect class="{role}" x="{x}" width="10" height="10"/>'
                       f'<text x="{x + 15}" y="9">{text}</text>')
                x += 34 + 6 * len(text)


def _joined(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans in order of their starts, as one where they touch."""
    start, end = spans[0]
    for left, right in spans:
        if left > end:
            yield start, end
            start = left
        end = max(end, right)
    yield start, end


def _text(x: str, y: str, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y}" dy="4" text-anchor="{anchor}">{text}</text>'


def _percent(part: float, whole: float = 1) -> str:
    return f"{100 * part / whole:.5f}".rstrip("0").rstrip(".") + "%"


def _short_bytes(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GB"


def _style() -> str:
    """The rules of the picture, with those colours of the page that they use."""
    rules, page = ((FOLDER / name).read_text(encoding="utf-8") for name in (
        "chart.css", "style.css"))
    rules = re.sub(r"/\*.*?\*/\n", "", rules)
    used = set(re.findall(r"var\((--[\w-]+)\)", rules))
    light, dark = ("".join(
        f"{name}:{colour};" for name, colour in re.findall(r"(--[\w-]+): (#\w+);", block)
        if name in used) for block in re.findall(r":root \{(.*?)\}", page, re.S))
    return (f".memory-chart{{{light}}}\n@media (prefers-color-scheme:dark)"
            f"{{.memory-chart{{{dark}}}}}\n{rules}")

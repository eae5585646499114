"""Places for boxes and ways for the arrows between them, in layers from the top down.

Sugiyama, Tagawa and Toda, Methods for visual understanding of hierarchical system structures, IEEE
Transactions on Systems, Man, and Cybernetics 11 (1981): a box stands in the row after all that it
reads, an arrow that spans rows has a bend in each, rows are ordered by barycentres.  Places in a
row are then the nearest ones, by least squares, to straight arrows (isotonic regression).  A tall
drawing continues in further columns, which are cut where few arrows pass.

All steps take time proportional to boxes, arrows and bends, but for sorting rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Item", "Arrangement", "Point", "far_edges", "place"]

GAP, APART, TRACK, MARGIN = 24.0, 16.0, 8.0, 12.0
"""Pixels between rows, between boxes of a row, between parallel arrows, around columns."""
SWEEPS = 4
SPAN = 40
"""Arrows over more rows are not drawn."""
TALL, ASPECT, CROSSING = 900.0, 1.5, 2
"""A drawing of more pixels is divided into columns, of this ratio of width to height in all,
between rows that at most this many arrows connect."""

Edge = tuple[int, int]
Point = tuple[float, float]


class Item(NamedTuple):
    """A box: its size, and where arrows leave its lower side."""

    width: float
    height: float
    leave: float

    @property
    def enter(self) -> float:
        """Where arrows meet its upper side."""
        return self.width / 2


class Arrangement(NamedTuple):
    """Upper left corners of the boxes, ways of the arrows, and the size of everything.

    A way is points with straight lines between them, or S-shaped curves where `None` is between.
    """

    corners: list[Point]
    ways: list[list[Point | None]]
    width: float
    height: float


def ranks(count: int, edges: Iterable[Edge]) -> list[int]:
    """The row of each box: after all that it reads.

    Trees of boxes that read nothing else, such as labels and what reshapes them, stand just above
    their reader. Edges go from lower to higher numbers.
    """
    row, readers, is_tree = [0] * count, [list[int]() for _ in range(count)], [True] * count
    edges = sorted(edges)
    for source, target in edges:
        row[target] = max(row[target], row[source] + 1)
        readers[source].append(target)
    for source, target in edges:
        is_tree[target] &= is_tree[source] and len(readers[source]) == 1
    for at in reversed(range(count)):
        if is_tree[at] and readers[at]:
            row[at] = min(row[reader] for reader in readers[at]) - 1
    return row


def far_edges(count: int, edges: Sequence[Edge]) -> set[Edge]:
    """Arrows over so many rows that drawing them would hide more than it shows."""
    row = ranks(count, edges)
    budget, far = 4 * count + 100, set()
    for source, target in sorted(edges, key=lambda edge: row[edge[1]] - row[edge[0]]):
        bends = row[target] - row[source] - 1
        if bends > min(SPAN, budget):
            far.add((source, target))
        else:
            budget -= bends
    return far


def place(items: Sequence[Item], edges: Sequence[Edge]) -> Arrangement:
    """Place boxes; edges go from lower to higher numbers."""
    grid = _Grid(items, edges)
    grid.order_rows()
    grid.shift_items()
    return _Division(grid).placement(len(items))


class _Grid:
    """Boxes and the bends of arrows in rows, each with its left edge."""

    def __init__(self, items: Sequence[Item], edges: Sequence[Edge]):
        self.items, self.rank = [*items], ranks(len(items), edges)
        self.chains = [self._chain(*edge) for edge in edges]
        self.above: list[list[int]] = [[] for _ in self.items]
        self.below: list[list[int]] = [[] for _ in self.items]
        for chain in self.chains:
            for upper, lower in zip(chain, chain[1:], strict=False):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
        self.rows: list[list[int]] = [[] for _ in range(1 + max(self.rank, default=-1))]
        for at, rank in enumerate(self.rank):
            self.rows[rank].append(at)
        self.left = [0.0] * len(self.items)

    def _chain(self, source: int, target: int) -> list[int]:
        """The ends of an arrow, and between them a bend in each row."""
        bends = []
        for rank in range(self.rank[source] + 1, self.rank[target]):
            bends.append(len(self.items))
            self.items.append(Item(0.0, 0.0, 0.0))
            self.rank.append(rank)
        return [source, *bends, target]

    def order_rows(self) -> None:
        place = [0.0] * len(self.items)
        for row in self.rows:
            for number, at in enumerate(row):
                place[at] = number
        for sweep in range(2 * SWEEPS):
            near = self.below if sweep % 2 else self.above
            for row in reversed(self.rows) if sweep % 2 else self.rows:
                for at in row:
                    if near[at]:
                        place[at] = sum(place[one] for one in near[at]) / len(near[at])
                row.sort(key=place.__getitem__)
                for number, at in enumerate(row):
                    place[at] = number

    def shift_items(self) -> None:
        for row in self.rows:
            self._settle(row, [0.0] * len(row), [1.0] * len(row))
        for sweep in range(2 * SWEEPS + 1):
            for row in reversed(self.rows) if sweep % 2 else self.rows:
                wishes = [self._wish(at, bool(sweep % 2)) for at in row]
                self._settle(row, [wish for wish, _ in wishes], [weight for _, weight in wishes])

    def _wish(self, at: int, upwards: bool) -> tuple[float, float]:
        """The left edge that makes the arrows on one side straight, and its weight."""
        item, near = self.items[at], self.below[at] if upwards else self.above[at]
        if not near:
            return self.left[at], 0.1
        sides = [(self._stiffness(one), self.left[one] + (
            self.items[one].enter if upwards else self.items[one].leave)) for one in near]
        port = item.leave if upwards else item.enter
        return (sum(weight * x for weight, x in sides) / sum(weight for weight, _ in sides) - port,
                self._stiffness(at))

    def _stiffness(self, at: int) -> float:
        """Bends of long arrows move less than boxes; equal in both places, it causes no drift."""
        return 1.0 if self.items[at].height else 4.0

    def _settle(self, row: Sequence[int], wishes: Sequence[float], weights: Sequence[float]
                ) -> None:
        """Left edges in the order of the row, apart, and as near to wishes as squares allow."""
        offsets, offset = [], 0.0
        for at in row:
            offsets.append(offset)
            offset += self.items[at].width + APART
        pools: list[tuple[float, float, int]] = []  # mean, weight, number of items
        for wish, weight, offset in zip(wishes, weights, offsets, strict=True):
            mean, number = wish - offset, 1
            while pools and pools[-1][0] > mean:
                other, more, count = pools.pop()
                mean = (mean * weight + other * more) / (weight + more)
                weight, number = weight + more, number + count
            pools.append((mean, weight, number))
        means = [mean for mean, _, number in pools for _ in range(number)]
        for at, mean, offset in zip(row, means, offsets, strict=True):
            self.left[at] = mean + offset


class _Division:
    """The rows of a grid, in one or more columns."""

    def __init__(self, grid: _Grid):
        self.grid = grid
        rows, items = grid.rows, grid.items
        self.between: list[list[Edge]] = [[] for _ in rows]
        for chain in grid.chains:
            for upper, lower in zip(chain, chain[1:], strict=False):
                self.between[grid.rank[upper]].append((upper, lower))
        self.heights = [max(items[at].height for at in row) for row in rows]
        self.gaps = [GAP + min(36.0, max((abs(self._slant(edge)) for edge in edges), default=0.0)
                               / 12) for edges in self.between]
        self.columns = self._divided()
        self.column_of = [number for number, rows in enumerate(self.columns) for _ in rows]
        self.tops, self.shifts = [0.0] * len(rows), list[float]()
        self.width = self.height = self.right = 0.0
        self.tracks: dict[int, int] = {}
        self._set_columns()

    def _slant(self, edge: Edge) -> float:
        upper, lower = edge
        grid = self.grid
        return (grid.left[upper] + grid.items[upper].leave - grid.left[lower]
                - grid.items[lower].enter)

    def _bounds(self, rows: Iterable[int]) -> tuple[float, float]:
        """The least and greatest abscissa of some rows."""
        grid = self.grid
        members = [at for row in rows for at in grid.rows[row]]
        return (min((grid.left[at] for at in members), default=0.0),
                max((grid.left[at] + grid.items[at].width for at in members), default=0.0))

    def _divided(self) -> list[range]:
        """Consecutive rows, a column each."""
        count = len(self.heights)
        height = sum(self.heights) + sum(self.gaps)
        left, right = self._bounds(range(count))
        columns = round(math.sqrt(ASPECT * height / max(1.0, right - left + 4 * APART)))
        if height <= TALL or columns < 2 or max(self.heights) > height / 2:
            return [range(count)]
        aim, cuts, reached = height / columns, [0], 0.0
        best: tuple[float, int] | None = None
        for row in range(count - 1):
            reached += self.heights[row] + self.gaps[row]
            height -= self.heights[row] + self.gaps[row]
            crossing = len({edge[0] for edge in self.between[row]})
            if min(reached, height) > 0.4 * aim and crossing <= CROSSING:
                cost = 0.25 * crossing + abs(reached / aim - 1)
                if best is None or cost < best[0]:
                    best = cost, row + 1
            if reached > 1.2 * aim and best is not None:
                cuts.append(best[1])
                reached = sum(self.heights[at] + self.gaps[at] for at in range(best[1], row + 1))
                best = None
        if best is not None and reached > 1.2 * aim:
            cuts.append(best[1])
        return [range(*pair) for pair in zip(cuts, [*cuts[1:], count], strict=True)]

    def _set_columns(self) -> None:
        """Tops of rows, and how far a column's items move to the right."""
        crossing = [{upper for upper, _ in self.between[rows[-1]]} for rows in self.columns[:-1]]
        for uppers in crossing:
            order = sorted(uppers, key=lambda upper: -self.grid.left[upper])
            self.tracks.update((upper, number) for number, upper in enumerate(order))
        start = MARGIN + max((len(uppers) * TRACK + GAP for uppers in crossing), default=0.0)
        self.gutters, self.floors = list[float](), list[float]()
        right = 0.0
        for rows, uppers in zip(self.columns, [*crossing, set[int]()], strict=True):
            left, end = self._bounds(rows)
            self.shifts.append(right + MARGIN - left)
            top = start
            for row in rows:
                self.tops[row] = top
                top += self.heights[row] + self.gaps[row]
            self.floors.append(top - self.gaps[rows[-1]] if rows else top)
            right += 2 * MARGIN + end - left
            self.gutters.append(right)
            right += len(uppers) * TRACK
            self.height = max(self.height, self.floors[-1] + len(uppers) * TRACK + MARGIN)
        self.width = right

    def placement(self, count: int) -> Arrangement:
        grid = self.grid
        corners = [(grid.left[at] + self.shifts[self.column_of[grid.rank[at]]],
                    self.tops[grid.rank[at]]) for at in range(count)]
        return Arrangement(corners, [self._way(chain) for chain in grid.chains], self.width,
                         self.height)

    def _way(self, chain: Sequence[int]) -> list[Point | None]:
        grid, way = self.grid, list[Point | None]()
        for upper, lower in zip(chain, chain[1:], strict=False):
            row, column = grid.rank[upper], self.column_of[grid.rank[upper]]
            x = grid.left[upper] + grid.items[upper].leave + self.shifts[column]
            bottom = self.tops[row] + self.heights[row]
            other = self.column_of[row + 1]
            to = grid.left[lower] + grid.items[lower].enter + self.shifts[other]
            way += [(x, self.tops[row] + grid.items[upper].height), (x, bottom)]
            if other == column:
                way += [None, (to, self.tops[row + 1])]
            else:
                track = TRACK * (self.tracks[upper] + 1)
                along, floor = self.gutters[column] + track - TRACK, self.floors[column] + track
                ceiling = MARGIN + track
                way += [(x, floor), (along, floor), (along, ceiling), (to, ceiling),
                        (to, self.tops[row + 1])]
        return way

"""How a product of matrices is divided into jobs, and in which way its factors are read.

Plans are compared by a rough count of cycles.  What a sum is, bit by bit, follows from the way and
from the number of terms; the division into jobs changes none.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product as pairs

from ..jit import inlined
from ..simd.gemm_microkernel import DOT_ROWS, DOTS, HEIGHTS, ROWS, VECTORS, pitch_of

__all__ = ["ACROSS", "DEPTH", "LEFT", "RIGHT", "STRIPS", "TOGETHER", "Plan", "part_of", "planned",
           "ways"]

DEPTH = 384
"""Most terms of a sum at a time: a strip of them takes 24 KB, less than an L1 cache."""
STRIPS = 96
"""Most strips of a job: 2 MB."""
TOGETHER = 8
"""Panels that stay in the L2 cache while strips meet them: up to 400 KB.  Where rows lie along they
are packed together, so that a row is read by the kilobyte."""
FAR = 1024
"""Most terms of dot products at a time: those of a tile's rows and columns fit an L1 cache."""
NEAR = 1 << 17
"""Numbers of a factor that is read in place: half a megabyte, a part of an L2 cache."""
FEW = 32
"""Rows that dot products are faster for even if the right factor, which every three of them read
again, is not near."""
LEFT, RIGHT, ACROSS = 1, 2, 4
"""Ways: factors that are read in place; both of them by dot products."""


@inlined
def part_of(depth, most):
    """Terms of a sum at a time: as few parts as `most` terms allow, of one length."""
    return -(-depth // -(-depth // most))


@dataclass(frozen=True)
class Plan:
    """How a product of a stack of matrices is divided into jobs of `high` rows, `wide` columns."""

    rows: int
    depth: int
    columns: int
    stack: int
    width: int
    high: int
    wide: int
    way: int = 0

    @property
    def jobs(self) -> int:
        return self.stack * -(-self.rows // self.high) * -(-self.columns // self.wide)

    @property
    def part(self) -> int:
        """Terms of a sum at a time; so few rows that none is read twice may have all of them."""
        most = DEPTH
        if self.way & ACROSS:
            most = self.depth if self.rows <= DOT_ROWS else FAR
        return part_of(self.depth, most)

    @property
    def work(self) -> int:
        """Numbers of scratch of a worker: its strips, panels, a tile with its bias and scale."""
        if self.way & ACROSS:
            return self.width + (1 + DOT_ROWS) * DOTS
        panel = VECTORS * self.width
        strips = 1 if self.way & LEFT else -(-min(self.high, self.rows) // ROWS)
        across = panel if self.way & RIGHT else min(TOGETHER * panel, self.columns + panel)
        edge = (1 + ROWS) * panel + self.width
        return self.part * (strips * pitch_of(self.width) + across) + edge

    def cost(self, workers: int) -> float:
        """About how many cycles the slowest worker takes."""
        high, wide = min(self.high, self.rows), min(self.wide, self.columns)
        parts = -(-self.depth // self.part)
        if self.way & ACROSS:
            tiles = -(-high // DOT_ROWS) * -(-wide // DOTS)
            job = tiles * (self.depth / self.width * DOT_ROWS * DOTS / 2 + parts * SUM)
        else:
            strips, rest = divmod(high, ROWS)
            lines = strips * ROWS + (next(h for h in reversed(HEIGHTS) if h >= rest) if rest else 0)
            panels, tiles = -(-wide // (VECTORS * self.width)), strips + (rest > 0)
            turned = high * (not self.way & LEFT) + wide * (not self.way & RIGHT)
            job = self.depth * (panels * lines + PACK * turned) + panels * tiles * parts * CALL
        return -(-self.jobs // workers) * job

    @property
    def edges(self) -> float:
        """About how many cycles all workers together take for columns that do not fill a panel and
        rows that do not fill a strip, besides `cost`, which a division into jobs does not save."""
        if self.way & ACROSS:
            return 0
        partial = self.columns % (VECTORS * self.width) > 0
        each = self.depth * (EDGE * partial + REST * (self.rows % ROWS > 0))
        return self.stack * (each + -(-self.rows // ROWS) * TILE * partial)

    @property
    def reads(self) -> int:
        """Numbers of both factors that all jobs read: the larger factor is rather divided.  So each
        worker meets the same weights again in every pass, and has them in its own cache."""
        down, across = -(-self.rows // self.high), -(-self.columns // self.wide)
        return self.stack * self.depth * (self.rows * across + self.columns * down)


CALL, SUM, PACK = 50, 80, 1.2
"""Cycles of a tile's prologue and epilogue, of that of dot products, of packing a number that lies
across."""
EDGE, REST, TILE = 15, 5, 1000
"""And for each term to pack columns that do not fill a panel, rows that do not fill a strip; for a
strip to store such columns."""


def planned(rows: int, depth: int, columns: int, stack: int, width: int, workers: int,
            way: int = 0) -> Plan:
    """The division of least cost, of these the one into fewest jobs, of these the one that reads
    least; it changes no bit of what comes out."""
    def sizes(total: int, unit: int, least: int) -> set[int]:
        units = -(-total // unit)
        shares = [1, *(workers * part // 2 for part in (1, 2, 3, 4, 8))]
        counts = {max(least, min(units, share)) for share in shares}
        return {-(-units // count) * unit for count in counts}

    if way & ACROSS:
        highs, wides = sizes(rows, DOT_ROWS, 1), sizes(columns, DOTS, 1)
    else:
        least = -(-rows // (ROWS * STRIPS))
        highs = sizes(rows, ROWS, least) | sizes(rows, HEIGHTS[-1], least)
        wides = sizes(columns, VECTORS * width, 1)
    plans = [Plan(rows, depth, columns, stack, width, *size, way) for size in pairs(highs, wides)]
    return min(plans, key=lambda plan: (plan.cost(workers), plan.jobs, plan.reads, plan.high,
                                        plan.wide))


def ways(rows: int, depth: int, columns: int, width: int, order: str) -> int:
    """How factors are read that lie in this order; it depends on nothing else, as sums do on it.

    order: of both factors, C where numbers lie along rows and F where they lie along columns, or P
    for a packed one; `room` says more.
    """
    best = LEFT * (order[0] == "F" and rows * depth <= NEAR)
    best |= RIGHT * (order[1] == "C" and depth * columns <= NEAR and columns >= VECTORS * width)
    across = order == "CF" and (rows <= FEW or depth * columns <= NEAR)
    found = [best, ACROSS] if across else [best]
    return min(found, key=lambda way: Plan(rows, depth, columns, 1, width, rows, columns,
                                           way).cost(1))

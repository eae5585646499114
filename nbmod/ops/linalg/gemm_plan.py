"""Blocking of a matrix product: block sizes, and how the operands are read.

Names follow BLIS: C is M x N, the sums have K terms; a job computes an MC x NC block of C, KC terms
at a time, by micro-tiles of MR x NR.  Candidate plans are compared by a rough count of CPU cycles.
The rounding of a sum depends on the method and on K only, never on MC and NC.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from ..jit import inlined
from ..simd.gemm_microkernel import DOT_MR, DOT_NR, MR, NR_VECTORS, TILE_ROWS, packed_mr

__all__ = ["A_IN_PLACE", "B_IN_PLACE", "DOT_PRODUCTS", "KC", "L2_PANELS", "MC_STRIPS", "GemmPlan",
           "Start", "GemmStrides", "choose_method", "plan_gemm", "split_evenly"]

KC = 384
"""Most terms of a sum at a time: a packed strip takes 24 KB, less than an L1 cache."""
MC_STRIPS = 96
"""Most strips of MR rows in a block: 2 MB."""
L2_PANELS = 8
"""Packed panels that stay in the L2 cache while strips of A pass: up to 400 KB.  Panels of a
row-major B are packed together, so that its rows are read by the kilobyte."""
DOT_KC = 1024
"""Most terms of dot products at a time: the rows of a tile fit the L1 cache."""
IN_PLACE_ELEMENTS = 1 << 17
"""Most elements of an operand that is read in place: 512 KB, a part of an L2 cache."""
DOT_MAX_M = 32
"""Most rows for which dot products are faster even if B, which every three rows read again, does
not fit the L2 cache."""
A_IN_PLACE, B_IN_PLACE, DOT_PRODUCTS = 1, 2, 4
"""Bits of a method: operands that are not packed; both are read in place, by dot products."""

PLANS = 4096
"""Most plans that are remembered: a product in eager mode is planned at every call, 0.1 ms."""

TILE_CYCLES, DOT_CYCLES, PACK_CYCLES = 50, 80, 1.2
"""Prologue and epilogue of a micro-tile, of one of dot products; to pack an element."""
EDGE_COLUMN_CYCLES, EDGE_ROW_CYCLES, EDGE_TILE_CYCLES = 15, 5, 1000
"""For each term, to pack columns that do not fill a panel, or rows that do not fill a strip; to
store an incomplete micro-tile."""


class Start(NamedTuple):
    """Offsets of one matrix of a stack in the flat operands."""

    a: int
    b: int
    c: int


class GemmStrides(NamedTuple):
    """In elements.  Of a packed B, `b_row` is the distance of panels and `b_column` is 0."""

    a_row: int
    a_column: int
    b_row: int
    b_column: int
    c_row: int


@inlined
def split_evenly(size, most):
    """The part size that divides `size` into the fewest nearly equal parts of at most `most`."""
    return -(-size // -(-size // most))


@dataclass(frozen=True)
class GemmPlan:
    """Blocking of a stack of products; `lanes` is the number of elements of a vector register."""

    m: int
    k: int
    n: int
    stack: int
    lanes: int
    mc: int
    nc: int
    method: int = 0

    @property
    def jobs(self) -> int:
        return self.stack * -(-self.m // self.mc) * -(-self.n // self.nc)

    @property
    def kc(self) -> int:
        """Terms of a sum at a time; dot products of few rows read nothing twice and take all."""
        most = KC
        if self.method & DOT_PRODUCTS:
            most = self.k if self.m <= DOT_MR else DOT_KC
        return split_evenly(self.k, most)

    @property
    def workspace(self) -> int:
        """Elements for each worker: packed strips and panels, and an edge tile with its bias and
        scale."""
        if self.method & DOT_PRODUCTS:
            return self.lanes + (1 + DOT_MR) * DOT_NR
        nr = NR_VECTORS * self.lanes
        strips = 1 if self.method & A_IN_PLACE else -(-min(self.mc, self.m) // MR)
        columns = nr if self.method & B_IN_PLACE else min(L2_PANELS * nr, self.n + nr)
        edge = (1 + MR) * nr + self.lanes
        return self.kc * (strips * packed_mr(self.lanes) + columns) + edge

    def cost(self, workers: int) -> float:
        """Estimated cycles of the slowest worker."""
        mc, nc = min(self.mc, self.m), min(self.nc, self.n)
        passes = -(-self.k // self.kc)
        if self.method & DOT_PRODUCTS:
            tiles = -(-mc // DOT_MR) * -(-nc // DOT_NR)
            job = tiles * (self.k / self.lanes * DOT_MR * DOT_NR / 2 + passes * DOT_CYCLES)
        else:
            strips, tail = divmod(mc, MR)
            rows = strips * MR + (next(h for h in reversed(TILE_ROWS) if h >= tail) if tail else 0)
            panels, tiles = -(-nc // (NR_VECTORS * self.lanes)), strips + (tail > 0)
            packed = mc * (not self.method & A_IN_PLACE) + nc * (not self.method & B_IN_PLACE)
            job = self.k * (panels * rows + PACK_CYCLES * packed)
            job += panels * tiles * passes * TILE_CYCLES
        return -(-self.jobs // workers) * job

    @property
    def edge_cost(self) -> float:
        """Estimated cycles of all workers for incomplete panels and strips, which `cost` leaves out
        because they are the same for every blocking."""
        if self.method & DOT_PRODUCTS:
            return 0
        partial = self.n % (NR_VECTORS * self.lanes) > 0
        each = self.k * (EDGE_COLUMN_CYCLES * partial + EDGE_ROW_CYCLES * (self.m % MR > 0))
        return self.stack * (each + -(-self.m // MR) * EDGE_TILE_CYCLES * partial)

    @property
    def traffic(self) -> int:
        """Elements of both operands that all jobs read.  The least divides the larger operand, so
        a worker reads the same weights in every pass and keeps them in its own cache."""
        down, across = -(-self.m // self.mc), -(-self.n // self.nc)
        return self.stack * self.k * (self.m * across + self.n * down)


@lru_cache(PLANS)
def plan_gemm(m: int, k: int, n: int, stack: int, lanes: int, workers: int, method: int = 0
              ) -> GemmPlan:
    """The blocking of least cost, then of fewest jobs, then of least memory traffic."""
    def sizes(total: int, unit: int, least: int) -> set[int]:
        units = -(-total // unit)
        shares = [1, *(workers * part // 2 for part in (1, 2, 3, 4, 8))]
        counts = {max(least, min(units, share)) for share in shares}
        return {-(-units // count) * unit for count in counts}

    if method & DOT_PRODUCTS:
        mcs, ncs = sizes(m, DOT_MR, 1), sizes(n, DOT_NR, 1)
    else:
        least = -(-m // (MR * MC_STRIPS))
        mcs = sizes(m, MR, least) | sizes(m, TILE_ROWS[-1], least)
        ncs = sizes(n, NR_VECTORS * lanes, 1)
    plans = [GemmPlan(m, k, n, stack, lanes, mc, nc, method) for mc, nc in product(mcs, ncs)]
    return min(plans, key=lambda plan: (plan.cost(workers), plan.jobs, plan.traffic, plan.mc,
                                        plan.nc))


@lru_cache(PLANS)
def choose_method(m: int, k: int, n: int, lanes: int, order: str) -> int:
    """How operands are read.  The choice depends on these arguments only, as rounding depends on
    the method.

    order: of both operands, C for row-major, F for column-major, P for packed.
    """
    packed = A_IN_PLACE * (order[0] == "F" and m * k <= IN_PLACE_ELEMENTS)
    packed |= B_IN_PLACE * (order[1] == "C" and k * n <= IN_PLACE_ELEMENTS
                            and n >= NR_VECTORS * lanes)
    dots = order == "CF" and (m <= DOT_MAX_M or k * n <= IN_PLACE_ELEMENTS)
    methods = [packed, DOT_PRODUCTS] if dots else [packed]
    return min(methods, key=lambda method: GemmPlan(m, k, n, 1, lanes, m, n, method).cost(1))

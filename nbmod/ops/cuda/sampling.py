"""Random numbers are drawn on the host, so a seed gives the same ones on every device."""

from __future__ import annotations

from ..sampling import RandomRandint, _Filled
from .creation import made_on_host
from .launch import on_gpu

for _op in (_Filled, RandomRandint):
    on_gpu(_op, made_on_host)

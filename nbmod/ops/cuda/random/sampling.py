"""Sampling: the host draws, so that a seed gives the same values on every device."""

from __future__ import annotations

from ...random.sampling import RandomRandint, _Filled, _Like, _Sampled
from ..runtime.launch import on_gpu
from ..tensor.creation import computed_on_host, made_on_host

on_gpu((_Filled, RandomRandint, _Like), made_on_host)
on_gpu(_Sampled, computed_on_host)

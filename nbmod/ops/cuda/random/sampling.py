"""Sampling: the host draws, so that a seed gives the same values on every device."""

from __future__ import annotations

from ...dispatch import implements
from ...random.sampling import RandomRandint, _Filled, _Like, _Sampled
from ..tensor.creation import computed_on_host, made_on_host

implements((_Filled, RandomRandint, _Like), "cuda", made_on_host)
implements(_Sampled, "cuda", computed_on_host)

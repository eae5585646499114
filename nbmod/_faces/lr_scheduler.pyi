# Written by `python docs/generate_stubs.py`.
from nbmod.lr_scheduler import CosineScheduler as CosineScheduler
from nbmod.lr_scheduler import FactorScheduler as FactorScheduler
from nbmod.lr_scheduler import LRScheduler as LRScheduler
from nbmod.lr_scheduler import MultiFactorScheduler as MultiFactorScheduler
from nbmod.lr_scheduler import PolyScheduler as PolyScheduler

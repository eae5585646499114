# Written by `python docs/generate_stubs.py`.
from nbmod.compat.misc import FactorScheduler as FactorScheduler
from nbmod.compat.misc import LearningRateScheduler as LearningRateScheduler

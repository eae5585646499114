# Written by `python docs/generate_stubs.py`.
from nbmod.misc import FactorScheduler as FactorScheduler
from nbmod.misc import LearningRateScheduler as LearningRateScheduler

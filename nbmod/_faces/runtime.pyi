# Written by `python docs/generate_stubs.py`.
from nbmod.runtime import Feature as Feature
from nbmod.runtime import Features as Features
from nbmod.runtime import ImplementationRow as ImplementationRow
from nbmod.runtime import Implementations as Implementations
from nbmod.runtime import feature_list as feature_list
from nbmod.runtime import implementations as implementations

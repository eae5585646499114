# Written by `python docs/generate_stubs.py`.
from nbmod.runtime import Feature as Feature
from nbmod.runtime import Features as Features
from nbmod.runtime import feature_list as feature_list

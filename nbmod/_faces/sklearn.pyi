# Written by `python docs/generate_stubs.py`.
from nbmod.sklearn import ModuleClassifier as ModuleClassifier
from nbmod.sklearn import ModuleRegressor as ModuleRegressor

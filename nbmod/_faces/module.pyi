# Written by `python docs/generate_stubs.py`.
from nbmod.module import BaseModule as BaseModule
from nbmod.module import BucketingModule as BucketingModule
from nbmod.module import DetModule as DetModule
from nbmod.module import Module as Module
from nbmod.module import PythonLossModule as PythonLossModule
from nbmod.module import PythonModule as PythonModule
from nbmod.module import SequentialModule as SequentialModule

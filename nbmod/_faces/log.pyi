# Written by `python docs/generate_stubs.py`.
from nbmod.core.log import CRITICAL as CRITICAL
from nbmod.core.log import DEBUG as DEBUG
from nbmod.core.log import ERROR as ERROR
from nbmod.core.log import INFO as INFO
from nbmod.core.log import NOTSET as NOTSET
from nbmod.core.log import WARNING as WARNING
from nbmod.core.log import getLogger as getLogger
from nbmod.core.log import get_logger as get_logger

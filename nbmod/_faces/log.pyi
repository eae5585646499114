# Written by `python docs/generate_stubs.py`.
from nbmod.log import CRITICAL as CRITICAL
from nbmod.log import DEBUG as DEBUG
from nbmod.log import ERROR as ERROR
from nbmod.log import INFO as INFO
from nbmod.log import NOTSET as NOTSET
from nbmod.log import WARNING as WARNING
from nbmod.log import getLogger as getLogger
from nbmod.log import get_logger as get_logger

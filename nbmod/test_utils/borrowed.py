"""Modules and names that scripts take by `from mxnet.test_utils import *`.

MXNet's module has no `__all__`, so that a star import also brings what the module itself imports:
`mx`, `np`, `os` and others.  Scripts rely on it.
"""

import bz2
import errno
import gzip
import json
import logging
import numbers
import os
import platform
import struct
import sys
import time
import traceback
import zipfile
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np
import numpy.random as rnd
import numpy.testing as npt

import nbmod as mx

from ..compat.util import getenv, setenv, use_np
from ..context import Context, current_context
from ..ndarray import array
from ..symbol import Symbol

__all__ = ["Context", "OrderedDict", "Symbol", "array", "bz2", "contextmanager", "current_context",
           "errno", "getenv", "gzip", "json", "logging", "mx", "np", "npt", "numbers", "os",
           "platform", "rnd", "setenv", "struct", "sys", "time", "traceback", "use_np", "zipfile"]

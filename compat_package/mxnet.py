"""MXNet 1.x, as nbmod provides it (the distribution nbmod-mxnet)."""

import sys

from nbmod.compat import become_mxnet

become_mxnet(sys.modules[__name__])
del become_mxnet, sys

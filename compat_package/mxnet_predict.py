"""The predictor of MXNet's amalgamation, as nbmod provides it."""

import sys

from nbmod import mxnet_predict

sys.modules[__name__] = mxnet_predict

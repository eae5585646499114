"""Makes the environment of MXNet: `python -m tests.oracle.setup`, before nbmod is installed."""

from __future__ import annotations

import sys

from bench import mxnet_environment

if __name__ == "__main__":
    sys.exit(mxnet_environment.main())

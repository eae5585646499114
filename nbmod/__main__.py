"""`python -m nbmod`."""

import sys

from .cli.main import main

sys.exit(main())

"""nbmod's tests: `cases` holds the op samples, `oracle` the judge (real MXNet in its own venv)."""

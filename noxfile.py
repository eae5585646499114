"""Tests on every supported Python, and on the oldest supported numpy and numba: `nox`.

    nox -s tests-3.12            one Python
    nox -s oldest                the oldest versions of the dependencies
    nox -s interpreted           coverage, with kernels as Python functions
    nox -s tests -- tests/ops    a part of the tests
"""

import nox

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
PARALLEL = ("-n", "2", "--dist", "loadgroup")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The tests, with the newest dependencies."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "pytest", *PARALLEL, *session.posargs)


@nox.session
def interpreted(session: nox.Session) -> None:
    """Coverage, with kernels as Python functions."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.interpreted", *PARALLEL, *session.posargs)


@nox.session(python="3.10")
def oldest(session: nox.Session) -> None:
    """The tests, with the oldest dependencies that setup.cfg allows."""
    session.install("-e", ".[test]", "numpy==1.24.*", "numba==0.61.*")
    session.run("python", "-m", "pytest", *PARALLEL, *session.posargs)

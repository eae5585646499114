"""The figures of docs/reliability.md, and the programs that measure them.

Each module measures one promise. `python -m tests.reliability` prints the table;
`test_reliability.py` runs the short form of every measurement.
"""

"""The command line, `python -m nbmod`: a module for each command.

Each has `HELP`, `arguments` (what its parser takes) and `run` (what it does; the result is the exit
status).
"""

# Written by `python docs/generate_stubs.py`.

"""Command-line tools beside training: `im2rec`, `rec2idx`, `rec`, `bench`, `warmup`.

Each is a module with `HELP`, `arguments` (what its parser takes) and `run` (what it does; the
result is the exit status).
"""

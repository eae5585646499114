"""A fuzzer of whole graphs: random programs, run in several ways that must agree.

    python -m tests.fuzz --minutes 30          as many programs as fit, in a process for each core
    python -m tests.fuzz --seed 7 --count 1    one program again
    python -m tests.fuzz --mxnet               programs compared with real MXNet
    python -m pytest tests/fuzz                a short form, and everything that was ever found

`program` defines programs, `kinds` their lines, `drawing` draws them, `runs` binds and runs one,
`judge` checks which runs agree and how closely, `company` runs executors together, `memory` with
arrays that others have, too, `training` by a Module, `conversions` in another form, `tape` twice
differentiated, `shrink` minimizes a program that fails and names the pass at fault.
"""

"""A fuzzer of whole graphs: random programs, run in several ways that must agree.

    python -m tests.fuzz --minutes 30          as many programs as fit, in a process for each core
    python -m tests.fuzz --seed 7 --count 1    one program again
    python -m tests.fuzz --mxnet               programs compared with real MXNet
    python -m pytest tests/fuzz                a short form, and everything that was ever found

`program` says what a program is, `kinds` what its lines do, `drawing` how programs are drawn,
`runs` how one is bound and run, `judge` which runs must agree and how closely, `company` what
executors do among others, `shrink` makes a program that fails small and names the pass that is at
fault.
"""

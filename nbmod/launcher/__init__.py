"""Starting the ranks of distributed training, and what a rank tells about itself.

There is a `worker` process for every rank, so none of the files but `script`, which runs the user's
program as `nbmod run` does, imports more of nbmod than errors and the repair of locks after a fork.

    placement.py  which rank a process is, from the environment that `mpiexec` and its like leave
    position.py   where a process is in its training, readable when it has died
    mpiexec.py    MPI's program that starts ranks: its path, kind and command
    worker.py     the process that `mpiexec` starts: it runs `script`, and says how it ended
    script.py     the process of a rank's program
    bond.py       processes that end when the one that started them dies

Begin with `placement.py`.  Imports `base`, `cli.run` and `core.fork`.
"""

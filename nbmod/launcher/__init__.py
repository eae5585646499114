"""Starting the ranks of distributed training, and what a rank tells about itself.

`placement` says which rank a process is, from the environment that `mpiexec` and its like leave;
`position` where it is in its training; `mpiexec` finds MPI's program that starts ranks, which runs
`worker` for each, a small process that runs `script` and survives it to say how it ended.  None of
them imports more of nbmod than its configuration: there is a `worker` for every rank.
"""

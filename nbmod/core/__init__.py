"""Configuration, files, locks and signals: the parts on which every other package builds.

No file imports more of nbmod than `base` and files beside it, but for `serialization`, which writes
sparse arrays and so needs their formats.

    config.py            `CONFIG`: every environment variable that nbmod reads, and numerical modes
    gpus.py              how many GPUs can be used, and their memory
    scope.py             blocks in which a variable, or a default of a thread, is another one
    registry.py          classes by name: `"acc"` or JSON text becomes an object
    shape_semantics.py   the meaning of 0 and () in shapes: unknown (MXNet) or literal (NumPy)
    pytree.py            nested lists of tensors, flattened and restored, for control flow
    fork.py              locks and threads that a forked child gets anew
    interrupts.py        signals, deferred while their exceptions would be lost
    loans.py             things that are used again when the objects that have them are gone
    locks.py             file locks between processes
    collector.py         a pause of Python's cycle collector while many lasting objects are made
    log.py               `get_logger`: one-letter levels, coloured on a terminal
    screen.py            a line of the terminal that is overwritten in place, beside other output
    reprs.py             tables, and parts of the texts by which objects present themselves
    short_tracebacks.py  tracebacks of users' mistakes, without frames of nbmod
    atomic.py            files written whole or not at all, alone or as a set, by a journal
    compressed.py        compressed files, read with bounded memory
    foreign.py           recognition of other libraries' formats, for error messages
    figures.py           matplotlib figures, written to a file
    serialization.py     `.params` files, all versions of MXNet's
    integrity.py         `.sha256` files of checkpoints: written, renewed and verified
    archive_members.py   members of tar and zip archives, read into memory and never unpacked
    model_archive.py     the network, parameters and labels in an archive or beside a checkpoint
    import_paths.py      MXNet's import paths whose modules lie elsewhere or do not exist

Begin with `config.py`.  Imports `base` and `ops`.
"""

"""The distribution `nbmod-kernels`: kernels compiled ahead for CPU levels, in one wheel.

    python -m kernels                          all levels of this machine's architecture
    python -m kernels --level x86-64-v3        one of them
    pip install dist/nbmod_kernels-*.whl

A process per core and level makes a dry run of standard networks (`rehearsal`): kernels are only
recorded, with the types of their arguments, so that a machine can build for levels that it cannot
run.  It then compiles them into a cache of its own, which becomes a folder of the wheel (`wheel`).
"""

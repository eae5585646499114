"""Binding and running: from a symbol and shapes to steps, memory and the loop over them.

Everything is decided when a symbol is bound: a run calls prepared functions in order, and infers,
plans and allocates nothing.  Networks with sparse arrays, and first runs with NumPy forms, are the
exceptions: an interpreter runs them node by node.

    bind.py               the arguments of `bind`, `simple_bind` and `reshape` as dicts by name
    pipeline.py           `compile_graph`: from a graph to a `CompiledGraph`, one line for each pass
    arena.py              memory: an arena for each context, which executors of one model share
    derived_constants.py  values that follow from parameters alone, computed again after a change
    bound_arrays.py       the arrays of a compiled graph, those of workspaces included
    steps.py              `BoundGraph`: an array for every entry, a function for every node
    call_arguments.py     values that users pass to `forward`, `backward` and `copy_params_from`
    interpreter.py        `Interpreter`: runs the nodes of a graph one by one, without a plan
    step_monitor.py       the arrays of every step under MXNet's names, for monitors
    interpreted.py        networks and their gradients as nodes of an interpreter
    bound_region.py       a dense region of a network with sparse arrays, as an executor
    sparse_program.py     the program of networks with sparse arguments or gradients
    programs.py           the program of a binding: planned, sparse or interpreted
    lent_outputs.py       outputs of an executor as arrays of their own, large ones without a copy
    network_call.py       a recorded call of a bound network: one node of the tape
    cached_op.py          `CachedOp`: a network that is bound when it is called
    compile_ahead.py      helper processes that compile the kernels of a bound network
    first_answers.py      runs with NumPy forms until these kernels are there
    sanitizer.py          NBMOD_CHECK: plans verified at bind, memory checked around every step
    cost_model.py         operations and bytes of each step
    debug.py              a compiled graph as a table or a picture: passes, steps, memory plan

Begin with `pipeline.py`.  Imports `base`, `context`, `core`, `executor`, `graph`, `ndarray`, `ops`,
`passes` and `symbol`.
"""

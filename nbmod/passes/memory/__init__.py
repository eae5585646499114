"""The memory plan: which entries share which bytes, and the verifier of that.

The planner sees integers only: entry ids, steps and sizes in bytes.  No file here knows
the ops and arrays of the program.

    plan_step.py     `PlanStep`: one step of a program, as the planner sees it
    memory_plan.py   `MemoryPlan`: the storage of every entry
    alias_concat.py  operands of a concatenation that are written straight into the output
    plan.py          `plan_memory`: storages, then their offsets
    verify.py        `check_plan`: a replay of the program on address ranges

Begin with `plan_step.py`.  Imports `base`, `core` and
`passes.remarks`.
"""

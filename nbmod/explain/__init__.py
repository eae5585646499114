"""Explain: why every step of a plan is as it is.

    facts = executor.explain().facts
    python -m nbmod explain net-symbol.json --shape data=16,3,224,224

    schema.py          the facts as plain values and as JSON
    facts.py           facts from a compiled graph, and from what passes told
    what_if.py         plans that there would be without a pass, with recomputation, and so on
    variants_table.py  what passes are worth, as a table
    step_kernels.py    the kernels that steps call, their source and machine code
    ladder.py          the texts of NBMOD_DEBUG
    advice.py          what to change in a network, and what that changes
    explanation.py     `Explanation`: facts, and answers to questions

Facts are values that are decided at bind; nothing is recorded unless it is asked for.  Begin with
`schema.py`.  Imports `base`, `execution`, `graph`, `ops` and `passes`.
"""

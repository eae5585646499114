"""Explain: why every step of a plan is as it is.

    facts = executor.explain().facts
    python -m nbmod explain net-symbol.json --shape data=16,3,224,224

    schema.py            the facts as plain values
    facts_json.py        facts as JSON, and back
    facts.py             facts from a compiled graph, and from what passes told
    explanation.py       `Explanation`: facts, with a method for each question
    plan_names.py        names that users type as numbers of nodes, tensors, steps and passes
    node_history.py      a node, followed from graph to graph through the passes
    wording.py           `Answer`, and facts in words
    overview.py          a plan at a glance
    pass_differences.py  what each pass changed, as differences of listings
    node_answers.py      what became of a node, and why a pass left it
    memory_answers.py    why a tensor is alive, who shares a storage, what fills the peak
    step_answers.py      what a step does
    plan_comparison.py   what differs between two plans
    what_if.py           plans that there would be without a pass, with recomputation, and so on
    variants_table.py    what passes are worth, as a table
    step_kernels.py      the kernels that steps call, their source and machine code
    run_recorder.py      what every step computes in a run
    failures.py          networks that cannot be bound or run: where, and what is known by then
    ladder.py            the texts of NBMOD_DEBUG
    advice.py            what to change in a network, and what that changes
    html_page.py         the facts as a page: one HTML file, from the files in `page/`
    plan_chart.py        the memory plan as a picture, for documents and for the page
    notebook.py          a plan, and two plans, in notebooks
    reproducer.py        a step by itself, as a script

Facts are values that are decided at bind; nothing is recorded unless it is asked for.  Begin with
`schema.py`.  Imports `base`, `bench.machine_code`, `context`, `core`, `execution`, `graph`,
`ndarray`, `ops`, `passes` and `symbol`.
"""

// The words of plans, as docs/glossary.md explains them (tests/explain/test_page.py compares them).
"use strict";

const WORDS = {
  arena: "One block of memory of a device, in which all intermediate results of a plan have their places. The " +
    "executors of one model share it. nbmod/execution/arena.py",
  "argument, auxiliary state": "Variables of a network are arguments, whose gradients can be asked for, or states, which ops update " +
    "while they run, such as moving averages. nbmod/graph.py",
  bind: "To choose shapes, devices and gradients for a symbol. Everything else is decided then, by compile_graph, " +
    "and nothing later. nbmod/execution/pipeline.py",
  block: "In images of the blocked layout: as many channels as a vector has lanes, stored side by side for each " +
    "pixel. Of an arena: its memory (nbmod/execution/arena.py). nbmod/ops/blocked/layout.py In Gluon: a part of a " +
    "network, with parameters and other blocks, that is called on arrays. nbmod/gluon/base_block.py",
  body: "A graph that a node runs, such as an iteration of a loop or a branch of a condition: Body. " +
    "nbmod/ops/subgraph.py",
  candidate: "An implementation that was considered for a node, with its estimate: Candidate. A Choice keeps the " +
    "chosen one and the others. nbmod/ops/dispatch.py",
  constant: "A value that follows from parameters alone, such as packed weights. It is computed once, and again when " +
    "a parameter has changed: DerivedConstants. nbmod/execution/derived_constants.py",
  context: "The name of a device, cpu(0) or gpu(1): a plain value that touches no hardware. nbmod/context.py",
  entry: "One output of a node: a node and the number of the output. A symbol is a list of entries, and in a Graph " +
    "each has an entry id, by which all facts are indexed. nbmod/graph.py",
  epilogue: "Work on a result while it is still in registers: bias, addition, ReLU. A pass moves the nodes after a " +
    "layer into its epilogue. nbmod/passes/optimize/fuse_epilogue.py",
  estimate: "Whether an implementation applies to given shapes, and its time in nanoseconds on one thread: Estimate. " +
    "nbmod/ops/dispatch.py",
  exact: "A mode in which only those optimizations are used that keep all results bitwise, in a block of exact or " +
    "by NBMOD_EXACT. nbmod/core/config.py",
  fact: "What is known of an entry: a shape, a type, a device. Facts of a graph are lists indexed by entry id, " +
    "and executor.explain() has those of a plan as plain values. nbmod/explain/schema.py",
  held: "A storage is held if it is an output of the network: it has a buffer of its own and lives on after the " +
    "run. nbmod/passes/memory/memory_plan.py",
  implementation: "One way to compute an op or its gradient: a row of the table, under a key such as numba or cuda: " +
    "Implementation. nbmod/ops/dispatch.py",
  "in place": "A result is computed in place if it is written over an input that nothing reads afterwards. " +
    "nbmod/passes/memory/plan.py",
  keeper: "What keeps a storage from being free: a step that reads it, or that it is an output: Keeper. " +
    "nbmod/explain/schema.py",
  kernel: "A function over arrays that is compiled at its first call and kept on disk: Kernel. It gets inputs, " +
    "outputs and scalars, allocates nothing and returns nothing. nbmod/ops/jit.py",
  lane: "One number of a vector register; lanes is how many of a type the host has. nbmod/ops/simd/host.py",
  mirror: "To compute a result again in backward instead of keeping it from forward. nbmod/passes/recompute.py",
  needs: "The tensors that the gradient of an op reads: ograd, inputs, outputs. What nobody needs may be forgotten " +
    "early. nbmod/ops/op.py",
  node: "An op applied to entries, or a variable: Node. nbmod/graph.py",
  "NumPy form": "The definition of an op with NumPy: kernels are compared with it, and it runs where there is no " +
    "compiler. nbmod/ops/numpy_forms/__init__.py",
  op: "An operator with its parameters: a frozen dataclass whose methods are its rules and its arithmetic. OPS " +
    "has its class by name. nbmod/ops/op.py",
  origin: "The node of the symbol on whose behalf a node is there: origin. nbmod/execution/pipeline.py",
  pass: "A function from a graph, and facts about it, to facts or another graph. Those in PASSES can be switched " +
    "off by name. nbmod/passes/switches.py",
  piece: "An entry that is a part of another's memory: an operand of a concatenation, or a slice. " +
    "nbmod/passes/memory/memory_plan.py",
  plan: "Where every result is: the storage of each entry, and the offset of each storage. MemoryPlan. " +
    "nbmod/passes/memory/memory_plan.py",
  remark: "What a pass did to a node or would not do, and the rule that decided: Remark. nbmod/passes/remarks.py",
  roof: "The peak of the arithmetic units, or the bandwidth of a level of memory, which no kernel can exceed; " +
    "measured. nbmod/bench/roofs.py",
  "scratch, workspace": "Temporary arrays of a step, which its op declares (scratch) and the plan places. nbmod/ops/op.py",
  spec: "Shape and type of a tensor before it exists: Spec. The KernelSpec of an elementwise kernel is all that " +
    "its text depends on (nbmod/ops/elementwise/codegen.py). nbmod/ops/op.py",
  step: "A node that is ready to run: a function without arguments, and the arrays that it reads and writes. " +
    "Step; the planner sees a PlanStep (nbmod/passes/memory/plan_step.py). nbmod/execution/steps.py",
  storage: "A piece of memory that entries share, one after another: Storage. MXNet calls the format of an array its " +
    "storage type (nbmod/passes/infer_storage.py). nbmod/passes/memory/memory_plan.py",
  symbol: "A network as a value: a list of entries. nbmod/symbol/symbol.py",
  variable: "A node without an op. nbmod/graph.py",
  variant: "The figures of a plan, or of the plan that there would be without a pass: Variant. " +
    "nbmod/explain/schema.py",
  view: "A result that is its input's memory under another shape; its step does not run. " +
    "nbmod/passes/memory/plan_step.py",
};

/** Words as the page has them, in lower case, and the heading that explains each. */
const HEADINGS = new Map([
  ...Object.keys(WORDS).flatMap(heading => heading.split(", ").map(word => [word.toLowerCase(), heading])),
  ["tensor", "entry"], ["decisions", "remark"], ["operator", "op"], ["passes", "pass"], ["origins", "origin"], ["chosen", "candidate"],
  ["rejected", "candidate"], ["workspaces", "scratch, workspace"], ["recomputation", "mirror"], ["kept", "needs"]]);

/** A text whose first word is a link to its explanation, if there is one. */
function termed(text) {
  if (typeof text !== "string") return text;
  const words = text.split(" ");
  for (const count of [2, 1]) {
    const head = words.slice(0, count).join(" "), heading = HEADINGS.get(head.toLowerCase());
    if (heading && words.length >= count) return [wordLink(heading, head), text.slice(head.length)];
  }
  return text;
}

const wordLink = (heading, text = heading) => h("a", {
  class: "word", href: `#view=words&word=${encodeURIComponent(heading)}`, title: WORDS[heading]}, text);

VIEWS.push({id: "words", title: "Words", fits: () => true, create: (plan, store) => new WordsView(store)});

class WordsView {
  constructor(store) {
    this.store = store;
    this.cards = Object.entries(WORDS).map(([heading, text]) => [heading, h("li", {class: "card"}, h("h2", {}, heading), h("p", {}, text))]);
    this.element = h("div", {class: "column scrolls", tabindex: 0, role: "region", "aria-label": "Words"},
      h("p", {class: "note"}, "The words of plans, with the files that define them; docs/glossary.md has more."),
      h("ul", {class: "cards"}, this.cards.map(([, card]) => card)));
  }

  update() {
    const {word} = this.store;
    for (const [heading, card] of this.cards) card.classList.toggle("chosen", heading === word);
    if (word !== this.shown) this.cards.find(([heading]) => heading === word)?.[1].scrollIntoView({block: "center"});
    this.shown = word;
  }
}

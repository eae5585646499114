// Words: what plans are told in. The sentences are those of docs/glossary.md.
"use strict";

const WORDS = {
  arena: "One block of memory of a device, in which all intermediate results of a plan have their places.",
  block: "In images of the blocked layout: as many channels as a vector has lanes, stored side by side for each pixel.",
  constant: "A value that follows from parameters alone, such as packed weights.",
  entry: "One output of a node: a node and the number of the output.",
  epilogue: "Work on a result while it is still in registers: bias, addition, ReLU.",
  held: "A storage is held if it is an output of the network: it has a buffer of its own and lives on after the run.",
  implementation: "One way to compute an op or its gradient: a row of the table, under a key such as numba or cuda.",
  "in place": "A result is computed in place if it is written over an input that nothing reads afterwards.",
  mirror: "To compute a result again in backward instead of keeping it from forward.",
  node: "An op applied to entries, or a variable.",
  pass: "A function from a graph, and facts about it, to facts or another graph.",
  plan: "Where every result is: the storage of each entry, and the offset of each storage.",
  remark: "What a pass did to a node or would not do, and the rule that decided.",
  roof: "The peak of the arithmetic units, or the bandwidth of a level of memory, which no kernel can exceed; measured.",
  step: "A node that is ready to run: a function without arguments, and the arrays that it reads and writes.",
  storage: "A piece of memory that entries share, one after another.",
  view: "A result that is its input's memory under another shape; its step does not run.",
  workspace: "Temporary arrays of a step, which its op declares (scratch) and the plan places.",
};

VIEWS.push({id: "words", title: "Words", fits: () => true, create: () => new WordsView()});

class WordsView {
  constructor() {
    this.element = h("div", {class: "column scrolls", tabindex: 0, "aria-label": "Words"},
      h("dl", {}, Object.entries(WORDS).map(([word, meaning]) => [h("dt", {}, word), h("dd", {}, meaning)])));
  }

  update() {}
}

/** Headings that are such words say what they mean: "Storage 32", "passes", "workspace". */
function markWords() {
  for (const heading of document.querySelectorAll("main :is(dt, th, h3, caption, .legend li):not([title])")) {
    const text = heading.textContent.toLowerCase().replace(/ \d+$/, "");
    const word = [text, text.replace(/(s)es$|s$/, "$1")].find(each => Object.hasOwn(WORDS, each));
    if (word) heading.title = WORDS[word];
  }
}

new MutationObserver(markWords).observe(document.querySelector("main"), {childList: true, subtree: true});

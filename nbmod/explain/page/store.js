// The selection that all views share, and the list of views.
"use strict";

/**
 * Views, in the order of their tabs; each file of a view adds one:
 *
 *     {id, title, fits(plan), create(plan, store) -> {element, update(), onKey?(event), isWide?}}
 *
 * `update` is called when the selection or the stage has changed and the view is visible; `onKey`
 * tells whether a key was for the view.
 */
const VIEWS = [];

const KINDS = ["step", "node", "entry", "storage"];
const NOTHING = {kind: null, step: null, node: null, entry: null, storage: null};

/**
 * One selected thing, the visible view and the stage of the passes; `#view=memory&storage=12`.
 *
 * `focus` tells what the selected thing is in terms of each kind: a step has a node, outputs and
 * their storage. So each view knows what to highlight.
 */
class Store {
  constructor(plan) {
    this.plan = plan;
    this.view = null;
    this.stage = plan.stages.length - 1;
    this.focus = NOTHING;
    this.word = null;
    this.isPlaying = false;
    this.listeners = [];
    window.addEventListener("hashchange", () => {
      if (location.hash === this.written) return;
      this.focus = NOTHING;
      this.follow(location.hash);
    });
  }

  /** Select a thing; other kinds follow. */
  select(kind, id) { this.change({[kind]: id}); }

  /** Go where a link leads: `#storage=12` keeps the view, `#view=passes` the selection. */
  follow(hash) {
    const values = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
    for (const key of Object.keys(values)) if (!["view", "word"].includes(key)) values[key] = Number(values[key]);
    this.change(values);
  }

  change(values) {
    if (VIEWS.some(view => view.id === values.view)) this.view = values.view;
    if (this.plan.stages[values.stage]) this.stage = values.stage;
    if (values.word in WORDS) this.word = values.word;
    const kind = KINDS.find(each => this.exists(each, values[each]));
    if (kind) this.focus = this.related(kind, values[kind]);
    this.notify();
  }

  clear() {
    this.focus = NOTHING;
    this.notify();
  }

  notify() {
    for (const listener of this.listeners) listener();
    clearTimeout(this.timer);
    if (this.isPlaying) return;
    // Later, for browsers slow down pages that change their address often.
    this.timer = setTimeout(() => {
      this.written = this.hash();
      location.hash = this.written;
    }, 300);
  }

  hash() {
    const {kind} = this.focus;
    return `#view=${this.view}&stage=${this.stage}` + (kind ? `&${kind}=${this.focus[kind]}` : "")
      + (this.view === "words" && this.word ? `&word=${encodeURIComponent(this.word)}` : "");
  }

  exists(kind, id) {
    const {steps, nodes, entries, storages} = this.plan;
    return id !== undefined && {step: steps, node: nodes, entry: entries, storage: storages}[kind][id] !== undefined;
  }

  /** Step, node, entry and storage of a thing. */
  related(kind, id) {
    const {plan} = this;
    let step = null, node = null, entry = null, storage = null;
    if (kind === "storage") {
      storage = id;
      entry = plan.storages[id].entries[0] ?? null;
      step = plan.storages[id].scratch_of;
    }
    if (kind === "entry") entry = id;
    if (entry != null) node = plan.entries[entry].node;
    if (kind === "node") node = id;
    if (kind === "step") step = id;
    if (step != null) node ??= plan.steps[step].node;
    step ??= plan.stepOfNode.get(plan.finalNode(node)) ?? null;
    entry ??= plan.entriesOfNode.get(plan.finalNode(node))?.[0] ?? null;
    if (storage == null && entry != null) storage = plan.entries[entry].storage;
    return {kind, step, node, entry, storage};
  }
}

/** A link that selects a thing. */
const link = (kind, id, text) => h("a", {href: `#${kind}=${id}`}, text);
const stepLink = (plan, step) => link("step", step, `${step} ${plan.steps[step].name}`);
const nodeLink = (plan, node) => link("node", node, plan.nodes[node].name);
const entryLink = (plan, entry) => link("entry", entry, plan.entries[entry].name);
const storageLink = id => link("storage", id, `storage ${id}`);

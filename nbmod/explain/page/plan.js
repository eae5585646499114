// The facts of a plan (see nbmod/explain/schema.py), with what is looked up often.
"use strict";

/** Lists of items by key. */
function grouped(items, keyOf) {
  const groups = new Map();
  items.forEach((item, index) => {
    const key = keyOf(item);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(index);
  });
  return groups;
}

class Plan {
  constructor(facts, command = "") {
    if (facts.schema !== "nbmod.explain") throw new Error("the file has no facts of a plan");
    this.facts = facts;
    this.network = facts.network;
    this.nodes = facts.nodes;
    this.remarks = facts.remarks;
    Object.assign(this, facts.plan);  // entries, storages, steps, constants, memory
    this.failure = facts.failure;
    /** The command that plans the network, if it is known. */
    this.command = command;
    const symbol = {name: "symbol", description: "the network as it was written",
                    graph: facts.graph, outputs: facts.outputs, added: [], removed: [], replaced: []};
    /** The symbol, and the graph after each pass that changed it. */
    this.stages = [symbol, ...facts.passes];
    this.stepOfNode = new Map(this.steps.map((step, index) => [step.node, index]));
    this.entriesOfNode = grouped(this.entries, entry => entry.node);
    this.gradients = grouped(this.steps, step => step.forward);
    this.remarksOfEntry = grouped(this.remarks, remark => remark.entry);
    this.assignSlots();
    this.remarksOfSlot = grouped(this.remarks,
      remark => remark.node == null ? null : this.slotOfNode[remark.node]);
  }

  /** Kernels of the steps whose code is among the facts. */
  get codeOfStep() {
    const {code} = this.facts;
    return this.codes ??= new Map(code?.steps.map(({step, kernels}) => [step, kernels.map(each => code.kernels[each])]));
  }

  /** By entry, its values in the recorded run: {step, values}, the first before all steps; null without a run. */
  get recorded() {
    const {run} = this.facts;
    if (!run) return null;
    if (!this.values) {
      this.values = new Map();
      [run.arrays, ...run.steps].forEach((written, index) => written.forEach(values => {
        if (!this.values.has(values.entry)) this.values.set(values.entry, []);
        this.values.get(values.entry).push({step: index - 1, values});
      }));
    }
    return this.values;
  }

  /** The name of a step, or its number where other steps have the name; quoted for a shell. */
  stepName(index) {
    const {name} = this.steps[index];
    return this.steps.filter(step => step.name === name).length > 1 ? index : name;
  }

  quoted(index) {
    const name = String(this.stepName(index));
    return /^[\w.+-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
  }

  /** Whether a pass inserted a node, which computes none of the symbol. */
  isInserted(node) {
    const {origins, name} = this.nodes[node], parts = name.split("+");
    return this.historyOf(node).some(([, what]) => what === "added") && !origins.some(each => parts.includes(this.nodes[each].name));
  }

  /** Whether a node is the one at which something failed, at whatever stage. */
  isFailed(node) {
    return this.failure?.node != null && this.slotOfNode[node] === this.slotOfNode[this.failure.node];
  }

  get arena() { return Object.values(this.memory.arenas).reduce((sum, each) => sum + each, 0); }

  /** The number of steps that run; views do not. */
  get running() { return this.steps.filter(step => !step.is_view).length; }

  /**
   * Slots: places of nodes in lists, the same in all stages.
   *
   * A node that a pass replaces by another of its name hands its slot on. `slots` are in an order
   * in which inputs precede users: each stage inserts new slots behind the node before them.
   */
  assignSlots() {
    this.slotOfNode = new Array(this.nodes.length);
    let slots = 0;
    const next = [];  // the slot behind each one; the head is the last element's
    const head = -1;
    next[head] = null;
    for (const stage of this.stages) {
      for (const {before, after} of stage.replaced) this.slotOfNode[after] = this.slotOfNode[before];
      let last = head;
      for (const node of stage.graph) {
        if (this.slotOfNode[node] === undefined) {
          this.slotOfNode[node] = slots;
          next[slots] = next[last];
          next[last] = slots++;
        }
        last = this.slotOfNode[node];
      }
    }
    /** Slots in order, and the place of each. */
    this.slots = [];
    for (let slot = next[head]; slot != null; slot = next[slot]) this.slots.push(slot);
    this.placeOfSlot = new Array(slots);
    this.slots.forEach((slot, place) => { this.placeOfSlot[slot] = place; });
    this.nodesOfSlot = Array.from({length: slots}, () => []);
    this.slotOfNode.forEach((slot, node) => this.nodesOfSlot[slot].push(node));
  }

  /** The last node of a slot, of which the plan may know a step. */
  finalNode(node) {
    const nodes = this.nodesOfSlot[this.slotOfNode[node]];
    return nodes[nodes.length - 1];
  }

  /** Remarks about a node, at whatever stage, and about its outputs in memory. */
  remarksOf(node) {
    const ofEntries = (this.entriesOfNode.get(this.finalNode(node)) ?? [])
      .flatMap(entry => this.remarksOfEntry.get(entry) ?? []);
    return [...(this.remarksOfSlot.get(this.slotOfNode[node]) ?? []), ...ofEntries]
      .map(index => this.remarks[index]);
  }

  /** What passes did with a node: [stage, "added" | "replaced" | "removed"]. */
  historyOf(node) {
    const slot = this.slotOfNode[node];
    const isHere = each => this.slotOfNode[each] === slot;
    return this.stages.flatMap((stage, index) => [
      ...(stage.added.some(isHere) ? [[index, "added"]] : []),
      ...(stage.replaced.some(pair => isHere(pair.after)) ? [[index, "replaced"]] : []),
      ...(stage.removed.some(isHere) ? [[index, "removed"]] : [])]);
  }

  /** Where the memory of an entry is, in words. */
  placeOf(entry) {
    if (entry.view_of != null) return `memory of ${this.entries[entry.view_of].name}`;
    if (entry.storage != null) return `storage ${entry.storage}`;
    return {variable: "the caller's array", gradient: "the caller's gradient",
            constant: "a constant", unread: "none: nothing reads it"}[entry.kind] ?? "none";
  }

  /** Storages alive at a step, largest first. */
  aliveAt(step) {
    return this.storages.map((_, index) => index)
      .filter(index => this.storages[index].first <= step
                       && (step <= this.storages[index].last || this.storages[index].held))
      .sort((a, b) => this.storages[b].nbytes - this.storages[a].nbytes || a - b);
  }
}

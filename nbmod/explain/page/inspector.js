// All that is known of the selected thing, with links to what it refers to.
"use strict";

class Inspector {
  constructor(element, plan, store) {
    Object.assign(this, {element, plan, store});
  }

  update() {
    const {kind, step, node, entry, storage} = this.store.focus;
    if (!kind) {
      this.element.replaceChildren(h("h2", {}, "Nothing is selected"), h("p", {class: "hint"},
        "Select a node, a step, a tensor or a storage: every view shows it."), keysHelp());
      return;
    }
    const parts = [this.heading()];
    if (kind === "entry") parts.push(this.tensor(entry));
    if (kind === "storage") parts.push(this.storage(storage));
    if (step != null) parts.push(this.step(step));
    const isFirst = this.store.view === "steps" && step != null;
    if (isFirst) parts.push(this.implementation(step), codeSections(this.plan, step), reproducerSection(this.plan, step));
    if (node != null) parts.push(this.node(node), this.remarks(node));
    if (kind !== "storage" && storage != null) parts.push(this.storage(storage));
    if (step != null) parts.push(isFirst ? null : this.implementation(step), this.bodies(step));
    this.element.replaceChildren(...parts.flat().filter(Boolean));
    this.element.scrollTop = 0;
  }

  heading() {
    const {plan} = this, {kind, step, node, entry, storage} = this.store.focus;
    const name = {step: () => plan.steps[step].name, node: () => plan.nodes[node].name,
                  entry: () => plan.entries[entry].name, storage: () => `storage ${storage}`}[kind]();
    return h("h2", {}, name, " ", h("span", {class: "badge"}, kind === "entry" ? "tensor" : kind));
  }

  step(index) {
    const {plan} = this, step = plan.steps[index];
    const gradients = plan.gradients.get(index) ?? [];
    return section(`Step ${index}`, facts([
      ["name", this.store.focus.kind === "step" ? null : link("step", index, step.name)],
      ["operator", step.op], ["phase", step.phase], ["context", step.context],
      ["operations", step.operations ? countText(step.operations) : "bound by memory"],
      ["moves", bytesText(step.nbytes)],
      ["runs", step.is_view ? "no: its result is in memory already" : null],
      ["gradient of", step.forward == null ? null : stepLink(plan, step.forward)],
      ["gradient", gradients.length ? spaced(gradients.map(each => stepLink(plan, each))) : null],
    ]), this.tensors("Reads", step.reads), this.tensors("Writes", step.writes.filter(each => each != null)),
      step.scratch.length ? h("p", {}, "Workspace: ",
        spaced(step.scratch.map(id => [storageLink(id), ` (${bytesText(plan.storages[id].nbytes)})`]))) : null);
  }

  tensors(title, entries) {
    const {plan} = this;
    return entries.length ? h("div", {}, h("h4", {}, title), h("ul", {}, entries.map(id => {
      const entry = plan.entries[id];
      return h("li", {}, entryLink(plan, id), h("small", {},
        ` ${tensorText(entry.tensor)}, ${bytesText(entry.nbytes)}, `,
        entry.storage == null ? plan.placeOf(entry) : storageLink(entry.storage),
        entry.in_place_of == null ? "" : [", in place of ", entryLink(plan, entry.in_place_of)],
        entry.adds ? ", added to what is there" : ""));
    }))) : null;
  }

  tensor(id) {
    const {plan} = this, entry = plan.entries[id], values = valuesAfter(plan, id, plan.steps.length);
    return section("Tensor", facts([
      ["shape", tensorText(entry.tensor)], ["bytes", `${bytesText(entry.nbytes)} (${countText(entry.nbytes)})`],
      ["kind", entry.kind + (entry.is_output ? ", output" : "")],
      ["memory", entry.storage == null ? plan.placeOf(entry) : storageLink(entry.storage)],
      ["offset", entry.offset || null],
      ["rows", entry.rows > 1 ? `${entry.rows}, ${countText(entry.row_step)} bytes apart` : null],
      ["in place of", entry.in_place_of == null ? null : entryLink(plan, entry.in_place_of)],
      ["values", values ? rangeText(values) : null],
      ["written by", entry.producer == null ? null : stepLink(plan, entry.producer)],
      ["read by", entry.readers.length ? spaced(entry.readers.map(each => stepLink(plan, each))) : "no step"],
    ]));
  }

  storage(id) {
    const {plan} = this, storage = plan.storages[id];
    return section(`Storage ${id}`, h("p", {class: "reason"}, whyAlive(plan, id)), facts([
      ["bytes", `${bytesText(storage.nbytes)} (${countText(storage.nbytes)})`],
      ["address", storage.held ? "a buffer of its own" : countText(storage.offset)],
      ["steps", [link("step", storage.first, storage.first), " to ", link("step", storage.last, storage.last)]],
      ["workspace of", storage.scratch_of == null ? null : stepLink(plan, storage.scratch_of)],
    ]), storage.entries.length ? h("h4", {}, "Tensors in it") : null,
      h("ul", {}, storage.entries.map(each => h("li", {}, entryLink(plan, each),
        h("small", {}, ` ${tensorText(plan.entries[each].tensor)}`)))));
  }

  node(id) {
    const {plan} = this, node = plan.nodes[id], history = plan.historyOf(id);
    return section("Node", facts([
      ["operator", node.op || "variable"],
      ...Object.entries(node.parameters).map(([name, value]) => [h("span", {}, name), value]),
      ["inputs", node.inputs.length ? spaced(node.inputs.map(([each, output]) =>
        [nodeLink(plan, each), output ? `[${output}]` : ""])) : null],
      ["shape", node.outputs.map(tensorText).join(", ")],
      ["origins", spaced(node.origins.filter(each => each !== id).map(each => nodeLink(plan, each)))],
      ["passes", history.length ? h("span", {}, spaced(history.map(([stage, what]) =>
        [`${what} by `, h("a", {href: `#view=passes&stage=${stage}`}, plan.stages[stage].name)]))) : null],
    ]));
  }

  remarks(node) {
    const remarks = this.plan.remarksOf(node);
    return remarks.length ? section("Decisions", h("ul", {class: "remarks"},
      remarks.map(each => remarkItem(this.plan, each)))) : null;
  }

  implementation(index) {
    const {implementation} = this.plan.steps[index];
    return implementation ? section("Implementation", choiceList(implementation)) : null;
  }

  bodies(index) {
    return h("div", {}, this.plan.steps[index].subgraphs.map((body, position) =>
      section(`Body ${position}`, table(`${plural(body.steps.length, "step")} in ${bytesText(body.memory.total)}`,
        ["step", "name", "operator"],
        body.steps.map((step, number) => [String(number), step.name, step.op])))));
  }
}

const section = (title, ...children) => h("section", {"aria-label": title}, h("h3", {}, termed(title)), children);

/** Names and values; those without a value are left out. */
const facts = pairs => h("dl", {}, pairs
  .filter(([, value]) => value != null && value !== "" && !(Array.isArray(value) && !value.length))
  .map(([name, value]) => [h("dt", {}, termed(name)), h("dd", {}, value)]));

/** Items with commas between them. */
const spaced = items => items.flatMap((each, index) => index ? [", ", each] : [each]);

/** Why a storage is not free before the end of its last step. */
function whyAlive(plan, id) {
  const {keeper, first, last} = plan.storages[id];
  const entry = keeper.entry == null ? null : entryLink(plan, keeper.entry);
  const step = keeper.step == null ? null : stepLink(plan, keeper.step);
  const reasons = {
    read: () => [`Alive from step ${first} until step ${last}: `, step, " is the last that reads ", entry, "."],
    output: () => ["Alive after the run: ", entry, " is an output of the network."],
    written: () => ["Alive in step ", step, " only, which writes ", entry, "; nothing reads it."],
    scratch: () => ["Workspace of ", step, ": alive in that step only."],
  };
  return (reasons[keeper.reason] ?? (() => [keeper.reason]))();
}

/** A decision of a pass: verdict, rule, evidence, and where the rule is. */
function remarkItem(plan, remark) {
  const isDone = remark.verdict === "done";
  return h("li", {class: isDone ? "done" : "refused"},
    h("span", {class: "verdict"}, isDone ? "✓ done" : "✗ refused"), " ", h("b", {}, remark.pass_name),
    isDone ? `: ${remark.rule}` : `, since it needs: ${remark.rule}`, facts(Object.entries(remark.evidence)
      .filter(([, value]) => !Array.isArray(value) || value.length)
      .map(([name, value]) => [h("span", {}, name.replaceAll("_", " ")), evidence(plan, value)])),
    h("small", {class: "where"}, remark.where));
}

/** A value of evidence: nodes, tensors and steps are links. */
function evidence(plan, value) {
  if (Array.isArray(value)) return h("span", {}, spaced(value.map(each => evidence(plan, each))));
  if (value && typeof value === "object") {
    const text = value.name + (value.output ? `[${value.output}]` : ""), kind = KINDS.find(each => value[each] != null);
    return kind ? link(kind, value[kind], text) : text;
  }
  return h("span", {}, String(value));
}

/** The implementation that was chosen, and those that were rejected, with estimates. */
function choiceList({op, chosen, rejected}) {
  return h("div", {class: "choice"}, h("p", {class: "op"}, op), h("ul", {},
    chosen ? candidateItem(chosen, "✓ chosen") : h("li", {}, "nothing runs"),
    rejected.map(each => candidateItem(each, "✗ rejected"))));
}

function candidateItem(candidate, verdict) {
  return h("li", {class: verdict.includes("chosen") ? "done" : "refused"},
    h("span", {class: "verdict"}, verdict), " ", h("b", {}, candidate.name),
    candidate.cost == null ? "" : ` ${timeText(candidate.cost)} on one thread, estimated`,
    candidate.why_not ? `: ${candidate.why_not}` : "", " ",
    h("small", {class: "where"}, candidate.source), candidate.parts.map(choiceList));
}

const keysHelp = () => section("Keys", facts([
  ["/", "search by name, shape (16x64x56x56) or bytes (>1MB)"],
  ["1 2 3 …", "views"], ["[ ]", "pass before, pass after"],
  ["↑ ↓ ← →", "move in lists, tabs and the memory view"],
  ["+ − 0", "zoom the memory view"], ["space ← → + −", "play, pause, step and speed in the play view"], ["Esc", "close the search, clear the selection"]]));

// The graph after each pass: a row for each node, which keeps its place from pass to pass.
"use strict";

VIEWS.push({id: "passes", title: "Passes", fits: () => true, create: (plan, store) => new PassesView(plan, store)});

const MARKS = {added: "+", removed: "−", replaced: "~"};
const LANES = 8, LANE_WIDTH = 9, LONGEST_LANE = 40;

class PassesView {
  constructor(plan, store) {
    Object.assign(this, {plan, store, shown: new Map()});
    this.showsParameters = false;
    this.list = new RowList({
      label: "Nodes of the graph", choose: row => this.choose(row), rowClass: row => this.rowClass(row),
      render: row => this.row(row), overlay: (first, last) => this.lanes(first, last)});
    this.list.next = (from, move) => this.nextRow(from, move);
    this.slider = h("input", {type: "range", min: 0, max: plan.stages.length - 1, "aria-label": "Pass",
                              oninput: event => store.change({stage: Number(event.target.value)})});
    this.buttons = plan.stages.map((stage, index) => h("button", {
      type: "button", onclick: () => store.change({stage: index})}, stage.name, " ", changesText(stage)));
    this.told = h("p", {class: "note", role: "status"});
    this.element = h("div", {class: "column"},
      h("div", {class: "bar"}, this.slider,
        h("button", {type: "button", onclick: () => this.nextChange()}, "Next change"),
        h("label", {}, h("input", {type: "checkbox", onchange: event => {
          this.showsParameters = event.target.checked;
          this.shown.clear();
          this.update();
        }}), " parameters")),
      h("div", {class: "chips"}, this.buttons), this.told, this.list.element);
  }

  get stage() { return this.plan.stages[this.store.stage]; }

  /** Slots that have a row: all but those of parameters, whose users tell them. */
  get rows() {
    if (!this.slotRows) {
      const {plan} = this, isFirstInput = new Set(plan.nodes.flatMap(node => node.inputs.length ? [node.inputs[0][0]] : []));
      const isShown = node => plan.nodes[node].op || isFirstInput.has(node);
      this.slotRows = {all: plan.slots, few: plan.slots.filter(slot => plan.nodesOfSlot[slot].some(isShown))};
    }
    return this.showsParameters ? this.slotRows.all : this.slotRows.few;
  }

  /** The stage as rows: nodes in the graph, marks, and lanes of edges; computed once for each stage. */
  get layout() {
    const {stage} = this.store;
    if (!this.shown.has(stage)) this.shown.set(stage, stageLayout(this.plan, this.plan.stages[stage], this.rows));
    return this.shown.get(stage);
  }

  rowClass(row) {
    const {nodes, marks} = this.layout;
    return `pass-row ${marks[row] ?? ""} ${nodes[row] == null ? "absent" : this.plan.isFailed(nodes[row]) ? "failed" : ""}`;
  }

  row(row) {
    const {plan} = this, {nodes, marks} = this.layout;
    const id = nodes[row] ?? (marks[row] === "removed" ? this.removed(row) : null);
    if (id == null) return h("span", {class: "gap"}, "·");
    const node = plan.nodes[id];
    const operators = node.inputs.filter(([each]) => !plan.nodes[each].op).length;
    return [h("span", {class: "mark"}, MARKS[marks[row]] ?? ""),
            h("span", {class: "name"}, node.name),
            h("span", {class: "what"}, node.op || "variable",
              operators && !this.showsParameters ? h("small", {}, ` + ${plural(operators, "variable")}`) : ""),
            h("span", {class: "size"}, tensorText(node.outputs[0]))];
  }

  removed(row) {
    const slot = this.rows[row];
    return this.stage.removed.find(each => this.plan.slotOfNode[each] === slot) ?? null;
  }

  choose(row) {
    const id = this.layout.nodes[row] ?? this.removed(row) ?? this.plan.nodesOfSlot[this.rows[row]][0];
    this.store.select("node", id);
  }

  /** The row to which an arrow key leads: empty ones are passed over. */
  nextRow(from, move) {
    const {nodes, marks} = this.layout, {count} = this.list, direction = Math.sign(move);
    const isShown = row => nodes[row] != null || marks[row] === "removed";
    let row = Math.min(count - 1, Math.max(0, from + move));
    while (row >= 0 && row < count && !isShown(row)) row += direction;
    if (row < 0 || row >= count) {
      row = Math.min(count - 1, Math.max(0, from + move));
      while (row >= 0 && row < count && !isShown(row)) row -= direction;
    }
    return isShown(row) ? row : -1;
  }

  nextChange() {
    const {marks} = this.layout, count = this.list.count;
    for (let away = 1; away <= count; away++) {
      const row = (Math.max(this.list.selected, 0) + away) % count;
      if (marks[row]) return this.choose(row);
    }
  }

  update() {
    const {plan, stage, store} = this;
    this.slider.value = store.stage;
    this.slider.setAttribute("aria-valuetext", stage.name);
    this.buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(index === store.stage)));
    this.told.replaceChildren(h("b", {}, stage.name), `: ${stage.description}. ${plural(stage.graph.length, "node")}`,
      stage.added.length + stage.removed.length + stage.replaced.length ? "; " + [
        ["added", "+"], ["removed", "−"], ["replaced", "~"]].filter(([key]) => stage[key].length)
        .map(([key, mark]) => `${mark} ${stage[key].length} ${key}`).join(", ") : "", ".");
    const {node} = store.focus;
    const selected = node == null ? -1 : this.rows.indexOf(plan.slotOfNode[node]);
    const width = Math.max(0, ...this.layout.lanes.filter(each => each !== undefined)) + 1;
    this.list.element.style.setProperty("--lanes", `${width * LANE_WIDTH + 12}px`);
    this.list.show(this.rows.length, selected);
  }

  /** The edges beside the visible rows. */
  lanes(first, last) {
    const {lanes, readers, nodes} = this.layout, height = row => row * ROW_HEIGHT + ROW_HEIGHT / 2;
    const across = lane => 8 + lane * LANE_WIDTH;
    const picture = svg("svg", {class: "lanes", "aria-hidden": "true", width: LANES * LANE_WIDTH + 8,
                                height: this.list.count * ROW_HEIGHT});
    const chosen = this.list.selected;
    for (let row = Math.max(0, first - LONGEST_LANE); row < last; row++) {
      if (nodes[row] == null || lanes[row] == null) continue;
      const x = across(lanes[row]), isChosen = row === chosen || readers[row].includes(chosen);
      for (const reader of readers[row]) {
        if (reader < first || lanes[reader] == null) continue;
        const end = across(lanes[reader]), y = height(reader);
        const path = `M${x} ${height(row)}V${y - ROW_HEIGHT / 2}` + (
          x === end ? `V${y}` : `C${x} ${y} ${end} ${y - ROW_HEIGHT / 2} ${end} ${y}`);
        picture.append(svg("path", {d: path, class: isChosen && (row === chosen || reader === chosen) ? "chosen" : ""}));
      }
    }
    for (let row = first; row < last; row++) {
      if (nodes[row] == null) continue;
      picture.append(svg("circle", {cx: across(lanes[row] ?? LANES - 1), cy: height(row), r: 3.5,
                                    class: row === chosen ? "chosen" : ""}));
    }
    return picture;
  }
}

/** "+3 −2 ~10", what a pass changed. */
function changesText({added, removed, replaced}) {
  const parts = [["+", added], ["−", removed], ["~", replaced]].filter(([, nodes]) => nodes.length);
  return h("small", {}, parts.map(([mark, nodes]) => `${mark}${nodes.length}`).join(" "));
}

/**
 * Nodes and marks of rows, and lanes for the edges between rows that are near each other.
 *
 * As in the log of a version control system: a node takes the lane of an input that it is the
 * last to read, or the first free one, and keeps it until its own last reader nearby.
 */
function stageLayout(plan, stage, slots) {
  const rowOfSlot = new Map(slots.map((slot, row) => [slot, row]));
  const rowOf = node => rowOfSlot.get(plan.slotOfNode[node]);
  const nodes = new Array(slots.length), marks = new Array(slots.length);
  for (const node of stage.graph) if (rowOf(node) !== undefined) nodes[rowOf(node)] = node;
  for (const node of stage.added) if (rowOf(node) !== undefined) marks[rowOf(node)] = "added";
  for (const node of stage.removed) if (rowOf(node) !== undefined) marks[rowOf(node)] = "removed";
  for (const {after} of stage.replaced) if (rowOf(after) !== undefined) marks[rowOf(after)] = "replaced";

  const isGradient = row => plan.nodes[nodes[row]].op.startsWith("_backward");
  // The gradient view shows what gradients read of the forward pass.
  const hasLane = (from, to) => from < to && to - from <= LONGEST_LANE && nodes[from] != null
    && (to - from === 1 || isGradient(from) === isGradient(to));
  const inputs = nodes.map((node, row) => node == null ? [] : [...new Set(
    plan.nodes[node].inputs.map(([each]) => rowOf(each)))].filter(each => hasLane(each, row)));

  const readers = nodes.map(() => []);
  inputs.forEach((rows, reader) => rows.forEach(row => readers[row].push(reader)));
  const lanes = new Array(slots.length), ends = readers.map((rows, row) => Math.max(row, ...rows));
  const busy = new Array(LANES).fill(-1);  // until which row
  nodes.forEach((node, row) => {
    if (node == null) return;
    const own = inputs[row].find(each => lanes[each] != null && ends[each] === row);
    const lane = own === undefined ? busy.findIndex(until => until < row) : lanes[own];
    if (lane < 0) return;
    lanes[row] = lane;
    busy[lane] = ends[row];
  });
  return {nodes, marks, lanes, readers};
}

// Two plans side by side: steps aligned by name, and what differs.
"use strict";

VIEWS.push({id: "compare", title: "Compare", fits: () => true, create: (plan, store) => new CompareView(plan, store)});

const STATES = {same: "", changed: "≠", moved: "⇅", first: "−", second: "+"};

class CompareView {
  constructor(plan, store) {
    Object.assign(this, {plan, store, other: null, rows: [], shown: [], chosen: -1});
    this.list = new RowList({label: "Steps of both plans", render: row => this.row(row),
                             choose: row => this.choose(row), rowClass: row => `compared ${this.shown[row].state}`});
    this.fault = h("p", {role: "alert"});
    this.totals = h("div", {class: "totals"});
    this.detail = h("div", {class: "detail", tabindex: 0, role: "region", "aria-label": "Differences of the selected step"});
    this.onlyDifferences = h("input", {type: "checkbox", onchange: () => this.update()});
    this.first = h("button", {type: "button", onclick: () => this.firstDifference()}, "First difference");
    this.bound = h("input", {type: "number", value: 0.001, min: 0, step: "any", oninput: () => this.update()});
    this.past = h("button", {type: "button", onclick: () => this.firstPast()}, "First past it");
    this.deviations = h("span", {class: "bar", hidden: true}, h("label", {}, "Values may differ by ", this.bound), this.past);
    this.element = h("div", {class: "column"},
      h("div", {class: "bar"}, h("label", {}, "Compare with ", h("input", {
        type: "file", accept: ".json,.html", onchange: event => this.load(event.target.files[0])})),
        this.first, h("label", {}, this.onlyDifferences, " only differences"), this.deviations),
      h("p", {class: "note"}, "A file of facts (nbmod explain --json) or a page; it may be dropped anywhere."),
      this.fault, this.totals, this.list.element, this.detail);
    const other = factsIn("other");
    if (other) this.take(other);
  }

  /** Read facts or a page that has some. */
  async load(file) {
    try {
      const text = await file.text();
      const facts = text.trimStart().startsWith("<")
        ? factsIn("facts", new DOMParser().parseFromString(text, "text/html")) : JSON.parse(text);
      if (!facts) throw new Error("the page has no facts");
      this.take(facts);
      this.fault.textContent = "";
    } catch (error) {
      this.fault.textContent = `${file.name} cannot be compared: ${error.message}`;
    }
    this.update();
  }

  take(facts) {
    this.other = new Plan(facts);
    this.rows = alignedSteps(this.plan, this.other);
    for (const row of this.rows) row.deviation = deviation(this.plan, row.a, this.other, row.b);
    this.deviations.hidden = !this.rows.some(row => row.deviation != null);
    this.chosen = -1;
    this.totals.replaceChildren(this.totalsTable(), this.passesTable());
  }

  totalsTable() {
    const figures = plan => [["steps that run", plan.running, countText], ["memory", plan.memory.total, bytesText],
      ["arena", plan.arena, bytesText], ["outputs", plan.memory.held, bytesText],
      ["if nothing shared memory", plan.memory.unshared, bytesText]];
    const other = figures(this.other);
    return table("Totals", ["figure", this.plan.network.name, `${this.other.network.name} (other)`, "difference"],
      figures(this.plan).map(([name, value, text], index) => [name, text(value), text(other[index][1]),
        value === other[index][1] ? "none" : (other[index][1] > value ? "+" : "−") + text(Math.abs(other[index][1] - value))]));
  }

  /** Passes that changed the two graphs otherwise. */
  passesTable() {
    const changes = plan => new Map(plan.stages.slice(1).map(stage => [stage.name, changesText(stage).textContent]));
    const [here, there] = [changes(this.plan), changes(this.other)];
    const names = [...new Set([...here.keys(), ...there.keys()])].filter(name => here.get(name) !== there.get(name));
    return table("Passes", ["pass", "here", "other"], names.length
      ? names.map(name => [name, here.get(name) ?? "changed nothing", there.get(name) ?? "changed nothing"])
      : [["all change as many nodes", "", ""]]);
  }

  row(row) {
    const {a, b, state, deviation} = this.shown[row];
    const side = (plan, index) => index == null ? [h("span", {class: "number"}), h("span", {class: "name"})]
      : [h("span", {class: "number"}, index), h("span", {class: "name"}, plan.steps[index].name)];
    return [side(this.plan, a), h("span", {class: "mark", title: state}, STATES[state]), side(this.other, b),
            this.deviations.hidden ? "" : h("span", {class: `size ${this.isPast(this.shown[row]) ? "past" : ""}`},
              deviation == null ? "" : deviation ? deviation.toExponential(0) : "equal")];
  }

  isPast({deviation}) { return deviation != null && deviation > Number(this.bound.value); }

  /** Go to the first step whose values differ by more than the bound. */
  firstPast() {
    const index = this.shown.findIndex(row => this.isPast(row));
    if (index >= 0) this.choose(index);
  }

  choose(row) {
    const chosen = this.shown[row];
    this.chosen = this.rows.indexOf(chosen);
    if (chosen.a == null) this.store.clear();
    else this.store.select("step", chosen.a);
  }

  firstDifference() {
    const index = this.shown.findIndex(row => row.state !== "same");
    if (index >= 0) this.choose(index);
  }

  update() {
    this.past.disabled = !this.rows.some(row => this.isPast(row));
    this.first.disabled = !this.rows.some(row => row.state !== "same");
    this.shown = this.onlyDifferences.checked ? this.rows.filter(row => row.state !== "same") : this.rows;
    const {step} = this.store.focus;
    if (step != null) this.chosen = this.rows.findIndex(row => row.a === step);
    const chosen = this.rows[this.chosen];
    this.list.show(this.shown.length, this.shown.indexOf(chosen));
    this.detail.replaceChildren(...chosen && this.other ? [this.differences(chosen)] : [
      h("p", {class: "hint"}, this.other ? "Select a step." : "No other plan yet.")]);
  }

  differences({a, b, state}) {
    if (b == null || a == null) {
      const [plan, index] = a == null ? [this.other, b] : [this.plan, a];
      return table(`${plan.steps[index].name} is in ${a == null ? "the other" : "this"} plan only`, ["figure", "value"], stepFigures(plan, index));
    }
    const other = stepFigures(this.other, b);
    const rows = stepFigures(this.plan, a).map(([name, value], index) => [name, value, other[index][1]])
      .filter(([, here, there]) => here !== there);
    return table(`${this.plan.steps[a].name}: ${rows.length ? state === "moved" ? "moved, and different" : "different" : state}`,
      ["figure", "here", "other"], rows.length ? rows : [["everything else", "equal", "equal"]]);
  }
}

/**
 * The greatest difference between what a step wrote in two recorded runs, in parts of the largest value.
 *
 * Samples are compared where layouts agree, else ranges; null where a run is not recorded.
 */
function deviation(here, a, there, b) {
  if (!here.recorded || !there.recorded || a == null || b == null) return null;
  const pairs = here.steps[a].writes.map((entry, index) =>
    [valuesAfter(here, entry, a), valuesAfter(there, there.steps[b].writes[index], b)]).filter(([one, two]) => one && two);
  const layout = values => JSON.stringify(values.sample.map(row => row.length));
  return pairs.reduce((most, [one, two]) => {
    const numbers = layout(one) === layout(two) ? [one, two].map(each => each.sample.flat()) : [one, two].map(each => [each.low, each.high, each.mean]);
    if (one.not_finite !== two.not_finite) return Infinity;
    const scale = Math.max(1e-30, ...[one, two].flatMap(each => [Math.abs(each.low ?? 0), Math.abs(each.high ?? 0)]));
    return Math.max(most, ...numbers[0].map((value, index) => Math.abs((value ?? 0) - (numbers[1][index] ?? 0)) / scale));
  }, pairs.length ? 0 : null);
}

/** What of a step is compared, as texts. Addresses are not: they follow from the rest. */
function stepFigures(plan, index) {
  const step = plan.steps[index], name = id => plan.entries[id].name;
  const writes = step.writes.filter(each => each != null);
  const memory = id => {
    const entry = plan.entries[id];
    if (entry.in_place_of != null) return `in place of ${name(entry.in_place_of)}`;
    return entry.storage == null ? plan.placeOf(entry) : entry.adds ? "added to" : "memory of its own";
  };
  return [["operator", step.op], ["runs", step.is_view ? "no" : "yes"],
          ["reads", step.reads.map(name).join(", ")],
          ["writes", writes.map(id => `${name(id)} ${tensorText(plan.entries[id].tensor)}`).join(", ")],
          ["memory", writes.map(memory).join(", ")],
          ["workspace", bytesText(sum(step.scratch, id => plan.storages[id].nbytes))],
          ["operations", countText(step.operations)], ["moves", bytesText(step.nbytes)],
          ["implementation", step.implementation?.chosen?.name ?? "none"],
          ["parameters", step.implementation?.op ?? ""]];
}

/** Rows of steps of equal names: {a, b, state}; a step that only one plan has is beside nothing. */
function alignedSteps(here, there) {
  const places = new Map(there.steps.map((step, index) => [step.name, index]));
  const partners = here.steps.map(step => places.get(step.name));
  const inOrder = longestIncreasing(partners);
  const taken = new Set(partners);
  const rows = [];
  let next = 0;
  const fill = end => {
    for (; next < end; next++) if (!taken.has(next)) rows.push({a: null, b: next, state: "second"});
  };
  partners.forEach((b, a) => {
    if (b === undefined) return rows.push({a, b: null, state: "first"});
    if (inOrder.has(a)) fill(b);
    const [one, two] = [stepFigures(here, a), stepFigures(there, b)];
    const isEqual = one.every(([, value], index) => value === two[index][1]);
    rows.push({a, b, state: !inOrder.has(a) ? "moved" : isEqual ? "same" : "changed"});
  });
  fill(there.steps.length);
  return rows;
}

/** Places of a longest increasing subsequence; undefined values are left out. */
function longestIncreasing(values) {
  const tails = [], before = [];  // tails[n]: the place of the least value that ends n + 1 ones
  values.forEach((value, place) => {
    if (value === undefined) return;
    let low = 0, high = tails.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[tails[middle]] < value) low = middle + 1;
      else high = middle;
    }
    before[place] = tails[low - 1];
    tails[low] = place;
  });
  const places = new Set();
  for (let place = tails[tails.length - 1]; place !== undefined; place = before[place]) places.add(place);
  return places;
}

// Search by name, operator, shape and bytes.
"use strict";

const MOST_RESULTS = 60;
const UNITS = {b: 1, kb: 1024, mb: 1024 ** 2, gb: 1024 ** 3};

/** A predicate of tensors for ">1MB", "<=64kb", "=4096", or a shape "16x64" that starts so; else null. */
function tensorQuery(text) {
  const size = /^(>=?|<=?|=)\s*([\d.]+)\s*([kmg]?b)?$/i.exec(text);
  if (size) {
    const bytes = Number(size[2]) * (UNITS[(size[3] ?? "b").toLowerCase()]);
    const compare = {">": a => a > bytes, ">=": a => a >= bytes, "<": a => a < bytes,
                     "<=": a => a <= bytes, "=": a => a === bytes}[size[1]];
    return entry => compare(entry.nbytes);
  }
  if (/^\(?\s*\d+(\s*[x×,]\s*\d+)+\s*,?\)?$/.test(text)) {
    const shape = text.match(/\d+/g).map(Number);
    return entry => shape.every((each, axis) => entry.tensor.shape[axis] === each);
  }
  return null;
}

class Search {
  constructor(element, plan, store) {
    Object.assign(this, {plan, store, results: [], active: -1});
    this.names = {
      step: plan.steps.map(each => `${each.name} ${each.op}`.toLowerCase()),
      entry: plan.entries.map(each => each.name.toLowerCase()),
      node: plan.nodes.map(each => `${each.name} ${each.op}`.toLowerCase())};
    this.input = h("input", {
      type: "search", role: "combobox", placeholder: "Search: name, 16x64x56, >1MB   ( / )",
      "aria-label": "Search by name, operator, shape or bytes", "aria-expanded": "false",
      "aria-controls": "results", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false",
      oninput: () => this.find(), onkeydown: event => this.onKey(event),
      onblur: () => setTimeout(() => this.close(), 150)});
    this.list = h("div", {id: "results", role: "listbox", "aria-label": "Results", hidden: true});
    this.list.addEventListener("mousedown", event => {
      const row = event.target.closest("[data-result]");
      if (row) { event.preventDefault(); this.choose(Number(row.dataset.result)); }
    });
    this.status = h("span", {class: "visually-hidden", role: "status"});
    element.append(this.input, this.list, this.status);
  }

  focus() { this.input.focus(); this.input.select(); }

  find() {
    const text = this.input.value.trim().toLowerCase();
    this.results = text ? this.matches(text) : [];
    this.active = this.results.length ? 0 : -1;
    this.draw(text);
  }

  /** Steps first, then tensors, then nodes that have no step; those whose name is the text first of all. */
  matches(text) {
    const {plan, names} = this, tensor = tensorQuery(text);
    if (tensor) {
      return plan.entries.flatMap((each, id) => tensor(each) ? [["entry", id]] : [])
        .sort(([, a], [, b]) => plan.entries[b].nbytes - plan.entries[a].nbytes || a - b);
    }
    const byName = kind => names[kind].flatMap((name, id) => name.includes(text) ? [[kind, id]] : []);
    const isShown = id => !plan.stepOfNode.has(id) && id === plan.finalNode(id) && plan.nodes[id].op;
    const found = [...byName("step"), ...byName("entry"), ...byName("node").filter(([, id]) => isShown(id))];
    const isExact = ([kind, id]) => names[kind][id].split(" ")[0] === text;
    return [...found.filter(isExact), ...found.filter(each => !isExact(each))];
  }

  draw(text) {
    const {plan, results} = this;
    const describe = {
      step: id => [plan.steps[id].name, `step ${id}, ${plan.steps[id].op}`],
      entry: id => [plan.entries[id].name, `tensor, ${tensorText(plan.entries[id].tensor)}, ${bytesText(plan.entries[id].nbytes)}`],
      node: id => [plan.nodes[id].name, `node, ${plan.nodes[id].op}`]};
    this.list.replaceChildren(...results.slice(0, MOST_RESULTS).map(([kind, id], index) => {
      const [name, what] = describe[kind](id);
      return h("div", {role: "option", id: `result${index}`, "data-result": index,
                       "aria-selected": String(index === this.active)}, h("b", {}, name), " ", h("small", {}, what));
    }));
    const told = results.length ? plural(results.length, "result") + (
      results.length > MOST_RESULTS ? `, the first ${MOST_RESULTS} shown` : "") : "nothing found";
    if (text) this.list.append(h("div", {class: "total", role: "option", "aria-disabled": "true", "aria-selected": "false"}, told));
    this.status.textContent = text ? told : "";
    this.list.hidden = !text;
    this.input.setAttribute("aria-expanded", String(!this.list.hidden));
    this.mark();
  }

  mark() {
    [...this.list.querySelectorAll("[data-result]")].forEach((row, index) =>
      row.setAttribute("aria-selected", String(index === this.active)));
    const row = document.getElementById(`result${this.active}`);
    if (row && !this.list.hidden) {
      this.input.setAttribute("aria-activedescendant", row.id);
      row.scrollIntoView({block: "nearest"});
    } else this.input.removeAttribute("aria-activedescendant");
  }

  onKey(event) {
    const shown = Math.min(this.results.length, MOST_RESULTS);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (shown) this.active = (this.active + (event.key === "ArrowDown" ? 1 : shown - 1)) % shown;
      this.mark();
    } else if (event.key === "Enter" && this.active >= 0) this.choose(this.active);
    else if (event.key === "Escape") {
      event.stopPropagation();
      this.input.value = "";
      this.close();
      this.input.blur();
    }
  }

  choose(index) {
    const [kind, id] = this.results[index];
    this.close();
    this.input.blur();
    this.store.select(kind, id);
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}

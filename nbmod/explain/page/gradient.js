// From a forward step to its gradient, to what that needs, to why it is alive.
"use strict";

VIEWS.push({id: "gradient", title: "Gradient", fits: plan => plan.steps.some(step => step.forward != null),
            create: (plan, store) => new GradientView(plan, store)});

class GradientView {
  constructor(plan, store) {
    Object.assign(this, {plan, store});
    this.forward = [...plan.gradients.keys()].filter(step => step != null).sort((a, b) => a - b);
    this.kept = this.forward.map(step => sum(plan.gradients.get(step).flatMap(
      gradient => this.needs(gradient).kept), id => plan.entries[id].nbytes));
    this.list = new RowList({label: "Forward steps that have a gradient", render: row => this.row(row),
                             choose: row => store.select("step", this.forward[row])});
    this.flow = h("div", {class: "flow", tabindex: 0, role: "region", "aria-label": "Gradient of the selected step"});
    this.element = h("div", {class: "column"},
      h("p", {class: "note"}, "Forward steps, and the bytes of forward results that their gradients read."),
      this.list.element, this.flow);
  }

  /** What a gradient reads, by where it comes from. */
  needs(gradient) {
    const {plan} = this, needs = {incoming: [], kept: [], given: []};
    for (const id of plan.steps[gradient].reads) {
      const {producer} = plan.entries[id];
      needs[producer == null ? "given" : plan.steps[producer].phase === "backward" ? "incoming" : "kept"].push(id);
    }
    return needs;
  }

  row(row) {
    const index = this.forward[row], step = this.plan.steps[index];
    return [h("span", {class: "number"}, index), h("span", {class: "name"}, step.name),
            h("span", {class: "what"}, step.op),
            h("span", {class: "size"}, this.kept[row] ? bytesText(this.kept[row]) : "nothing")];
  }

  update() {
    const {plan} = this, {step} = this.store.focus;
    const forward = step == null ? null : plan.steps[step].forward ?? step;
    const row = forward == null ? -1 : this.forward.indexOf(forward);
    this.list.show(this.forward.length, row);
    this.flow.replaceChildren(...row < 0 ? [h("p", {class: "hint"}, step == null ? "Select a step."
      : `${plan.steps[step].name} has no gradient: none is asked for, or it has none.`)] : this.columns(forward));
  }

  columns(forward) {
    const gradients = this.plan.gradients.get(forward);
    return [column("Forward", this.stepCard(forward)),
            column("Its gradient", gradients.map(each => this.stepCard(each))),
            column("What it needs, and why that is alive", gradients.map(each => this.needCards(this.needs(each))))];
  }

  stepCard(index) {
    const step = this.plan.steps[index], isChosen = index === this.store.focus.step;
    const outputs = step.writes.filter(each => each != null);
    return h("div", {class: `card ${isChosen ? "chosen" : ""}`}, stepLink(this.plan, index), h("small", {}, ` ${step.op}`),
      h("ul", {}, outputs.map(id => h("li", {}, "→ ", entryLink(this.plan, id),
        h("small", {}, ` ${tensorText(this.plan.entries[id].tensor)}`)))));
  }

  needCards({incoming, kept, given}) {
    const card = (title, id) => {
      const entry = this.plan.entries[id];
      return h("div", {class: `card ${id === this.store.focus.entry ? "chosen" : ""}`}, entryLink(this.plan, id),
        h("small", {}, ` ${title}, ${bytesText(entry.nbytes)}`), h("p", {},
          entry.storage == null ? `In ${this.plan.placeOf(entry)}.` : whyAlive(this.plan, entry.storage)));
    };
    return [kept.map(id => card("kept from the forward pass", id)),
            incoming.map(id => card("gradient that comes in", id)), given.map(id => card("variable", id))];
  }
}

const column = (title, ...cards) => h("div", {class: "flow-column"}, h("h2", {}, title), cards);
const sum = (items, value) => items.reduce((total, each) => total + value(each), 0);

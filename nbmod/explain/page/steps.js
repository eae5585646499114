// Steps in their order; the inspector beside them shows the selected one.
"use strict";

VIEWS.push({id: "steps", title: "Steps", fits: plan => plan.steps.length > 0, create: (plan, store) => new StepsView(plan, store)});

class StepsView {
  constructor(plan, store) {
    Object.assign(this, {plan, store, isWide: true});
    this.list = new RowList({
      label: "Steps in the order of execution", choose: index => store.select("step", index),
      rowClass: index => plan.isFailed(plan.steps[index].node) ? "failed" : plan.steps[index].is_view ? "faint" : "",
      render: index => this.row(index)});
    this.element = h("div", {class: "column"},
      h("p", {class: "note"}, `${plural(plan.steps.length, "step")}, ${plan.running} run; faint ones are views and cost nothing.`),
      this.list.element);
  }

  row(index) {
    const step = this.plan.steps[index];
    return [h("span", {class: "number"}, index),
            h("span", {class: `phase ${step.phase}`, title: step.phase}, step.phase === "backward" ? "◂" : "▸"),
            h("span", {class: "name"}, step.name), h("span", {class: "what"}, step.op),
            h("span", {class: "size"}, step.is_view ? "view" : bytesText(step.nbytes))];
  }

  update() {
    const {step} = this.store.focus;
    this.list.show(this.plan.steps.length, step ?? -1);
  }
}

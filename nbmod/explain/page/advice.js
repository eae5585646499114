// Advice: changes of the network, best first, and what each changes in the plan.
"use strict";

VIEWS.push({id: "advice", title: "Advice", fits: plan => plan.facts.advice != null,
            create: (plan, store) => new AdviceView(plan, store)});

class AdviceView {
  constructor(plan, store) {
    const {advice} = plan.facts;
    this.store = store;
    this.cards = advice.map(each => [each, h("li", {class: "card"},
      h("h2", {}, each.kind, " ", h("span", {class: "badge"}, each.subject)),
      h("p", {}, each.reason), h("pre", {}, h("code", {}, each.change)), h("p", {}, effectText(each)),
      each.nodes.length ? h("p", {}, "Nodes: ", spaced(each.nodes.map(node => nodeLink(plan, node)))) : null)]);
    this.element = h("div", {class: "column scrolls", tabindex: 0, role: "region", "aria-label": "Advice"},
      h("p", {class: "note"}, advice.length ? "Changes of the network, or of how it is bound; the best first."
        : "Nothing is known that would make this plan faster or smaller."),
      h("ol", {class: "cards"}, this.cards.map(([, card]) => card)));
  }

  update() {
    for (const [advice, card] of this.cards) {
      card.classList.toggle("chosen", advice.nodes.includes(this.store.focus.node));
    }
  }
}

/** "−12 MB of memory, −3 steps, ...": what a change is worth; less is better. */
function effectText({total, steps, operations, nbytes, seconds}) {
  const count = value => `${value < 0 ? "−" : "+"}${countText(Math.abs(value))}`;
  const time = seconds => `${seconds < 0 ? "−" : "+"}${timeText(Math.abs(seconds) * 1e9)}`;
  const parts = [[total, signed, "of memory"], [seconds, time, "a run"], [nbytes, signed, "read and written"],
                 [steps, count, Math.abs(steps) === 1 ? "step" : "steps"], [operations, count, "operations"]];
  return parts.filter(([value]) => value).map(([value, text, what]) => `${text(value)} ${what}`).join(", ")
    || "no figure of the plan changes";
}

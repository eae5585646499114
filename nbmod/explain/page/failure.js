// Why a network cannot be bound or run: the node, the error, what would fit, and shapes known by then.
"use strict";

VIEWS.push({id: "failure", title: "Error", fits: plan => plan.failure != null,
            create: (plan, store) => new FailureView(plan, store)});

const STAGES = {inference: "Shapes or types contradict each other, or are not known", bind: "The network cannot be bound",
                run: "A step failed while the network ran"};

class FailureView {
  constructor(plan, store) {
    Object.assign(this, {plan, store});
    this.graph = plan.facts.graph;
    this.list = new RowList({label: "Nodes of the network, with what is known of their shapes", render: row => this.row(row),
                             choose: row => store.select("node", this.graph[row]), rowClass: row => this.rowClass(row)});
    const unknown = this.graph.filter(id => !isKnown(plan.nodes[id])).length;
    this.element = h("div", {class: "column"}, this.card(), h("p", {class: "note"}, unknown
      ? `${plural(unknown, "node")} of ${this.graph.length} had no known shape by then; they are faint.`
      : "All shapes were known by then."), this.list.element);
  }

  card() {
    const {plan} = this, {stage, kind, message, node, step, arguments: inputs} = plan.failure;
    const known = tensor => tensor ? tensorText(tensor).replace(/\b0\b/g, "?") : "unknown";
    const isOther = ({tensor, fits}) => fits && JSON.stringify(fits) !== JSON.stringify(tensor);
    return h("div", {class: "card failed"}, h("h2", {}, STAGES[stage], " ", h("span", {class: "badge"}, kind)),
      h("pre", {}, message),
      node == null ? null : h("p", {}, "At ", nodeLink(plan, node), ` (${plan.nodes[node].op || "variable"})`,
        step == null ? "" : [", ", stepLink(plan, step)], "."),
      inputs.length ? table("Its inputs", ["input", "from", "is", "the others need"], inputs.map(each => [
        each.name, nodeLink(plan, each.node), known(each.tensor),
        isOther(each) ? h("b", {}, known(each.fits)) : each.fits ? "the same" : "–"])) : null);
  }

  rowClass(row) {
    const id = this.graph[row];
    return this.plan.isFailed(id) ? "failed" : isKnown(this.plan.nodes[id]) ? "" : "faint";
  }

  row(row) {
    const node = this.plan.nodes[this.graph[row]];
    return [h("span", {class: "mark"}, this.plan.isFailed(this.graph[row]) ? "✗" : ""), h("span", {class: "name"}, node.name),
            h("span", {class: "what"}, node.op || "variable"), h("span", {class: "shape"}, tensorText(node.outputs[0]))];
  }

  update() {
    const {node} = this.store.focus, {failure} = this.plan;
    const shown = node == null ? failure.node : node;
    this.list.show(this.graph.length, this.graph.findIndex(id => this.plan.slotOfNode[id] === this.plan.slotOfNode[shown]));
  }
}

/** Whether the shapes of all outputs are known. */
const isKnown = node => node.outputs.every(tensor => tensor && !tensor.shape.includes(0));

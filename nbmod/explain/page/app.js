// Puts the page together: header, tabs, views and keys.
"use strict";

class App {
  constructor(plan) {
    this.plan = plan;
    this.store = new Store(plan);
    this.views = VIEWS.filter(view => view.fits(plan));
    this.opened = new Map();
    this.describe();
    this.search = new Search(document.getElementById("search"), plan, this.store);
    this.inspector = new Inspector(document.getElementById("inspector"), plan, this.store);
    this.makeTabs();
    this.store.listeners.push(() => this.update());
    document.addEventListener("click", event => this.onClick(event));
    document.addEventListener("keydown", event => this.onKey(event));
    document.addEventListener("dragover", event => event.preventDefault());
    document.addEventListener("drop", event => this.onDrop(event));
    this.store.view = this.views[0].id;
    this.store.follow(location.hash);
  }

  describe() {
    const {network, memory} = this.plan;
    const kind = Object.keys(network.requests).length ? "training" : "inference";
    document.title = `${network.name}, ${kind}: nbmod explain`;
    document.getElementById("title").textContent = network.name;
    const {failure} = this.plan, summary = document.getElementById("summary");
    if (failure) {
      summary.classList.add("failed");
      const place = failure.node == null ? [] : [" at ", nodeLink(this.plan, failure.node)];
      summary.replaceChildren(`fails in ${failure.stage}`, ...place, `: ${failure.message.split("\n")[0]}`);
      return;
    }
    summary.textContent =
      `${kind} on ${network.context}: ${plural(this.plan.running, "step")}, ${bytesText(memory.total)} `
      + `(${bytesText(memory.unshared)} if nothing shared memory)`
      + (network.disabled_passes.length ? `, without ${network.disabled_passes.join(", ")}` : "");
  }

  makeTabs() {
    const tabs = document.getElementById("tabs");
    this.tabs = this.views.map((view, index) => h("button", {
      type: "button", role: "tab", id: `tab-${view.id}`, "aria-controls": `view-${view.id}`, title: `key ${index + 1}`,
      onclick: () => this.store.change({view: view.id})}, view.title));
    tabs.append(...this.tabs);
    tabs.addEventListener("keydown", event => {
      const move = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!move) return;
      const next = (this.views.findIndex(view => view.id === this.store.view) + move + this.views.length) % this.views.length;
      this.store.change({view: this.views[next].id});
      this.tabs[next].focus();
    });
    document.getElementById("views").append(...this.views.map(view => h("div", {
      role: "tabpanel", id: `view-${view.id}`, "aria-labelledby": `tab-${view.id}`, hidden: true})));
  }

  update() {
    const {view: id} = this.store;
    if (!this.opened.has(id)) {
      const view = this.views.find(each => each.id === id).create(this.plan, this.store);
      document.getElementById(`view-${id}`).append(view.element);
      this.opened.set(id, view);
    }
    this.views.forEach((view, index) => {
      const isShown = view.id === id;
      document.getElementById(`view-${view.id}`).hidden = !isShown;
      this.tabs[index].setAttribute("aria-selected", String(isShown));
      this.tabs[index].tabIndex = isShown ? 0 : -1;
      if (isShown) this.tabs[index].scrollIntoView({block: "nearest", inline: "nearest"});
    });
    const view = this.opened.get(id);
    document.body.classList.toggle("wide-inspector", Boolean(view.isWide));
    view.update();
    this.inspector.update();
  }

  onClick(event) {
    const target = event.target.closest("a[href^='#']");
    if (!target || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.store.follow(target.getAttribute("href"));
  }

  /** Compare with the file that was dropped. */
  onDrop(event) {
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    if (!file) return;
    this.store.change({view: "compare"});
    this.opened.get("compare").load(file);
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=range], [type=checkbox]), textarea")) return;
    const {store} = this, view = this.views[Number(event.key) - 1];
    if (this.opened.get(store.view).onKey?.(event)) return event.preventDefault();
    if (event.key === "/") this.search.focus();
    else if (event.key === "Escape") store.clear();
    else if (event.key === "[") store.change({stage: store.stage - 1});
    else if (event.key === "]") store.change({stage: store.stage + 1});
    else if (view) store.change({view: view.id});
    else return;
    event.preventDefault();
  }
}

/** The facts in an element of the page; null where it is empty. */
function factsIn(id, page = document) {
  const text = page.getElementById(id)?.textContent.trim();
  return text ? JSON.parse(text) : null;
}

const page = factsIn("facts");
if (page) window.app = new App(new Plan(page, factsIn("command") ?? ""));
else document.getElementById("summary").textContent = "This page has no facts: `executor.explain().page(path)` writes one.";

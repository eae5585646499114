// Memory: addresses over steps. A box is a storage; beside it what is alive, and plans without passes.
"use strict";

VIEWS.push({id: "memory", title: "Memory", fits: plan => plan.storages.length > 0,
            create: (plan, store) => new MemoryView(plan, store)});

const DEEPEST = 4096;  // how often a plan may be enlarged
const DETAILED = 2;  // zoom from which small storages have boxes of their own
const NAME_WIDTH = 34, NAME_HEIGHT = 12;  // pixels of a box that has room for its name

/** The picture of `plan_chart.py`, whose boxes can be selected, and which can be enlarged. */
class MemoryView {
  constructor(plan, store) {
    Object.assign(this, {plan, store, isWide: false, step: null, zoom: {x: 0, y: 0, width: 1, height: 1}});
    this.chart = document.getElementById("chart").content.firstElementChild;
    this.boxes = new Map(this.all("[data-storage]").map(box => [Number(box.dataset.storage), box]));
    this.names = this.all(".name").map(name => ({element: name, ...placed(name, "x", "y", "width", "height")}));
    this.bands = this.all(".band").map(band => ({element: band, ...placed(band, "y", "height")}));
    this.stepMark = svg("rect", {class: "step-mark", height: "100%"});
    this.chosen = svg("rect", {class: "chosen"});
    this.marks = svg("svg", {class: "storages marks"},
      svg("svg", {class: "zooms", width: "100%", height: "100%"}, this.stepMark, this.chosen));
    this.chart.append(this.marks);
    this.tip = h("div", {class: "tip", hidden: true});
    this.plot = h("div", {class: "plot", tabindex: 0, role: "img", onclick: event => this.onClick(event),
      onkeydown: event => this.onKey(event), onmouseover: event => this.onHover(event),
      onmouseleave: () => { this.tip.hidden = true; }, onwheel: event => this.onWheel(event)}, this.chart, this.tip);
    this.alive = new RowList({label: "Storages alive at the step", choose: row => store.select("storage", this.aliveIds[row]),
                              render: row => this.row(row)});
    this.aliveIds = [];
    this.told = h("p", {class: "note", role: "status"});
    this.element = h("div", {class: "column memory"},
      h("div", {class: "bar"}, this.legend(),
        [["+", "Zoom in", 0.5], ["−", "Zoom out", 2], ["Whole", "Whole plan", Infinity]].map(([text, label, factor]) =>
          h("button", {type: "button", "aria-label": label, title: label, onclick: () => this.scale(factor)}, text))),
      this.plot,
      h("div", {class: "pair"}, h("div", {class: "column"}, this.told, this.alive.element), this.variants()));
    new ResizeObserver(() => this.nameBoxes()).observe(this.plot);
  }

  all(selector) { return [...this.chart.querySelectorAll(selector)]; }

  legend() {
    return h("ul", {class: "legend"}, this.all(".legend text").map(text => h("li", {},
      h("span", {class: `swatch ${text.previousElementSibling.getAttribute("class")}`}), text.textContent)));
  }

  /** Bytes of this plan, without sharing, and without each pass. */
  variants() {
    const {memory, facts, running} = this.plan;
    const rows = [["this plan", memory.total, running], ["no memory shared", memory.unshared, running],
                  ...facts.variants.map(each => [each.without ? `without ${each.without}` : `with ${each.added}`,
                                                 each.total, each.steps])];
    const most = Math.max(1, ...rows.map(([, bytes]) => bytes));
    return h("div", {class: "variants"}, table("What if", ["plan", "bytes", "steps"], rows.map(([name, bytes, steps]) => [
      name, h("span", {class: "meter"}, h("span", {class: "meter-bar", style: `width:${100 * bytes / most}%`}),
        h("span", {class: "meter-text"}, bytesText(bytes), bytes === memory.total ? "" : ` (${signed(bytes - memory.total)})`)),
      String(steps)])));
  }

  row(row) {
    const id = this.aliveIds[row], storage = this.plan.storages[id];
    const names = storage.entries.map(each => this.plan.entries[each].name).join(" = ") || "workspace";
    return [h("span", {class: `swatch ${this.boxes.get(id)?.getAttribute("class") ?? ""}`}), h("span", {class: "name"}, names),
            h("span", {class: "what"}, `steps ${storage.first}–${storage.last}`),
            h("span", {class: "size"}, bytesText(storage.nbytes))];
  }

  update() {
    const {plan, store} = this, {step, storage} = store.focus;
    const at = this.step = step ?? (storage == null ? plan.memory.peak_step ?? 0 : plan.storages[storage].first);
    this.aliveIds = plan.aliveAt(at);
    this.told.replaceChildren(`Alive in step `, plan.steps[at] ? stepLink(plan, at) : String(at),
      `: ${bytesText(plan.memory.live[at] ?? 0)} in ${plural(this.aliveIds.length, "storage")}`,
      at === plan.memory.peak_step ? ", the peak" : "", ".");
    this.alive.show(this.aliveIds.length, this.aliveIds.indexOf(storage));
    this.plot.setAttribute("aria-label", `Memory of ${plural(plan.storages.length, "storage")} over ${
      plural(plan.steps.length, "step")}; arrow keys move among steps and storages. ${
      storage == null ? "" : `Selected: storage ${storage}, ${bytesText(plan.storages[storage].nbytes)}.`}`);
    this.stepMark.setAttribute("x", `${100 * at / this.steps}%`);
    this.stepMark.setAttribute("width", `${100 / this.steps}%`);
    const box = this.boxes.get(storage);
    this.chosen.setAttribute("visibility", box ? "visible" : "hidden");
    if (box) for (const name of ["x", "y", "width", "height"]) this.chosen.setAttribute(name, box.getAttribute(name));
  }

  get steps() { return Math.max(this.plan.steps.length, 1); }

  // -- zoom -------------------------------------------------------------------------------------

  /** Enlarge what `zoom` has, in parts of the whole plan, to the size of the picture. */
  show() {
    const {x, y, width, height} = this.zoom;
    for (const area of this.all(".zooms")) {
      area.setAttribute("x", `${-100 * x / width}%`);
      area.setAttribute("width", `${100 / width}%`);
      if (area.matches(".along")) continue;
      area.setAttribute("y", `${-100 * y / height}%`);
      area.setAttribute("height", `${100 / height}%`);
    }
    const isDetailed = height * DETAILED <= 1;
    this.chart.classList.toggle("detailed", isDetailed);
    for (const band of this.bands) show(band.element, isDetailed && overlaps(band, y, height));
    this.nameBoxes();
    this.numberAxes();
  }

  /** Show the names that fit into the visible parts of their boxes. */
  nameBoxes() {
    const area = this.frame(), {x, y, width, height} = this.zoom;
    const across = area.width / width, down = area.height / height;
    for (const name of this.names) {
      const hidden = Math.max(0, x - name.x) * across, isSeen = name.x < x + width && overlaps(name, y, height);
      const fits = isSeen && name.width * across - hidden > NAME_WIDTH && name.height * down > NAME_HEIGHT;
      show(name.element, fits);
      if (fits) name.element.firstElementChild.setAttribute("x", hidden + 4);
    }
  }

  frame() { return this.chart.querySelector(".frame").getBoundingClientRect(); }

  numberAxes() {
    const {x, y, width, height} = this.zoom, last = texts => texts.length - 1;
    this.all(".addresses text").forEach((text, index, texts) => {
      text.textContent = bytesText(this.plan.memory.total * (1 - y - height * (1 - index / last(texts))));
    });
    let before = null;
    this.all(".numbers text").forEach((text, index, texts) => {
      const step = Math.floor(this.steps * (x + width * (index + 0.5) / texts.length));
      text.textContent = step === before ? "" : step;
      before = step;
    });
  }

  /** Zoom around a point: the selected storage, or the middle. */
  scale(factor, point = null) {
    const {zoom} = this, box = this.boxes.get(this.store.focus.storage);
    const along = (start, size) => {
      const around = point?.[start] ?? (box ? part(box, start) + part(box, size) / 2 : zoom[start] + zoom[size] / 2);
      const next = Math.min(1, Math.max(1 / DEEPEST, zoom[size] * factor));
      const at = point == null && factor < 1 ? 0.5 : (around - zoom[start]) / zoom[size];
      return Math.min(1 - next, Math.max(0, around - at * next));
    };
    const size = name => Math.min(1, Math.max(1 / DEEPEST, zoom[name] * factor));
    this.zoom = {x: along("x", "width"), y: along("y", "height"), width: size("width"), height: size("height")};
    this.show();
  }

  // -- input ------------------------------------------------------------------------------------

  /** The place of a pointer in parts of the whole plan. */
  pointAt(event) {
    const area = this.frame(), {x, y, width, height} = this.zoom;
    return {x: x + width * (event.clientX - area.left) / area.width,
            y: y + height * (event.clientY - area.top) / area.height};
  }

  onClick(event) {
    const {storage} = event.target.dataset, step = Math.floor(this.pointAt(event).x * this.steps);
    if (storage) this.store.select("storage", Number(storage));
    else if (this.plan.steps[step]) this.store.select("step", step);
  }

  /** Show at once what a browser shows after a second. */
  onHover(event) {
    const box = event.target, title = box.querySelector("title");
    if (title) {
      box.dataset.told = title.textContent;
      title.remove();
    }
    this.tip.hidden = !box.dataset.told;
    if (this.tip.hidden) return;
    this.tip.textContent = box.dataset.told;
    const area = this.plot.getBoundingClientRect(), x = event.clientX - area.left, isRight = x > area.width / 2;
    Object.assign(this.tip.style, {top: `${event.clientY - area.top + 14}px`, left: isRight ? "auto" : `${x + 8}px`,
                                   right: isRight ? `${area.width - x + 8}px` : "auto"});
  }

  onKey(event) {
    const steps = {ArrowRight: 1, ArrowLeft: -1}[event.key], rows = {ArrowUp: 1, ArrowDown: -1}[event.key];
    const factor = {"+": 0.5, "=": 0.5, "-": 2, "0": Infinity}[event.key];
    if (steps) this.store.select("step", Math.min(this.plan.steps.length - 1, Math.max(0, this.step + steps)));
    else if (rows) this.neighbour(rows);
    else if (factor) this.scale(factor);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Select the storage above or below the selected one, among those alive at the step. */
  neighbour(direction) {
    const y = id => part(this.boxes.get(id), "y");
    const alive = this.aliveIds.filter(id => this.boxes.has(id)).sort((a, b) => y(b) - y(a));
    if (!alive.length) return;
    const place = alive.indexOf(this.store.focus.storage);
    const next = place < 0 ? 0 : Math.min(alive.length - 1, Math.max(0, place + direction));
    this.store.select("storage", alive[next]);
  }

  onWheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    this.scale(event.deltaY > 0 ? 1.25 : 0.8, this.pointAt(event));
  }
}

/** A place or size of a box, as a part of the whole plan. */
const part = (box, name) => parseFloat(box.getAttribute(name)) / 100;

/** Several of them, by name. */
const placed = (box, ...names) => Object.fromEntries(names.map(name => [name, part(box, name)]));

/** Whether a part of it is between these heights. */
const overlaps = (place, y, height) => place.y < y + height && y < place.y + place.height;

/** Show or hide an element of the picture, which costs nothing where it is so already. */
function show(element, isShown) {
  if (isShown === (element.getAttribute("display") === "none")) element.setAttribute("display", isShown ? "inline" : "none");
}

/** "+3.4 MB", "−64 B". */
const signed = bytes => `${bytes < 0 ? "−" : "+"}${bytesText(Math.abs(bytes))}`;

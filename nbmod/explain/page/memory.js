// Memory: addresses over steps. A box is a storage; beside it what is alive, and plans without passes.
"use strict";

VIEWS.push({id: "memory", title: "Memory", fits: plan => plan.storages.length > 0,
            create: (plan, store) => new MemoryView(plan, store)});

const ROLES = {forward: "forward only", kept: "kept for the backward pass", backward: "backward",
               scratch: "workspace", output: "output"};
const LEFT = 64, BOTTOM = 20, LIVE = 46, GAP = 16;  // margins, and the height of the curve
const SMALL = 2;  // pixels: lower boxes are summed

class MemoryView {
  constructor(plan, store) {
    Object.assign(this, {plan, store, isWide: false, hovered: null});
    const addresses = plan.addresses();
    this.boxes = plan.storages.map((storage, id) => ({
      id, left: storage.first, right: (storage.held ? plan.steps.length - 1 : storage.last) + 1,
      low: addresses[id], high: addresses[id] + storage.nbytes, role: plan.roleOf(storage)}));
    this.zoom = this.whole = {left: 0, right: Math.max(plan.steps.length, 1), low: 0, high: Math.max(plan.top, 1)};
    this.canvas = h("canvas", {
      tabindex: 0, role: "img", onclick: event => this.onClick(event), onkeydown: event => this.onKey(event),
      onmousemove: event => this.onHover(event), onmouseleave: () => this.hover(null),
      onwheel: event => this.onWheel(event)});
    this.base = document.createElement("canvas");
    this.tip = h("div", {class: "tip", hidden: true});
    this.alive = new RowList({label: "Storages alive at the step", choose: row => store.select("storage", this.aliveIds[row]),
                              render: row => this.row(row)});
    this.aliveIds = [];
    this.told = h("p", {class: "note", role: "status"});
    this.element = h("div", {class: "column memory"},
      h("div", {class: "bar"}, this.legend(),
        [["+", "Zoom in", 0.5], ["−", "Zoom out", 2], ["Whole", "Whole plan", Infinity]].map(([text, label, factor]) =>
          h("button", {type: "button", "aria-label": label, title: label, onclick: () => this.scale(factor)}, text))),
      h("div", {class: "plot"}, this.canvas, this.tip),
      h("div", {class: "pair"}, h("div", {class: "column"}, this.told, this.alive.element), this.variants()));
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  legend() {
    const roles = new Set(this.boxes.map(box => box.role));
    return h("ul", {class: "legend"}, Object.entries(ROLES).filter(([role]) => roles.has(role)).map(
      ([role, text]) => h("li", {}, h("span", {class: `swatch ${role}`}), text)),
      h("li", {}, h("span", {class: "swatch small"}), "small ones, summed"));
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
    return [h("span", {class: `swatch ${this.boxes[id].role}`}), h("span", {class: "name"}, names),
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
    this.canvas.setAttribute("aria-label", `Memory of ${plural(plan.storages.length, "storage")} over ${
      plural(plan.steps.length, "step")}; arrow keys move among steps and storages. ${
      storage == null ? "" : `Selected: storage ${storage}, ${bytesText(plan.storages[storage].nbytes)}.`}`);
    this.overlay();
  }

  // -- geometry ---------------------------------------------------------------------------------

  /** Pixels of a step and of an address. */
  x(step) { return LEFT + (step - this.zoom.left) / (this.zoom.right - this.zoom.left) * (this.width - LEFT - 4); }
  y(address) {
    return 6 + (1 - (address - this.zoom.low) / (this.zoom.high - this.zoom.low)) * (this.bottom - 6);
  }
  get bottom() { return this.height - BOTTOM - LIVE - GAP; }

  /** Step and address of a pixel. */
  at(x, y) {
    const {zoom} = this;
    return {step: zoom.left + (x - LEFT) / (this.width - LEFT - 4) * (zoom.right - zoom.left),
            address: zoom.low + (1 - (y - 6) / (this.bottom - 6)) * (zoom.high - zoom.low)};
  }

  /** The storage under a pixel: the largest of those within two pixels. */
  boxAt(x, y) {
    if (x < LEFT || y > this.bottom + 1) return null;
    const {step, address} = this.at(x, y), near = this.at(x, y - SMALL).address - address;
    const found = this.boxes.filter(box => box.left <= step && step < box.right
                                    && box.low - near <= address && address < box.high + near);
    const exact = found.filter(box => box.low <= address && address < box.high);
    return largest(exact.length ? exact : found);
  }

  // -- drawing ----------------------------------------------------------------------------------

  /** Draw everything: the size, the zoom or the colours have changed. */
  redraw() {
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    if (!this.width) return;
    const scale = window.devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.base]) {
      canvas.width = this.width * scale;
      canvas.height = this.height * scale;
    }
    const style = getComputedStyle(document.documentElement);
    this.colour = name => style.getPropertyValue(`--${name}`).trim();
    const pen = this.base.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = "11px system-ui, sans-serif";
    this.drawBoxes(pen);
    this.drawLive(pen);
    this.drawAxes(pen);
    this.overlay();
  }

  drawBoxes(pen) {
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, this.width - LEFT, this.bottom);
    pen.clip();
    const small = [];
    for (const box of this.boxes) {
      const x = this.x(box.left), y = this.y(box.high), width = this.x(box.right) - x, height = this.y(box.low) - y;
      if (x > this.width || x + width < LEFT || y > this.bottom || y + height < 0) continue;
      if (height < SMALL) {
        small.push(box);
        continue;
      }
      pen.fillStyle = this.colour(`role-${box.role}`);
      pen.fillRect(x, y, width, height);
      pen.strokeStyle = this.colour("panel");
      pen.lineWidth = 1;
      if (width > 3 && height > 3) pen.strokeRect(x, y, width, height);
      if (height > 13 && width > 34) this.drawName(pen, box, x, y, width, height);
    }
    this.drawSmall(pen, small);
    pen.restore();
  }

  drawName(pen, box, x, y, width, height) {
    const {entries} = this.plan.storages[box.id];
    let text = entries.length ? this.plan.entries[entries[0]].name : "workspace";
    const most = Math.floor((width - 8) / 6);
    if (text.length > most) text = `${text.slice(0, most - 1)}…`;
    if (most < 4) return;
    pen.fillStyle = this.colour("on-role");
    pen.fillText(text, Math.max(x, LEFT) + 4, y + height / 2 + 4);
  }

  /** Boxes of less than SMALL pixels: those that touch in a row of pixels are drawn as one. */
  drawSmall(pen, small) {
    const rows = new Map();
    for (const box of small) {
      const row = Math.floor(this.y((box.low + box.high) / 2) / SMALL);
      if (!rows.has(row)) rows.set(row, []);
      rows.get(row).push([Math.max(LEFT, Math.floor(this.x(box.left))), Math.min(this.width, Math.ceil(this.x(box.right)))]);
    }
    pen.fillStyle = this.colour("small");
    for (const [row, spans] of rows) {
      spans.sort(([a], [b]) => a - b);
      let [start, end] = spans[0];
      for (const [left, right] of spans) {
        if (left > end) {
          pen.fillRect(start, row * SMALL, end - start, SMALL);
          start = left;
        }
        end = Math.max(end, right);
      }
      pen.fillRect(start, row * SMALL, end - start, SMALL);
    }
  }

  /** Bytes alive at each step, below the boxes. */
  drawLive(pen) {
    const {live, peak_step: peak} = this.plan.memory, most = Math.max(1, ...live), base = this.height - BOTTOM;
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, base - LIVE - 8, this.width - LEFT, LIVE + 8);
    pen.clip();
    pen.beginPath();
    pen.moveTo(this.x(0), base);
    live.forEach((bytes, step) => {
      pen.lineTo(this.x(step), base - bytes / most * LIVE);
      pen.lineTo(this.x(step + 1), base - bytes / most * LIVE);
    });
    pen.lineTo(this.x(live.length), base);
    pen.fillStyle = this.colour("live");
    pen.fill();
    if (peak != null) {
      pen.fillStyle = this.colour("accent");
      pen.fillRect(this.x(peak), base - LIVE, Math.max(2, this.x(peak + 1) - this.x(peak)), LIVE);
    }
    pen.restore();
    pen.fillStyle = this.colour("muted");
    pen.textAlign = "right";
    pen.fillText("alive", LEFT - 6, base - LIVE / 2);
    pen.fillText(bytesText(most), LEFT - 6, base - LIVE + 8);
    pen.textAlign = "left";
  }

  drawAxes(pen) {
    pen.fillStyle = this.colour("muted");
    pen.strokeStyle = this.colour("line");
    pen.strokeRect(LEFT, 6, this.width - LEFT - 4, this.bottom - 6);
    pen.textAlign = "right";
    for (const fraction of [0, 0.25, 0.5, 0.75, 1]) {
      const address = this.zoom.low + fraction * (this.zoom.high - this.zoom.low);
      pen.fillText(bytesText(address), LEFT - 6, Math.min(this.bottom, Math.max(14, this.y(address) + 4)));
    }
    pen.textAlign = "center";
    const count = this.zoom.right - this.zoom.left, every = Math.max(1, Math.round(count / (this.width / 80)));
    for (let step = Math.ceil(this.zoom.left); step < this.zoom.right; step++) {
      if (step % every === 0) pen.fillText(String(step), this.x(step + 0.5), this.height - 6);
    }
    pen.textAlign = "left";
    const backward = this.plan.steps.findIndex(step => step.phase === "backward");
    if (backward > this.zoom.left && backward < this.zoom.right) {
      pen.setLineDash([4, 3]);
      pen.strokeStyle = this.colour("text");
      pen.beginPath();
      pen.moveTo(this.x(backward), 6);
      pen.lineTo(this.x(backward), this.height - BOTTOM);
      pen.stroke();
      pen.setLineDash([]);
    }
    if (this.plan.arena < this.plan.top) {
      pen.strokeStyle = this.colour("text");
      pen.beginPath();
      pen.moveTo(LEFT, this.y(this.plan.arena));
      pen.lineTo(this.width - 4, this.y(this.plan.arena));
      pen.stroke();
    }
  }

  /** Draw the picture, and above it the selected step and storage and the hovered one. */
  overlay() {
    if (!this.width) return;
    const scale = window.devicePixelRatio || 1, pen = this.canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.base, 0, 0);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.beginPath();
    pen.rect(LEFT - 2, 0, this.width - LEFT + 2, this.height);
    pen.clip();
    const {storage} = this.store.focus;
    if (this.step != null) {
      pen.globalAlpha = 0.25;
      pen.fillStyle = this.colour("accent");
      pen.fillRect(this.x(this.step), 6, Math.max(2, this.x(this.step + 1) - this.x(this.step)), this.height - BOTTOM - 6);
      pen.globalAlpha = 1;
    }
    if (this.hovered) this.outline(pen, this.hovered, 1.5);
    if (storage != null) this.outline(pen, this.boxes[storage], 3);
  }

  outline(pen, box, thickness) {
    const x = this.x(box.left), y = this.y(box.high);
    pen.lineWidth = thickness;
    pen.strokeStyle = this.colour("chosen");
    pen.strokeRect(x, y, Math.max(2, this.x(box.right) - x), Math.max(2, this.y(box.low) - y));
    pen.lineWidth = 1;
  }

  // -- input ------------------------------------------------------------------------------------

  onClick(event) {
    const box = this.boxAt(event.offsetX, event.offsetY), {step} = this.at(event.offsetX, event.offsetY);
    if (box) this.store.select("storage", box.id);
    else if (event.offsetX > LEFT && this.plan.steps[Math.floor(step)]) this.store.select("step", Math.floor(step));
  }

  onHover(event) {
    const box = this.boxAt(event.offsetX, event.offsetY);
    if (box !== this.hovered) this.hover(box);
    if (!box) return;
    const isRight = event.offsetX > this.width / 2;
    this.tip.style.top = `${event.offsetY + 14}px`;
    this.tip.style[isRight ? "right" : "left"] = `${isRight ? this.width - event.offsetX + 8 : event.offsetX + 8}px`;
    this.tip.style[isRight ? "left" : "right"] = "auto";
  }

  hover(box) {
    this.hovered = box;
    this.tip.hidden = !box;
    if (box) {
      const storage = this.plan.storages[box.id];
      this.tip.replaceChildren(h("b", {}, storage.entries.map(each => this.plan.entries[each].name).join(" = ") || "workspace"),
        h("br"), `storage ${box.id}: ${bytesText(storage.nbytes)}, steps ${storage.first} to ${storage.last}, ${ROLES[box.role]}`);
    }
    this.overlay();
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
    const alive = [...this.aliveIds].sort((a, b) => this.boxes[a].low - this.boxes[b].low);
    if (!alive.length) return;
    const place = alive.indexOf(this.store.focus.storage);
    const {step} = this;
    const next = place < 0 ? 0 : Math.min(alive.length - 1, Math.max(0, place + direction));
    this.store.change({storage: alive[next], at: step});
  }

  onWheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const {step, address} = this.at(event.offsetX, event.offsetY);
    this.scale(event.deltaY > 0 ? 1.25 : 0.8, step, address);
  }

  /** Zoom around a point: the selected storage, or the middle. */
  scale(factor, step = null, address = null) {
    const {zoom, whole} = this, box = this.boxes[this.store.focus.storage];
    const x = step ?? (box ? (box.left + box.right) / 2 : (zoom.left + zoom.right) / 2);
    const y = address ?? (box ? (box.low + box.high) / 2 : (zoom.low + zoom.high) / 2);
    const span = (low, high, around, least, most) => {
      const size = Math.min(most, Math.max(least, (high - low) * factor));
      const start = Math.min(most - size, Math.max(0, around - (around - low) / (high - low) * size));
      return step == null && factor < 1 ? [Math.min(most - size, Math.max(0, around - size / 2)), size] : [start, size];
    };
    const [left, width] = span(zoom.left, zoom.right, x, 2, whole.right);
    const [low, height] = span(zoom.low, zoom.high, y, 64, whole.high);
    this.zoom = {left, right: left + width, low, high: low + height};
    this.redraw();
  }
}

const largest = boxes => boxes.reduce((most, box) => !most || box.high - box.low > most.high - most.low ? box : most, null);

/** "+3.4 MB", "−64 B". */
const signed = bytes => `${bytes < 0 ? "−" : "+"}${bytesText(Math.abs(bytes))}`;

// The run, step by step: the arena as it is, what the step reads and writes, what it allocates and frees.
"use strict";

VIEWS.push({id: "play", title: "Play", fits: plan => plan.steps.length > 0, create: (plan, store) => new PlayView(plan, store)});

const SPEEDS = [0.5, 1, 2, 5, 10, 30];  // steps a second
const CURVE = 34, STRIP_TOP = 6;

class PlayView {
  constructor(plan, store) {
    Object.assign(this, {plan, store, timer: null, speed: 2, step: null});
    this.last = plan.steps.length - 1;
    this.boxes = boxesOf();
    this.born = grouped(plan.storages, storage => storage.first);
    this.dead = grouped(plan.storages, storage => storage.held ? null : storage.last);
    this.makeControls();
    this.canvas = h("canvas", {role: "img", tabindex: 0, onclick: event => this.onClick(event)});
    this.told = h("p", {class: "now", role: "status"});
    this.arrays = h("div", {class: "arrays", tabindex: 0, role: "region", "aria-label": "Arrays of the step"});
    this.element = h("div", {class: "column play"}, this.controls, this.told, h("div", {class: "plot strip"}, this.canvas), this.arrays);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  makeControls() {
    const button = (text, label, action) => h("button", {type: "button", "aria-label": label, title: label, onclick: action}, text);
    this.toggle = button("▶", "Play", () => this.play(this.timer == null));
    this.slider = h("input", {type: "range", min: 0, max: this.last, "aria-label": "Step",
                              oninput: event => this.go(Number(event.target.value))});
    this.pace = h("select", {"aria-label": "Steps a second", onchange: event => this.setSpeed(Number(event.target.value))},
      SPEEDS.map(each => h("option", {value: each, selected: each === this.speed}, `${each} a second`)));
    this.controls = h("div", {class: "bar"}, button("⇤", "First step", () => this.go(0)),
      button("←", "Step back", () => this.go(this.step - 1)), this.toggle, button("→", "Step forward", () => this.go(this.step + 1)),
      button("⇥", "Last step", () => this.go(this.last)), this.slider, this.pace);
  }


  go(step) {
    if (step < 0 || step > this.last) return;
    this.store.select("step", step);
  }

  setSpeed(speed) {
    this.speed = speed;
    this.pace.value = String(speed);
    if (this.timer != null) this.play(true);
  }

  play(isPlaying) {
    clearInterval(this.timer);
    this.timer = null;
    if (isPlaying) {
      if (this.step === this.last) this.go(0);
      this.timer = setInterval(() => this.tick(), 1000 / this.speed);
    }
    this.store.isPlaying = isPlaying;
    this.toggle.textContent = isPlaying ? "‖" : "▶";
    this.toggle.setAttribute("aria-label", isPlaying ? "Pause" : "Play");
    this.toggle.title = isPlaying ? "Pause" : "Play";
    if (!isPlaying) this.store.notify();
  }

  tick() {
    if (this.store.view !== "play" || this.step >= this.last) return this.play(false);
    this.go(this.step + 1);
  }

  /** Whether a key was for the player. */
  onKey(event) {
    if (event.target.closest("[role=tab], [role=listbox], input, select")) return false;
    if (event.key === " " && event.target.closest("button, a, summary")) return false;
    const speed = SPEEDS.indexOf(this.speed);
    const actions = {" ": () => this.play(this.timer == null), ArrowRight: () => this.go(this.step + 1),
                     ArrowLeft: () => this.go(this.step - 1), Home: () => this.go(0), End: () => this.go(this.last),
                     "+": () => this.setSpeed(SPEEDS[Math.min(speed + 1, SPEEDS.length - 1)]),
                     "-": () => this.setSpeed(SPEEDS[Math.max(speed - 1, 0)])};
    if (!actions[event.key]) return false;
    actions[event.key]();
    return true;
  }

  update() {
    const {kind, step: chosen} = this.store.focus;
    if (kind === "step" || this.step == null) this.step = chosen ?? 0;
    const {plan, step} = this, facts = plan.steps[step];
    this.slider.value = step;
    this.slider.setAttribute("aria-valuetext", `${step} ${facts.name}`);
    const storages = (word, ids) => ids?.length ? [`; ${word} `, spaced(ids.slice(0, 6).map(storageLink)),
                                                   ids.length > 6 ? ` and ${ids.length - 6} more` : ""] : "";
    this.told.replaceChildren(...[stepLink(plan, step), ` (${facts.op}), ${facts.phase}: ${bytesText(plan.memory.live[step] ?? 0)} alive`,
      facts.is_view ? "; a view, nothing runs" : "", storages("allocates", this.born.get(step)),
      storages("frees", this.dead.get(step)), "."].flat(Infinity));
    this.arrays.replaceChildren(this.column("Reads", facts.reads, step - 1),
      this.column("Writes", facts.writes.filter(each => each != null), step));
    this.canvas.setAttribute("aria-label", `The arena at step ${step}: ${plural(plan.aliveAt(step).length, "storage")} alive`);
    this.draw();
  }

  column(title, entries, step) {
    const {plan} = this;
    return h("div", {}, h("h2", {}, title), entries.map(id => {
      const entry = plan.entries[id], values = valuesAfter(plan, id, step);
      return h("div", {class: "card"}, entryLink(plan, id), h("small", {}, ` ${tensorText(entry.tensor)}, ${bytesText(entry.nbytes)}, `,
        entry.storage == null ? plan.placeOf(entry) : storageLink(entry.storage),
        title === "Writes" && entry.in_place_of != null ? [", in place of ", entryLink(plan, entry.in_place_of)] : ""),
        values ? [h("p", {}, rangeText(values)), valuesGrid(values, entry.name)] : null);
    }), entries.length ? null : h("p", {class: "hint"}, "nothing"),
      title === "Writes" && !plan.recorded ? h("p", {class: "hint"}, "With --run (explanation.record() in Python) values are shown.") : null);
  }

  // -- the arena --------------------------------------------------------------------------------

  draw() {
    const pen = emptied(this);
    if (!pen) return;
    this.drawArena(pen);
    this.drawCurve(pen);
  }

  get bottom() { return this.height - CURVE - 22; }

  /** Addresses from left to right: what is alive, with what the step reads and writes in frames. */
  drawArena(pen) {
    const {plan, step} = this, height = this.bottom - STRIP_TOP;
    pen.fillStyle = this.colour("hover");
    pen.fillRect(0, STRIP_TOP, this.width, height);
    const roles = new Map();
    for (const id of plan.aliveAt(step).filter(each => this.boxes.has(each))) {
      const {start, size, role} = this.boxes.get(id), left = start * this.width, width = Math.max(1, size * this.width);
      if (!roles.has(role)) roles.set(role, this.colour(`role-${role}`));
      pen.fillStyle = roles.get(role);
      pen.fillRect(left, STRIP_TOP, width, height);
      if (width > 40) this.drawName(pen, id, left, width);
    }
    const {reads, writes, scratch} = plan.steps[step], of = ids => ids.filter(each => each != null)
      .map(each => plan.entries[each].storage).filter(each => each != null);
    this.frame(pen, of(reads), "accent", 0);
    this.frame(pen, [...of(writes), ...scratch], "chosen", 3);
    pen.fillStyle = this.colour("muted");
    pen.fillText("0", 0, this.bottom + 12);
    pen.textAlign = "right";
    pen.fillText(bytesText(plan.memory.total), this.width, this.bottom + 12);
    pen.textAlign = "left";
  }

  drawName(pen, id, left, width) {
    const {entries} = this.plan.storages[id], name = this.plan.entries[entries[0]]?.name ?? "workspace";
    const most = Math.floor((width - 8) / 6);
    pen.fillStyle = this.colour("on-role");
    if (most > 3) pen.fillText(name.length > most ? `${name.slice(0, most - 1)}…` : name, left + 4, this.bottom - 8);
  }

  frame(pen, storages, colour, inset) {
    pen.strokeStyle = this.colour(colour);
    pen.lineWidth = 3;
    for (const id of new Set(storages)) {
      const {start, size} = this.boxes.get(id) ?? {start: 0, size: 0};
      pen.strokeRect(start * this.width + 1.5, STRIP_TOP + 1.5 + inset, Math.max(2, size * this.width - 3),
                     this.bottom - STRIP_TOP - 3 - 2 * inset);
    }
    pen.lineWidth = 1;
  }

  /** Bytes alive over all steps; those that have run are darker. */
  drawCurve(pen) {
    const {live} = this.plan.memory, most = Math.max(1, ...live), base = this.height - 4, width = this.width / Math.max(1, live.length);
    for (let pixel = 0; pixel < this.width; pixel++) {
      const index = Math.min(live.length - 1, Math.floor(pixel / width)), height = (live[index] ?? 0) / most * CURVE;
      pen.fillStyle = this.colour(index <= this.step ? "accent" : "live");
      pen.fillRect(pixel, base - height, 1, height);
    }
  }

  /** A click on the curve goes to a step, one on the arena selects a storage. */
  onClick({offsetX: x, offsetY: y}) {
    if (y > this.bottom) return this.go(Math.min(this.last, Math.floor(x / this.width * (this.last + 1))));
    const place = x / this.width, isThere = ({start, size}) => start <= place && place < start + size;
    const storage = this.plan.aliveAt(this.step).find(id => this.boxes.has(id) && isThere(this.boxes.get(id)));
    if (storage != null) this.store.select("storage", storage);
  }
}

/** Where each storage is, in parts of the memory, and what it is for: as the picture of the plan has it. */
function boxesOf() {
  const chart = document.getElementById("chart").content.firstElementChild ?? document.querySelector(".memory-chart");
  return new Map([...chart.querySelectorAll("[data-storage]")].map(box => [Number(box.dataset.storage), {
    start: 1 - part(box, "y") - part(box, "height"), size: part(box, "height"), role: box.classList[1]}]));
}

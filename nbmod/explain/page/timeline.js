// Measured times: steps along a line, how far each is from its roof, and the slowest first.
"use strict";

VIEWS.push({id: "timeline", title: "Times", fits: plan => plan.facts.measured != null,
            create: (plan, store) => new TimesView(plan, store)});

const STRIP = 64, MARGIN = 58;  // height of the line of steps; margin of the roofline

class TimesView {
  constructor(plan, store) {
    Object.assign(this, {plan, store, measured: plan.facts.measured});
    const {steps, threads, runs} = this.measured;
    this.total = sum(steps, each => each.seconds);
    this.slowest = [...steps].sort((a, b) => b.seconds - a.seconds || a.step - b.step);
    this.canvas = h("canvas", {role: "img", onclick: event => this.onClick(event),
      "aria-label": "Steps along time, and below them operations a second over operations a byte; the list has the same figures"});
    this.list = new RowList({label: "Steps, the slowest first", render: row => this.row(row),
                             choose: row => store.select("step", this.slowest[row].step)});
    this.element = h("div", {class: "column"},
      h("p", {class: "note"}, `${timeText(this.total * 1e9)} a run: medians of ${plural(runs, "run")} on ${plural(threads, "thread")}. `
        + "The full part of a step is its share of the roof that limits it."),
      h("div", {class: "plot"}, this.canvas), this.list.element);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  row(row) {
    const {step, seconds, noise, share, roof} = this.slowest[row];
    const details = [share == null ? "" : `${Math.round(share * 100)}% of ${roof}`, noise == null ? "" : `±${Number((noise * 100).toPrecision(2))}%`];
    return [h("span", {class: "number"}, step), h("span", {class: "name"}, this.plan.steps[step].name),
            h("span", {class: "what"}, details.filter(Boolean).join(", ")),
            h("span", {class: "size"}, timeText(seconds * 1e9))];
  }

  update() {
    this.list.show(this.slowest.length, this.slowest.findIndex(each => each.step === this.store.focus.step));
    this.draw();
  }

  draw() {
    const pen = emptied(this);
    if (!pen) return;
    this.drawStrip(pen);
    this.drawRoofs(pen);
  }

  /** Steps along time, each as wide as it is long. */
  drawStrip(pen) {
    let x = 0;
    this.places = this.measured.steps.map(({step, seconds, share}) => {
      const left = x, width = seconds / this.total * this.width;
      x += width;
      pen.fillStyle = this.colour(this.plan.steps[step].phase === "backward" ? "role-backward" : "role-forward");
      pen.globalAlpha = 0.45;
      pen.fillRect(left, 0, width, STRIP);
      pen.globalAlpha = 1;
      pen.fillRect(left, STRIP * (1 - (share ?? 0)), width, STRIP * (share ?? 0));
      if (width > 3) {
        pen.strokeStyle = this.colour("panel");
        pen.strokeRect(left, 0, width, STRIP);
      }
      return {step, left, right: x};
    });
    const chosen = this.places.find(each => each.step === this.store.focus.step);
    if (!chosen) return;
    pen.strokeStyle = this.colour("chosen");
    pen.lineWidth = 3;
    pen.strokeRect(chosen.left, 1.5, Math.max(3, chosen.right - chosen.left), STRIP - 3);
    pen.lineWidth = 1;
  }

  /** Operations a second over operations a byte, on logarithmic axes, below the roofs. */
  drawRoofs(pen) {
    const {operations, bandwidths, steps} = this.measured, top = STRIP + 16, bottom = this.height - 22;
    const points = steps.filter(({step}) => this.plan.steps[step].operations > 0 && this.plan.steps[step].nbytes > 0)
      .map(({step, seconds}) => ({step, x: this.plan.steps[step].operations / this.plan.steps[step].nbytes,
                                  y: this.plan.steps[step].operations / seconds}));
    const peak = Math.max(...Object.values(operations), ...points.map(each => each.y), 1e6);
    const range = (values, low, high) => [Math.log10(Math.min(low, ...values)) - 0.2, Math.log10(Math.max(high, ...values)) + 0.2];
    const [x0, x1] = range(points.map(each => each.x), 0.1, 100), [y0, y1] = range(points.map(each => each.y), peak / 1e3, peak);
    const across = value => MARGIN + (Math.log10(value) - x0) / (x1 - x0) * (this.width - MARGIN - 8);
    const up = value => bottom - (Math.log10(value) - y0) / (y1 - y0) * (bottom - top);
    pen.save();
    pen.beginPath();
    pen.rect(MARGIN, top, this.width - MARGIN - 8, bottom - top);
    pen.clip();
    pen.strokeStyle = pen.fillStyle = this.colour("muted");
    for (const [level, bytes] of Object.entries(bandwidths)) {
      const [left, right] = [10 ** x0, 10 ** x1];
      this.line(pen, across(left), up(left * bytes), across(right), up(right * bytes));
      const y = Math.max(10 ** y0 * 1.3, Math.min(bytes * left, peak / 3));
      pen.fillText(level, Math.max(MARGIN, across(y / bytes)) + 8, up(y) - 2);
    }
    for (const [type, most] of Object.entries(operations)) {
      this.line(pen, MARGIN, up(most), this.width, up(most));
      pen.fillText(`${type} peak`, this.width - 110, up(most) + 12);
    }
    this.points = points.map(({step, x, y}) => ({step, x: across(x), y: up(y)}));
    for (const {step, x, y} of this.points) {
      const isChosen = step === this.store.focus.step;
      pen.fillStyle = this.colour(isChosen ? "chosen" : this.plan.steps[step].phase === "backward" ? "role-backward" : "role-forward");
      pen.beginPath();
      pen.arc(x, y, isChosen ? 7 : 4, 0, 7);
      pen.fill();
      pen.stroke();
    }
    pen.restore();
    this.drawAxes(pen, {top, bottom, x: [x0, x1, across], y: [y0, y1, up]});
  }

  drawAxes(pen, {top, bottom, x: [x0, x1, across], y: [y0, y1, up]}) {
    pen.strokeStyle = this.colour("line");
    pen.strokeRect(MARGIN, top, this.width - MARGIN - 8, bottom - top);
    pen.fillStyle = this.colour("muted");
    pen.textAlign = "center";
    for (let power = Math.ceil(x0); power < x1; power++) pen.fillText(String(Number((10 ** power).toPrecision(1))), across(10 ** power), bottom + 14);
    pen.textAlign = "right";
    for (let power = Math.ceil(y0); power < y1; power++) pen.fillText(`${Number((10 ** (power - 9)).toPrecision(1))} G/s`, MARGIN - 6, up(10 ** power) + 4);
    pen.fillText("operations a byte", this.width - 10, bottom - 6);
    pen.textAlign = "left";
  }

  line(pen, ...[x, y, right, top]) {
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(right, top);
    pen.stroke();
  }

  onClick({offsetX: x, offsetY: y}) {
    const distance = point => (point.x - x) ** 2 + (point.y - y) ** 2;
    const nearest = this.points.reduce((best, each) => !best || distance(each) < distance(best) ? each : best, null);
    const found = y <= STRIP ? this.places.find(each => each.left <= x && x < each.right)
      : nearest && distance(nearest) < 400 ? nearest : null;
    if (found) this.store.select("step", found.step);
  }
}

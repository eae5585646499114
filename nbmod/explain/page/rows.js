// A list of any length: only the visible rows are elements.
"use strict";

const ROW_HEIGHT = 26;  // as in style.css

/**
 * A list box whose rows `render(index)` makes, an array of children; `selected` is one of them.
 *
 * `choose(index)` is called when the reader picks a row, by mouse or by arrow keys.
 */
class RowList {
  constructor({label, render, choose, rowClass = () => "", overlay = null}) {
    Object.assign(this, {render, choose, rowClass, overlay});
    this.count = 0;
    this.selected = -1;
    this.id = `rows${RowList.made = (RowList.made ?? 0) + 1}`;
    this.body = h("div", {class: "rows-body", role: "presentation"});
    this.element = h("div", {
      class: "rows", role: "listbox", tabindex: 0, "aria-label": label,
      onscroll: () => this.draw(), onkeydown: event => this.onKey(event),
      onclick: event => {
        const row = event.target.closest("[data-row]");
        if (row) this.choose(Number(row.dataset.row));
      }}, this.body);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Show `count` rows, one of them selected, and scroll there if it has changed. */
  show(count, selected, {reveal = true} = {}) {
    const isNew = selected !== this.selected;
    this.count = count;
    this.selected = selected;
    this.body.style.height = `${count * ROW_HEIGHT}px`;
    if (isNew && reveal && selected >= 0) this.reveal(selected);
    this.draw();
  }

  reveal(index) {
    const {element} = this, top = index * ROW_HEIGHT;
    const isVisible = element.scrollTop <= top
                      && top + ROW_HEIGHT <= element.scrollTop + element.clientHeight;
    if (!isVisible) element.scrollTop = top - element.clientHeight / 2;
  }

  /** First and last visible row. */
  range() {
    const {scrollTop, clientHeight} = this.element;
    return [Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - 3),
            Math.min(this.count, Math.ceil((scrollTop + clientHeight) / ROW_HEIGHT) + 3)];
  }

  draw() {
    const [first, last] = this.range();
    const rows = [];
    for (let index = first; index < last; index++) {
      rows.push(h("div", {
        id: `${this.id}-${index}`, "data-row": index, role: "option",
        class: `row ${this.rowClass(index)}`, "aria-selected": String(index === this.selected),
        "aria-setsize": this.count, "aria-posinset": index + 1,
        style: `top:${index * ROW_HEIGHT}px`}, this.render(index)));
    }
    if (this.overlay) rows.push(this.overlay(first, last));
    this.body.replaceChildren(...rows);
    const isDrawn = first <= this.selected && this.selected < last;
    if (isDrawn) this.element.setAttribute("aria-activedescendant", `${this.id}-${this.selected}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  onKey(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT) - 1);
    const moves = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
                   Home: -this.count, End: this.count};
    if (!(event.key in moves) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const target = this.next(this.selected, moves[event.key]);
    if (target >= 0) this.choose(target);
  }

  /** The row to which a key leads. */
  next(from, move) {
    return Math.min(this.count - 1, Math.max(0, from + move));
  }
}

// Elements, and numbers as text.
"use strict";

/** An element: h("a", {href: "#step=3", class: "link"}, "text", child, ...). */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter(each => each != null && each !== false));
  return element;
}

/** The same for SVG. */
function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Bytes with three digits: "1.36 MB". */
function bytesText(count) {
  for (const unit of ["B", "KB", "MB"]) {
    if (Math.abs(count) < 1024) return `${Number(count.toPrecision(3))} ${unit}`;
    count /= 1024;
  }
  return `${Number(count.toPrecision(3))} GB`;
}

/** 1234567 as "1,234,567". */
const countText = count => count.toLocaleString("en-US");

/** Nanoseconds with three digits: "78.3 µs". */
function timeText(nanoseconds) {
  for (const unit of ["ns", "µs", "ms"]) {
    if (nanoseconds < 1000) return `${Number(nanoseconds.toPrecision(3))} ${unit}`;
    nanoseconds /= 1000;
  }
  return `${Number(nanoseconds.toPrecision(3))} s`;
}

/** Shape and type: "16×64×56×56 float32". */
const tensorText = tensor =>
  tensor ? `${tensor.shape.length ? tensor.shape.join("×") : "scalar"} ${tensor.dtype}` : "unknown";

/** "1 step", "2 steps". */
const plural = (count, noun) => `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;

/** A table with a heading for each column; cells are texts or elements. */
function table(caption, headings, rows) {
  return h("table", {}, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, headings.map(each => h("th", {scope: "col"}, termed(each))))),
    h("tbody", {}, rows.map(row => h("tr", {}, row.map(cell => h("td", {}, cell))))));
}

/** The pen of an emptied canvas of a view, which gets its size and the page's colours; null while it is hidden. */
function emptied(view) {
  const {canvas} = view, scale = window.devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
  view.width = canvas.clientWidth;
  view.height = canvas.clientHeight;
  if (!view.width) return null;
  view.colour = name => style.getPropertyValue(`--${name}`).trim();
  canvas.width = view.width * scale;
  canvas.height = view.height * scale;
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.font = "11px system-ui, sans-serif";
  return pen;
}

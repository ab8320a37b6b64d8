
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

/* Elements are made of names, attributes and text. Nothing from the data becomes markup. */
function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}
function svg(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, String(value));
  element.append(...children.filter((child) => child !== null));
  return element;
}

const count = (n) => Math.round(n).toLocaleString("en");
function scaled(n, units, step) {
  let at = 0;
  while (Math.abs(n) >= step && at < units.length - 1) { n /= step; at += 1; }
  return `${at ? n.toPrecision(3).replace(/e\+3$/, "") : String(Number(n.toFixed(2)))} ${units[at]}`;
}
const bytes = (n) => scaled(n, ["B", "kB", "MB", "GB"], 1000);
const micros = (n) => (n < 1 ? `${n.toFixed(2)} µs` : n < 1000 ? `${n.toPrecision(3)} µs` : millis(n / 1000));
const millis = (n) => (n < 0.1 ? micros(n * 1000) : n < 10 ? `${n.toFixed(2)} ms` : n < 1000 ? `${n.toFixed(0)} ms` : `${(n / 1000).toFixed(2)} s`);
const seconds = (n) => (n < 0.01 ? "under 0.01 s" : n < 10 ? `${n.toFixed(2)} s` : `${n.toFixed(0)} s`);
const percent = (n) => `${(100 * n).toFixed(n < 0.1 ? 1 : 0)} %`;
const tiny = (n) => (n === 0 ? "0" : n.toExponential(1));
const cut = (text, room) => {
  const end = Math.ceil(0.6 * (room - 1));
  return text.length <= room ? text : room < 5 ? "" : `${text.slice(0, room - 1 - end)}…${text.slice(-end)}`;
};
const breakable = (name) => name.split(/(?<=[_/])/).flatMap((piece) => [piece, el("wbr")]);
const plural = (n, one) => `${count(n)} ${one}${n === 1 ? "" : "s"}`;

/* Draw a picture as wide as its place, and again when that changes. */
function picture(id, label, paint) {
  const place = byId(id);
  let drawn = 0;
  const draw = () => {
    const width = Math.floor(place.clientWidth);
    if (!width || width === drawn) return;
    drawn = width;
    const [height, ...shapes] = paint(width);
    place.replaceChildren(
      svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ...shapes),
    );
  };
  new ResizeObserver(draw).observe(place);
  draw();
}
function text(x, y, content, attributes) {
  return svg("text", { x, y, ...attributes }, content);
}
function rect(x, y, width, height, kind, hint) {
  const shape = svg("rect", { x, y, width: Math.max(width, 0.5), height: Math.max(height, 0.5), class: kind });
  if (hint) shape.append(svg("title", {}, hint));
  return shape;
}
function line(x1, y1, x2, y2, kind) {
  return svg("line", { x1, y1, x2, y2, class: kind || "axis" });
}
function key(id, entries) {
  byId(id).append(...entries.map(([kind, name]) => {
    const mark = svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, rect(0, 0, 14, 14, kind));
    return el("span", {}, mark, name);
  }));
}

/* A table whose columns sort: [heading, cell of a row, value to sort by or null, class]. */
function sortable(id, caption, columns, rows, by) {
  const body = el("tbody"), heads = columns.map(([name, , value, kind], column) => {
    const head = el("th", { scope: "col", class: kind || "" });
    if (!value) { head.append(name); return head; }
    const button = el("button", { type: "button" }, name);
    button.addEventListener("click", () => order(column, head.getAttribute("aria-sort") !== "descending"));
    head.append(button);
    return head;
  });
  function order(column, down) {
    heads.forEach((head, at) => (at === column ? head.setAttribute("aria-sort", down ? "descending" : "ascending") : head.removeAttribute("aria-sort")));
    const value = columns[column][2], sign = down ? -1 : 1;
    const compare = (a, b) => (value(a) < value(b) ? -sign : value(a) > value(b) ? sign : 0);
    body.replaceChildren(...rows.slice().sort(compare).map((row) => el("tr", {}, ...columns.map(([, cell, , kind]) => el("td", { class: kind || "" }, cell(row))))));
  }
  order(by, true);
  byId(id).replaceChildren(el("table", {}, el("caption", { class: "hidden" }, caption), el("thead", {}, el("tr", {}, ...heads)), body));
}
function table(caption, heads, rows) {
  const right = (at) => (at ? "n" : "");
  return el("table", {}, el("caption", { class: "hidden" }, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head, at) => el("th", { scope: "col", class: right(at) }, head)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, at) => el("td", { class: right(at) }, cell))))));
}

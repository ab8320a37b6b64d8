
/* The graph: steps in rows by how far they are from the inputs, with edges between them. */
const NODE = 232, ROW = 46;
function graph() {
  const outer = steps.filter((step) => step.depth === 0), end = outer.length;
  /* The time of a loop, a branch or a call is that of the steps in it. */
  const times = outer.map((_, at) => steps.reduce((sum, step) => (step.outer === at ? sum + step.microseconds : sum), 0));
  const slowest = Math.max(...times, 1e-9), heatOf = (at) => [0.02, 0.1, 0.3, 0.6].filter((share) => times[at] / slowest > share).length;
  const inside = outer.map((_, at) => steps.filter((step) => step.outer === at && step.depth).length);
  const incoming = new Map(), ranks = new Map([[-1, 0]]);
  for (const [from, to] of program.edges) incoming.set(to, [...(incoming.get(to) || []), from]);
  for (let at = 0; at <= end; at += 1) ranks.set(at, 1 + Math.max(-1, ...(incoming.get(at) || []).map((from) => ranks.get(from))));
  const rows = [];
  for (const [node, rank] of ranks) (rows[rank] = rows[rank] || []).push(node);
  const parts = (node) => (node < 0 || node === end ? [] : outer[node].kind === "layer" ? [outer[node].algorithm, ...outer[node].matched] : outer[node].matched);
  const chips = (node) => chunks(parts(node));
  const tall = (node) => 44 + 24 * chips(node).length;
  const places = new Map();
  let y = 12, widest = 0;
  for (const row of rows) {
    const centre = (node) => mean((incoming.get(node) || []).map((from) => places.get(from)).filter(Boolean).map((p) => p.x));
    row.sort((a, b) => centre(a) - centre(b));
    row.forEach((node, at) => places.set(node, { x: (at - (row.length - 1) / 2) * (NODE + 28), y, height: tall(node) }));
    widest = Math.max(widest, row.length);
    y += Math.max(...row.map(tall)) + ROW;
  }
  const across = widest * (NODE + 28) + 160, deep = y - ROW + 12;
  const shapes = [svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0 8 4 0 8z", class: "tip" })))];
  for (const [from, to] of program.edges) {
    const a = places.get(from), b = places.get(to), top = a.y + a.height, jump = ranks.get(to) - ranks.get(from) > 1;
    const bow = jump ? Math.min(70 + 6 * (ranks.get(to) - ranks.get(from)), 130) + NODE / 2 : 0;
    const shift = jump ? NODE / 2 - 24 : 0;
    const path = jump
      ? `M${a.x + shift} ${top} C${a.x + bow} ${top + 40} ${b.x + bow} ${b.y - 40} ${b.x + shift} ${b.y - 1}`
      : `M${a.x} ${top} C${a.x} ${top + 22} ${b.x} ${b.y - 24} ${b.x} ${b.y - 1}`;
    shapes.push(svg("path", { d: path, class: "edge", "marker-end": "url(#arrow)" }));
  }
  for (const [node, place] of places) {
    const step = outer[node], left = place.x - NODE / 2;
    const group = svg("g", {}, rect(left, place.y, NODE, place.height, step ? `node heat-${heatOf(node)}` : "node port"));
    const name = node < 0 ? "inputs" : node === end ? "outputs" : cut(layerName(step), 26);
    const about = node < 0 ? data.feeds.map((f) => f.name).join(", ") : node === end ? data.fetches.map((f) => f.name).join(", ") : `${micros(times[node])} · ${percent(times[node] / whole)} · ${inside[node] ? `${plural(inside[node], "step")} inside` : step.kind}`;
    group.append(text(left + 10, place.y + 18, name, { class: "strong" }), text(left + 10, place.y + 35, cut(about, 35), {}));
    chips(node).forEach((chipRow, at) => {
      let x = left + 10;
      for (const chip of chipRow) {
        const wide = chipWidth(chip);
        group.append(rect(x, place.y + 42 + 24 * at, wide, 19, "chip"), text(x + wide / 2, place.y + 55.5 + 24 * at, cut(chip, 27), { class: "small", "text-anchor": "middle" }));
        x += wide + 5;
      }
    });
    if (step) group.append(svg("title", {}, `${step.layer || step.step}: ${parts(node).join(" + ") || step.kind}, ${micros(times[node])}, ${bytes(step.bytes)}`));
    shapes.push(group);
  }
  const drawing = svg("svg", { role: "img", "aria-label": `The graph: ${plural(end, "step")} in ${plural(rows.length - 2, "row")}` }, ...shapes);
  byId("graph").append(drawing);
  movable(byId("graph"), drawing, { x: -across / 2, y: 0, width: across, height: deep });
  key("graph-key", [0, 1, 2, 3, 4].map((heat) => [`heat-${heat}`, ["under 2 %", "2 to 10 %", "10 to 30 %", "30 to 60 %", "over 60 % of the slowest step"][heat]]));
}
const mean = (numbers) => (numbers.length ? numbers.reduce((a, b) => a + b, 0) / numbers.length : 0);
const chipWidth = (chip) => Math.min(cut(chip, 27).length * 6.3 + 14, NODE - 20);
function chunks(names) {
  const rows = [];
  let used = NODE;
  for (const name of names) {
    used += chipWidth(name) + 5;
    if (used > NODE - 15) { rows.push([]); used = chipWidth(name) + 5; }
    rows[rows.length - 1].push(name);
  }
  return rows;
}

/* Zoom and move by the view box. */
function movable(place, drawing, all) {
  const view = { x: 0, y: 0, scale: 1 };
  const show = () => {
    const [width, height] = [place.clientWidth, place.clientHeight];
    if (width && height) drawing.setAttribute("viewBox", `${view.x} ${view.y} ${width / view.scale} ${height / view.scale}`);
  };
  const zoom = (by) => {
    const [width, height] = [place.clientWidth, place.clientHeight], next = Math.min(4, Math.max(0.05, view.scale * by));
    view.x += width / 2 / view.scale - width / 2 / next;
    view.y += height / 2 / view.scale - height / 2 / next;
    view.scale = next;
    show();
  };
  const start = () => {
    view.scale = Math.min(1, place.clientWidth / (NODE + 110));
    view.x = -place.clientWidth / 2 / view.scale;
    view.y = 0;
    show();
  };
  const fit = () => {
    view.scale = Math.min(place.clientWidth / all.width, place.clientHeight / all.height, 1);
    view.x = -place.clientWidth / 2 / view.scale;
    view.y = all.y + all.height / 2 - place.clientHeight / 2 / view.scale;
    show();
  };
  const moves = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] };
  const move = (dx, dy) => { view.x += dx / view.scale; view.y += dy / view.scale; show(); };
  place.addEventListener("keydown", (event) => {
    if (moves[event.key]) move(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else return;
    event.preventDefault();
  });
  place.addEventListener("pointerdown", (event) => { if (event.pointerType !== "touch") place.setPointerCapture(event.pointerId); });
  place.addEventListener("pointermove", (event) => { if (event.buttons) move(-event.movementX, -event.movementY); });
  place.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.15 : 0.87);
  }, { passive: false });
  byId("graph-tools").append(...[["Zoom in", () => zoom(1.25)], ["Zoom out", () => zoom(0.8)], ["Show all", fit], ["Start", start]].map(([name, act]) => {
    const button = el("button", { type: "button" }, name);
    button.addEventListener("click", act);
    return button;
  }));
  new ResizeObserver(show).observe(place);
  start();
}


/* Cold start, sizes, memory, errors, types of weights, cost and the build. */
function bars(id, label, rows) {
  /* rows: [name, from, to, class, what it says]; a bar for each, one below the other */
  const end = Math.max(...rows.map((row) => row[2]), 1e-9);
  picture(id, label, (width) => {
    const narrow = width < 560, high = narrow ? 44 : 28, left = narrow ? 0 : 170, longest = Math.max(...rows.map((row) => row[4].length));
    const room = width - left - (narrow ? 0 : longest * 6.8 + 14);
    const shapes = rows.flatMap(([name, from, to, kind, says], at) => {
      const y = at * high, x = left + Math.min((from / end) * room, room - 2), wide = Math.max(((to - from) / end) * room, 2), bar = y + (narrow ? 20 : 5);
      return [
        text(narrow ? 0 : left - 12, y + (narrow ? 14 : 18), name, { "text-anchor": narrow ? "start" : "end" }),
        text(width, y + (narrow ? 14 : 18), says, { "text-anchor": "end", class: "number" }),
        rect(left, bar, room, 17, "well"), rect(x, bar, wide, 17, kind, `${name}: ${says}`),
      ];
    });
    return [rows.length * high, ...shapes];
  });
}

function coldStart() {
  const run = data.bench.function;
  if (!run) { byId("start-about").textContent = "The function was not measured."; return; }
  const { imports, load, first, decode, infer } = run.start, total = imports + load + first;
  byId("start-about").textContent = `${millis(total)} from nothing to the first answer, in Lambda's emulator on Python ${run.python}: the median of ${plural(run.starts, "start")}. A later answer takes ${millis(run.warm.p50)} (p99 ${millis(run.warm.p99)}), of which the function itself takes ${millis(run.handler)}.${run.note ? ` ${run.note}` : ""}`;
  const begin = imports + load, rest = Math.max(first - decode - infer, 0);
  bars("start", `A cold start of ${millis(total)}`, [
    ["Python and imports", 0, imports, "bar", millis(imports)],
    ["Opening the model", imports, begin, "bar", millis(load)],
    ["Decoding the request", begin, begin + decode, "bar", millis(decode)],
    ["Inference", begin + decode, begin + decode + infer, "bar", millis(infer)],
    ["Everything else", begin + decode + infer, begin + decode + infer + rest, "bar", millis(rest)],
  ]);
}

/* Squarified treemap (Bruls, Huizing, van Wijk): [item, x, y, width, height] for each item, largest first. */
function squares(items, x, y, width, height) {
  const placed = [], sum = items.reduce((all, item) => all + item.bytes, 0);
  let todo = items.filter((item) => item.bytes > 0).sort((a, b) => b.bytes - a.bytes), scale = (width * height) / sum;
  const worst = (row, side) => {
    const all = row.reduce((n, item) => n + item.bytes * scale, 0);
    return Math.max(...row.map((item) => Math.max((side * side * item.bytes * scale) / all ** 2, all ** 2 / (side * side * item.bytes * scale))));
  };
  while (todo.length) {
    const side = Math.min(width, height), row = [todo[0]];
    let at = 1;
    while (at < todo.length && worst([...row, todo[at]], side) <= worst(row, side)) row.push(todo[at++]);
    todo = todo.slice(at);
    const all = row.reduce((n, item) => n + item.bytes * scale, 0), thick = side ? all / side : 0;
    let along = 0;
    for (const item of row) {
      const long = thick ? (item.bytes * scale) / thick : 0;
      placed.push(width >= height ? [item, x, y + along, thick, long] : [item, x + along, y, long, thick]);
      along += long;
    }
    if (width >= height) { x += thick; width -= thick; } else { y += thick; height -= thick; }
  }
  return placed;
}

function sizes() {
  const groups = data.sizes.children.map((group) => ({ ...group, bytes: group.children.reduce((n, leaf) => n + leaf.bytes, 0) }));
  const share = (n) => percent(n / data.sizes.bytes);
  const largest = groups.slice().sort((a, b) => b.bytes - a.bytes);
  byId("sizes-about").textContent = `${bytes(data.sizes.bytes)} unzipped in Lambda, ${bytes(data.zipped)} to upload. ${largest.slice(0, 2).map((g) => `${g.name}: ${bytes(g.bytes)}, ${share(g.bytes)}`).join("; ")}.`;
  picture("sizes", `What ${bytes(data.sizes.bytes)} are: ${largest.map((g) => `${g.name} ${bytes(g.bytes)}`).join(", ")}`, (width) => {
    const height = Math.min(460, Math.max(300, width * 0.42)), shapes = [];
    for (const [group, x, y, w, h] of squares(groups, 0, 0, width, height)) {
      for (const [leaf, lx, ly, lw, lh] of squares(group.children, x + 1, y + 1, Math.max(w - 2, 0), Math.max(h - 2, 0))) {
        shapes.push(rect(lx, ly, lw, lh, `tile c-${group.kind}`, `${group.name}: ${leaf.name}, ${bytes(leaf.bytes)} (${share(leaf.bytes)})`));
        const room = Math.floor((lw - 10) / 6.6), name = names.get(leaf.name) || leaf.name;
        if (lh < 18 || room < Math.min(9, name.length)) continue;
        shapes.push(text(lx + 6, ly + 15, cut(name, room), { class: "small" }));
        if (lh > 34 && room >= 7) shapes.push(text(lx + 6, ly + 29, bytes(leaf.bytes), { class: "small" }));
      }
    }
    return [height, ...shapes];
  });
  key("sizes-key", groups.map((g) => [`c-${g.kind}`, `${g.name} ${bytes(g.bytes)}`]));
  const leaves = groups.flatMap((g) => g.children.map((leaf) => [`${g.name}: ${leaf.name}`, leaf.bytes])).sort((a, b) => b[1] - a[1]);
  byId("sizes-table").append(table("Sizes", ["Part", "Bytes", "Share"], leaves.map(([name, n]) => [name, count(n), share(n)])));
}

function memory() {
  const { arena, lives, steps: columns } = data.memory, outer = steps.filter((step) => step.depth === 0);
  const alone = lives.reduce((n, life) => n + life[1], 0);
  byId("memory-about").textContent = lives.length
    ? `The arena has ${bytes(arena)}, planned when the model was built. Each block is a value: from the step that makes it to the last one that reads it. The ${plural(lives.length, "value")} would need ${bytes(alone)} if none shared a place.`
    : "This model keeps no values between its steps.";
  if (!lives.length) return;
  const maker = (at) => (at < 0 ? "input" : layerName(outer[at]));
  picture("memory", `The arena of ${bytes(arena)} over ${plural(columns, "step")}`, (width) => {
    const left = 58, height = Math.min(400, Math.max(240, width * 0.36)), bottom = height - 36, wide = (width - left - 4) / (columns + 1);
    const y = (offset) => bottom - (offset / arena) * (bottom - 8), shapes = [];
    for (const part of [0, 0.25, 0.5, 0.75, 1]) shapes.push(line(left, y(arena * part), width - 4, y(arena * part), "grid"), text(left - 6, y(arena * part) + 4, bytes(arena * part), { class: "soft", "text-anchor": "end" }));
    for (const [offset, size, first, last, scratch, by] of lives) {
      const x = left + (first + 1) * wide, end = left + (Math.min(last, columns - 1) + 2) * wide, top = y(offset + size), high = y(offset) - top;
      shapes.push(rect(x, top, end - x - 0.5, high, `tile ${by < 0 ? "c-dependencies" : scratch ? "c-tables" : "c-weights"}`, `${maker(by)}${scratch ? ", scratch" : ""}: ${bytes(size)} at ${count(offset)}, steps ${Math.max(first, 0) + 1} to ${Math.min(last, columns - 1) + 1}`));
      const room = Math.floor((end - x - 10) / 6.5);
      if (high > 16 && room > 8) shapes.push(text(x + 5, top + 14, cut(maker(by), room), { class: "small" }));
    }
    const every = Math.ceil(columns / Math.max(1, Math.floor((width - left) / 60)));
    for (let at = 0; at < columns; at += every) shapes.push(text(left + (at + 1.5) * wide, bottom + 15, String(at + 1), { class: "soft", "text-anchor": "middle" }));
    shapes.push(text((left + width) / 2, height - 4, "steps, in the order they run", { class: "soft", "text-anchor": "middle" }));
    return [height, ...shapes];
  });
  key("memory-key", [["c-dependencies", "input"], ["c-weights", "value"], ...(lives.some((life) => life[4]) ? [["c-tables", "scratch of one step"]] : [])]);
}

function errors() {
  const place = byId("error"), outputs = data.agreement.outputs;
  data.agreement.histograms.forEach((found, number) => {
    const said = outputs.find((output) => output.fetch === found.fetch), id = `histogram-${number}`;
    const allowed = said && !said.exact ? ` Allowed is ${said.absolute.toExponential()} + ${said.relative.toExponential()} × |answer|, and what TensorFlow's own answers move by.` : "";
    const heading = data.agreement.histograms.length > 1 ? el("h3", {}, found.fetch) : null;
    const about = `${plural(found.numbers, "number")} in the answers to ${plural(found.cases.length, "golden input")}. Equal to TensorFlow's: ${count(found.exact)}. The worst is ${tiny(found.worst)} away.${allowed}`;
    place.append(...[heading, el("p", {}, about), el("div", { id })].filter(Boolean));
    if (found.bars.length) histogram(id, found);
    const cases = found.cases.slice().sort((a, b) => b.worst - a.worst).map((c) => [c.case, tiny(c.worst)]);
    place.append(el("details", {}, el("summary", {}, "By golden input"), table("The worst error by golden input", ["Input", "Worst error"], cases)));
  });
  if (!data.agreement.histograms.length) place.append(el("p", {}, "The answers are integers, and equal to TensorFlow's."));
}
function histogram(id, found) {
  const least = found.bars[0][0] <= 1.0001e-10; /* the first bar has all that is smaller, too */
  const columns = [["0", found.exact], ...found.bars.map(([low, high, n], at) => [`${at || !least ? `${tiny(low)} to` : "under"} ${tiny(high)}`, n])];
  const most = Math.max(...columns.map((c) => c[1]), 1);
  picture(id, `Histogram of errors: ${columns.filter((c) => c[1]).map(([name, n]) => `${name}: ${n}`).join(", ")}`, (width) => {
    const height = 220, left = 44, bottom = height - 40, wide = (width - left - 4) / columns.length, shapes = [];
    for (const part of [0, 0.5, 1]) shapes.push(line(left, bottom - part * (bottom - 22), width - 4, bottom - part * (bottom - 22), "grid"), text(left - 6, bottom - part * (bottom - 22) + 4, count(most * part), { class: "soft", "text-anchor": "end" }));
    columns.forEach(([name, n], at) => {
      const x = left + at * wide, high = (n / most) * (bottom - 22);
      if (n) shapes.push(rect(x + 1, bottom - high, wide - 2, high, at ? "bar" : "c-code", `${name}: ${count(n)}`), wide > 22 ? text(x + wide / 2, bottom - high - 5, count(n), { class: "small", "text-anchor": "middle" }) : null);
    });
    shapes.push(text(left + wide / 2, bottom + 15, "0", { class: "soft", "text-anchor": "middle" }));
    let free = left + wide + 20;
    if (least && wide > 50) { shapes.push(text(left + 1.5 * wide, bottom + 15, `< ${tiny(found.bars[0][1])}`, { class: "soft", "text-anchor": "middle" })); free = left + 2 * wide + 10; }
    found.bars.forEach(([low], at) => {
      const x = left + (at + 1) * wide, power = Math.log10(low);
      if (Math.abs(power - Math.round(power)) < 1e-6 && x > free) { shapes.push(line(x, bottom, x, bottom + 4), text(x, bottom + 15, `1e${Math.round(power)}`, { class: "soft", "text-anchor": "middle" })); free = x + 44; }
    });
    shapes.push(text((left + width) / 2, height - 5, "absolute error", { class: "soft", "text-anchor": "middle" }));
    return [height, ...shapes.filter(Boolean)];
  });
}

function types() {
  const place = byId("types"), found = data.accuracy;
  if (!found) { place.append(el("p", {}, "Not measured. Run ", el("code", {}, "coldforge accuracy"), ", and the next report shows here what each type of weights costs.")); return; }
  for (const [source, items] of Object.entries(found.items)) {
    const share = (v) => (v === null ? "–" : `${(100 * v).toFixed(2)} %`);
    const rows = found.types.flatMap((kind) => kind.accuracy[source].outputs.map((output) => [
      `${kind.type}${kind.activations === "int8" ? ", inputs too" : ""}`, bytes(kind.library), output.output, share(output.top1), tiny(output.worst), tiny(output.mean), share(output.right),
    ]));
    place.append(el("p", {}, `${plural(items, "item")} of ${source}, against TensorFlow's float32.`), el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": `Accuracy on ${source}` }, table(`Accuracy on ${source}`, ["Weights", "libmodel.so", "Output", "Same top-1", "Worst error", "Mean error", "Right"], rows)));
  }
}

function cost() {
  const found = data.cost;
  if (!found) { byId("cost-about").textContent = "The function was not measured, so there is no cost to show."; return; }
  byId("cost-about").textContent = `Warm requests on ${data.target.arch} in ${found.region}, at the prices of ${found.date}: $${found.million_requests.toFixed(2)} for a million requests and $${found.gb_second.toFixed(10).replace(/0+$/, "")} for a GB-second, each begun millisecond. The function itself takes ${millis(found.handler_ms)} here; below 1769 MB it is reckoned to take longer by as much as it has less processor. Cold starts, logs, transfer and HTTP come on top.`;
  bars("cost", "US dollars for a million requests, by memory", found.rows.map((row) => [`${count(row.memory)} MB`, 0, row.dollars, "bar", `$${row.dollars.toFixed(2)} · ${plural(row.billed, "ms")} billed`.replace("mss", "ms")]));
}

function build() {
  const stages = data.stages;
  if (!stages) { byId("build-about").textContent = "What the stages took was not kept: the bundle was built in Docker, or by an earlier coldforge."; return; }
  const known = stages.filter((stage) => stage.seconds !== null), all = known.reduce((n, stage) => n + stage.seconds, 0);
  byId("build-about").textContent = `${seconds(all)} for all stages, each as long as it took when it last ran${stages.some((s) => s.cached) ? "; what is kept is from an earlier build" : ""}.`;
  let from = 0;
  bars("build", `The build: ${stages.map((s) => s.name).join(", ")}`, stages.map((stage) => {
    const took = stage.seconds || 0, row = [stage.name, from, from + took, stage.cached ? "c-tables" : "bar", `${stage.seconds === null ? "time not known" : seconds(took)}${stage.cached ? ", kept" : ""}`];
    from += took;
    return row;
  }));
}

for (const draw of [head, stepTable, roofline, graph, coldStart, sizes, memory, errors, types, cost, build]) draw();

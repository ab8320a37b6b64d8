
/* The figures at the top, the table of steps and the roofline. */
const program = data.program, steps = program.steps, whole = program.together.microseconds;
/* A layer's name without what all have in common, and without its inner part where the name alone tells it apart. */
const names = (() => {
  const paths = new Map(steps.filter((s) => s.layer).map((s) => [s.layer, s.layer.split("/").filter(Boolean)]));
  const every = [...paths.values()], found = new Map();
  let common = 0;
  while (every.length && every.every((path) => path.length > common + 1 && path[common] === every[0][common])) common += 1;
  const alone = (path) => every.filter((other) => other[common] === path[common]).length === 1;
  for (const [layer, path] of paths) {
    const [first, last] = [path[common] || layer, path[path.length - 1] || ""];
    const short = alone(path) || first.startsWith(last) ? first : `${first}/${last}`;
    found.set(layer, [...found.values()].includes(short) ? path.slice(common).join("/") : short);
  }
  return found;
})();
const layerName = (step) => names.get(step.layer) || step.step;
const mega = (flop) => (flop < 1e5 ? (flop / 1e6).toPrecision(1) : (flop / 1e6).toLocaleString("en", { maximumFractionDigits: flop < 1e8 ? 2 : 0, minimumFractionDigits: flop < 1e8 ? 2 : 0 }));
const speedOf = (step) => (step.microseconds ? (step.flop * step.calls) / step.microseconds / 1e3 : 0);

function head() {
  const model = data.model, worst = Math.max(...data.agreement.histograms.map((h) => h.worst), 0), run = data.bench;
  byId("about").textContent = `${data.feeds.map((f) => `${f.dtype} [${f.shape}]`).join(", ")} → ${data.fetches.map((f) => `${f.dtype} [${f.shape}]`).join(", ")} · ${data.target.arch} · measured on ${data.cpu}, one thread`;
  const cards = [["An answer of the library", millis(run.library.p50)]];
  if (run.function) {
    const start = run.function.start;
    cards.push(["Cold start, with the first answer", millis(start.imports + start.load + start.first)]);
  }
  cards.push(["To upload", bytes(data.zipped)], ["Unzipped", bytes(data.unzipped)], ["Working memory", bytes(data.memory.arena)], ["Worst error", tiny(worst)]);
  byId("cards").append(...cards.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  byId("made").textContent = `Made by coldforge ${data.coldforge} of ${model.name} ${model.version}${model.source?.origin ? `, ${model.source.origin}` : ""}. This file loads nothing and sends nothing.`;
}

function stepTable() {
  const layers = percent(program.together.layer_share);
  byId("steps-about").textContent = `${plural(steps.length, "step")} take ${micros(whole)} together: the fastest of ${plural(program.rounds, "run")} of each, on the kernels for ${program.isa}. Fused layers do ${layers} of the multiplications.`;
  const bar = (step) => {
    const share = step.microseconds / whole;
    return el("span", { class: "share" }, svg("svg", { viewBox: "0 0 100 8", width: 64, height: 8, preserveAspectRatio: "none", "aria-hidden": "true" }, rect(0, 0, 100, 8, "well"), rect(0, 0, 100 * share, 8, "bar")), percent(share));
  };
  const called = (step) => `${"· ".repeat(step.depth)}${layerName(step)}${step.calls > 1 ? ` ×${step.calls}` : ""}`;
  sortable("steps", "The steps of the program", [
    ["#", (s) => String(s.number), (s) => s.number, "n"],
    ["Step", (s) => el("span", { title: s.layer || s.step }, ...breakable(called(s))), (s) => layerName(s).toLowerCase()],
    ["Time", (s) => micros(s.microseconds), (s) => s.microseconds, "n"],
    ["Share", bar, (s) => s.microseconds, "n"],
    ["What runs", (s) => [s.kind, s.algorithm, s.matched.join(" + ")].filter(Boolean).join(", "), (s) => s.kind + s.algorithm],
    ["MFLOP", (s) => (s.flop ? mega(s.flop * s.calls) : "–"), (s) => s.flop * s.calls, "n"],
    ["GFLOP/s", (s) => (s.flop ? speedOf(s).toFixed(1) : "–"), speedOf, "n"],
    ["Read and written", (s) => (s.bytes ? bytes(s.bytes * s.calls) : "–"), (s) => s.bytes * s.calls, "n"],
  ], steps.map((step, at) => ({ ...step, number: at + 1 })), 2);
}

function roofline() {
  const dots = steps.filter((step) => step.flop && step.bytes && step.microseconds);
  const { gflops, bandwidth } = data.peak;
  byId("roof-about").textContent = dots.length
    ? `Each dot is a step with multiplications; its area is its time. The roof is measured on this machine, on one thread: ${gflops.toFixed(0)} GFLOP/s is what OpenBLAS reaches in a product of 512 × 512 matrices, ${bandwidth.toFixed(1)} GB/s what a copy of 128 MiB does. A step above the slope has its data in a cache; Winograd can be above the top, as it multiplies less than is counted.`
    : "No step of this model multiplies: there is nothing to place under a roof.";
  if (!dots.length) return;
  const xs = dots.map((s) => s.flop / s.bytes), ys = dots.map(speedOf), log = Math.log10;
  const [x0, x1] = [log(Math.min(...xs, gflops / bandwidth / 2) / 1.6), log(Math.max(...xs, (2 * gflops) / bandwidth) * 1.6)];
  const [y0, y1] = [log(Math.min(...ys, gflops / 10) / 1.6), log(Math.max(...ys, gflops) * 1.6)];
  const ticks = (from, to) => {
    const found = [];
    for (let power = Math.floor(from); power <= to; power += 1) for (const by of to - from < 2.5 ? [1, 2, 5] : [1]) found.push(by * 10 ** power);
    return found.filter((v) => log(v) >= from && log(v) <= to).map((v) => Number(v.toPrecision(1)));
  };
  picture("roof", `Roofline: ${plural(dots.length, "step")} under ${gflops.toFixed(0)} GFLOP/s`, (width) => {
    const height = Math.min(380, Math.max(260, width * 0.5)), left = 46, bottom = height - 42, right = width - 12, top = 14;
    const x = (v) => left + ((log(v) - x0) / (x1 - x0)) * (right - left), y = (v) => bottom - ((log(v) - y0) / (y1 - y0)) * (bottom - top);
    const shapes = [];
    for (const v of ticks(x0, x1)) shapes.push(line(x(v), top, x(v), bottom, "grid"), text(x(v), bottom + 16, String(v), { class: "soft", "text-anchor": "middle" }));
    for (const v of ticks(y0, y1)) shapes.push(line(left, y(v), right, y(v), "grid"), text(left - 6, y(v) + 4, String(v), { class: "soft", "text-anchor": "end" }));
    const low = Math.max(10 ** x0, 10 ** y0 / bandwidth), ridge = gflops / bandwidth;
    shapes.push(svg("polyline", { points: `${x(low)},${y(low * bandwidth)} ${x(ridge)},${y(gflops)} ${right},${y(gflops)}`, class: "roof" }));
    shapes.push(text((left + right) / 2, height - 6, "FLOP for each byte read or written", { class: "soft", "text-anchor": "middle" }), text(0, 10, "GFLOP/s", { class: "soft" }));
    const placed = dots.map((step) => ({ step, x: x(step.flop / step.bytes), y: y(speedOf(step)), r: 3 + 22 * Math.sqrt(step.microseconds / whole) })).sort((a, b) => b.r - a.r);
    for (const dot of placed) {
      const shape = svg("circle", { cx: dot.x, cy: dot.y, r: dot.r, class: "dot" });
      shape.append(svg("title", {}, `${layerName(dot.step)}: ${micros(dot.step.microseconds)}, ${speedOf(dot.step).toFixed(1)} GFLOP/s`));
      shapes.push(shape);
    }
    /* Names of the slowest steps, where there is room: above, below, right or left of the dot. */
    const taken = placed.map((dot) => [dot.x - dot.r, dot.y - dot.r, 2 * dot.r, 2 * dot.r]), roof = y(gflops);
    for (let at = x(low); at < x(ridge); at += 6) taken.push([at, y(low * bandwidth) + ((at - x(low)) / (x(ridge) - x(low))) * (roof - y(low * bandwidth)), 6, 2]);
    const free = ([bx, by, bw, bh]) => bx > left && bx + bw < right && by > top && by + bh < bottom && (by > roof || by + bh < roof)
      && taken.every(([ox, oy, ow, oh]) => bx > ox + ow || ox > bx + bw || by > oy + oh || oy > by + bh);
    for (const { step, x: cx, y: cy, r } of placed.slice(0, 8)) {
      const name = cut(layerName(step), 26), wide = name.length * 6.6 + 4, high = 14;
      const box = [[cx - wide / 2, cy - r - high - 2], [cx - wide / 2, cy + r + 2], [cx + r + 2, cy - high / 2], [cx - r - wide - 2, cy - high / 2]].map(([bx, by]) => [bx, by, wide, high]).find(free);
      if (!box) continue;
      taken.push(box);
      shapes.push(text(box[0] + wide / 2, box[1] + 11, name, { class: "small", "text-anchor": "middle" }));
    }
    return [height, ...shapes];
  });
}

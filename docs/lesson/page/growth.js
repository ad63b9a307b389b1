// Growth by depth: sizes of the stream after each layer, for five ways to build a stack.

const growthKinds = [
  ["plain", "no norm", "x = x W"],
  ["residual", "residual, no norm", "x = x + x W"],
  ["pre", "pre-norm", "x = x + LN(x) W"],
  ["normed", "norm each layer", "x = LN(x W)"],
  ["post", "post-norm", "x = LN(x + x W)"],
];

// Powers of ten, and of two where the range is short, between two sizes.
function ticksBetween(low, high) {
  const base = high / low > 200 ? 10 : high / low > 24 ? 4 : 2;
  const ticks = [];
  const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
  for (let k = first; base ** k <= high * (1 + 1e-9); ++k) ticks.push(base ** k);
  const stride = Math.ceil(ticks.length / 8);
  return ticks.filter((_, i) => i % stride === 0);
}

function growthChart(curves, depth, gain) {
  // On a phone the names are those of the table below.
  const width = narrow() ? 360 : 720, height = 350, left = narrow() ? 44 : 52, top = 14, bottom = 40;
  const right = narrow() ? 12 : 146;
  const guess = Array.from({ length: depth + 1 }, (_, l) => Math.sqrt(1 + gain * gain * l));
  const all = [...growthKinds.flatMap(([key]) => curves[key].values), ...guess];
  const low = Math.min(...all, 0.8), high = Math.max(...all, 2) * 1.15;
  const x = (l) => left + (l / depth) * (width - left - right);
  const y = (size) => height - bottom -
    (Math.log(size / low) / Math.log(high / low)) * (height - top - bottom);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img",
    "aria-label": `Sizes by depth on a logarithmic scale. After ${depth} layers of gain ${gain}: ` +
      growthKinds.map(([key, name]) => `${name} ${readable(curves[key].values[depth], 3)}`).join(", ") +
      ". The table below has every number.",
  });
  for (const tick of ticksBetween(low, high)) {
    picture.append(svg("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "gridline" }),
      svg("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, readable(tick, 3)));
  }
  const every = Math.ceil(depth / (narrow() ? 6 : 12));
  for (let l = 0; l <= depth; l += every) {
    picture.append(svg("text", { x: x(l), y: height - bottom + 20, "text-anchor": "middle" }, String(l)));
  }
  picture.append(svg("text",
    { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, "layers"));
  const points = (sizes) => sizes.map((s, l) => `${x(l).toFixed(1)},${y(s).toFixed(1)}`).join(" ");
  for (const [key] of growthKinds) {
    picture.append(svg("polyline", { points: points(curves[key].values), class: `curve ${key}` }));
  }
  picture.append(svg("polyline", { points: points(guess), class: "curve guess", stroke: "currentColor" }));
  if (!narrow()) picture.append(...growthLabels(curves, depth, y, width - right + 14));
  return picture;
}

// Names at the ends of the curves, moved apart where they would lie on each other.
function growthLabels(curves, depth, y, at) {
  const ends = growthKinds.map(([key, name]) => ({ key, name, y: y(curves[key].values[depth]) }))
    .sort((a, b) => a.y - b.y);
  for (let i = 1; i < ends.length; ++i) ends[i].y = Math.max(ends[i].y, ends[i - 1].y + 17);
  const over = Math.max(0, ends[ends.length - 1].y - 316);
  ends.forEach((end) => { end.y -= over; });
  return ends.map((end) => svg("text", {
    x: at, y: end.y + 4, style: `fill: var(--${growthColour[end.key]}); font-weight: 600; font-size: 13px`,
  }, end.name));
}

const growthColour = { plain: "alarm", residual: "ffn", pre: "stream", normed: "norm", post: "attention" };

function growthTable(curves, depth, gain) {
  const layers = (narrow() ? [0, 1, 3] : [0, 1, 2, 3, 6, 12]).filter((l) => l < depth).concat(depth);
  const head = element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "after layer"),
    layers.map((l) => element("th", { scope: "col" }, String(l)))));
  const rows = growthKinds.map(([key, name, formula]) => element("tr", { "data-kind": key },
    element("th", { scope: "row" }, element("span", { class: `key ${key}` }), name,
      element("br"), element("code", { class: "soft" }, formula)),
    layers.map((l) => element("td", {}, number(curves[key].values[l], 3)))));
  rows.splice(3, 0,
    element("tr", { "data-kind": "guess" },
      element("th", { scope: "row" }, "√(1 + g² l), dashed"),
      layers.map((l) => element("td", {}, number(Math.sqrt(1 + gain * gain * l), 3)))),
    element("tr", { "data-kind": "branch" },
      element("th", { scope: "row" }, "what its next branch reads, LN(x)"),
      layers.map((l) => element("td", {}, l < depth ? number(curves["pre.branch"].values[l], 3) : "–"))));
  return [element("caption", {}, "Size of the stream"), head, element("tbody", {}, rows)];
}

function updateGrowth() {
  const gain = Number(find("growth-gain").value), depth = Number(find("growth-depth").value);
  replace("growth-gain-value", String(gain));
  replace("growth-depth-value", String(depth));
  const curves = textbook.growth(depth, gain);
  replace("growth-chart", growthChart(curves, depth, gain));
  replace("growth-table", growthTable(curves, depth, gain));
  const end = (key) => number(curves[key].values[depth], 3);
  replace("growth-say",
    `After ${depth} layer${depth === 1 ? "" : "s"} of gain ${gain}: without a norm the size is `, end("plain"),
    ", in the pre-norm stream ", end("pre"), " (√(1 + g² l) says ",
    number(Math.sqrt(1 + gain * gain * depth), 3), "). Yet each pre-norm branch has read rows of size ",
    number(curves["pre.branch"].values[depth - 1], 3),
    ". As the stream grows, one more branch of the same size changes it less and less.");
}

sections.push(() => {
  const update = live("growth", updateGrowth);
  const presets = [["g = 4: 1, 4, 16, 64", 4, 3], ["g = 1: √(1 + l)", 1, 24], ["g = 0.5: fading", 0.5, 12]];
  replace("growth-presets", presets.map(([name, gain, depth]) => element("button", {
    type: "button", class: "quiet",
    click: () => {
      find("growth-gain").value = gain;
      find("growth-depth").value = depth;
      update();
    },
  }, name)));
});

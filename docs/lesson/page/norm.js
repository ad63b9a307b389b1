// Layer norm by hand: four numbers, each step with its numbers put in, and what each switch changes.

const normPresets = [
  ["1, 4, 3, 0", [1, 4, 3, 0]],
  ["far from 0", [1001, 1004, 1003, 1000]],
  ["all equal", [2, 2, 2, 2]],
  ["hardly apart", [0.001, 0.004, 0.003, 0]],
  ["one sticks out", [0, 0, 0, 10]],
];

const normState = { ddof: "C", axis: "features", place: "inside" };

function fourInputs(id, values, name) {
  replace(id, values.map((value, i) => element("input", {
    type: "number", step: "any", value, "aria-label": `${name}, number ${i + 1}`,
    class: `c${i}`,
  })));
}

// The numbers of a row of inputs; one that is no number is marked, and the row is refused.
function readFour(id, name) {
  const inputs = [...find(id).children];
  const values = inputs.map((input) => {
    const good = input.value.trim() !== "" && Number.isFinite(Number(input.value));
    if (good) input.removeAttribute("aria-invalid");
    else input.setAttribute("aria-invalid", "true");
    return good ? Number(input.value) : NaN;
  });
  const at = values.findIndex(Number.isNaN);
  if (at >= 0) throw new Error(`${name}, number ${at + 1}: expected a number, found ` +
    (inputs[at].value.trim() === "" ? "nothing" : `“${inputs[at].value}”`));
  return values;
}

function normMistakes() {
  const found = [];
  if (normState.ddof === "C-1") found.push({ name: "norm.ddof" });
  if (normState.axis === "time") found.push({ name: "norm.axis" });
  if (normState.place === "outside") found.push({ name: "norm.eps-outside-root" });
  if (normState.place === "after") found.push({ name: "norm.eps-misplaced" });
  return found;
}

function numbersRow(values, key) {
  return element("div", { class: "numbers", id: key },
    values.map((x, i) => element("span", { class: `c${i}` }, number(x))));
}

function signed(x, digits = 6) {
  return x < 0 ? `(${readable(x, digits)})` : readable(x, digits);
}

// The four lines of arithmetic, with the numbers that stand in them.
function normSteps({ x, gamma, beta, eps }, steps) {
  const overTime = normState.axis === "time";
  const own = (name) => (overTime ? steps[name].values : [steps[name].values[0]]);
  const line = overTime ? x.map((row) => row[0]) : x[0];
  const count = line.length, divisor = normState.ddof === "C" ? count : count - 1;
  const mean = steps.mean.values[0], variance = steps.variance.values[0];
  const letter = overTime ? "T" : "C";
  const root = {
    inside: `√(${readable(variance, 5)} + ${readable(eps)})`,
    outside: `(√${readable(variance, 5)} + ${readable(eps)})`,
    after: `√${readable(variance, 5)}`,
  }[normState.place];
  const value = (name) => element("p", { class: "value", id: `norm-${name}` },
    own(name).flatMap((v, i) => [i > 0 ? "  " : "", number(v, 6)]));
  const of = overTime ? " of channel 1 over the tokens" : "";
  const hat = rowOf(steps.x_hat, 0), y = rowOf(steps.y, 0), scaled = rowOf(steps.scaled, 0);
  return [
    element("li", {}, element("h3", {}, overTime ? "Mean of each channel, over the tokens" : "Mean"),
      element("p", { class: "math" }, `μ = (${line.map((v) => signed(v)).join(" + ")}) / ${count}`),
      value("mean")),
    element("li", {}, element("h3", {}, overTime ? "Variance of each channel" : "Variance"),
      element("p", { class: "math" },
        `σ² = (${line.map((v) => `${signed(v - mean, 5)}²`).join(" + ")}) / ${divisor}` +
        (divisor === count ? "" : `   (${letter} − 1)`)),
      value("variance")),
    element("li", {}, element("h3", {}, "Normalise"),
      element("p", { class: "math" },
        `x̂₁ = (${readable(x[0][0], 6)} − ${signed(mean)}) / ${root}` +
        (normState.place === "after" ? ` + ${readable(eps)}` : "") + of),
      numbersRow(hat, "norm-x_hat")),
    element("li", {}, element("h3", {}, "Scale"),
      element("p", { class: "math" }, `γ₁ x̂₁ = ${signed(gamma[0])} · ${signed(hat[0], 4)}`),
      numbersRow(scaled, "norm-scaled")),
    element("li", {}, element("h3", {}, "Shift"),
      element("p", { class: "math" }, `y₁ = ${signed(scaled[0], 4)} + ${signed(beta[0])}`),
      numbersRow(y, "norm-y")),
  ];
}

// Where numbers lie on the lines: on one scale for all, so that moving and stretching are seen, or,
// where one line is far longer than another, each on its own.
function lineScales(rows, left, right) {
  const spans = rows.map((values) => [Math.min(0, ...values), Math.max(0, ...values)]);
  const length = ([low, high]) => high - low;
  const all = [Math.min(...spans.map(([low]) => low)), Math.max(...spans.map(([, high]) => high))];
  const spread = spans.map(length).filter((l) => l > 0);
  const shared = length(all) <= 12 * Math.min(...spread, Infinity);
  return rows.map((values) => {
    const [low, high] = shared ? all : [Math.min(...values), Math.max(...values)];
    const unit = (right - left) / (high - low || 1), from = high > low ? left : (left + right) / 2;
    return { shared, low, high, at: (v) => from + (v - low) * unit };
  });
}

// Round numbers between two others, about eight.
function roundTicks(low, high) {
  const rough = (high - low || 1) / 8, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
  const first = Math.ceil(low / step);
  return Array.from({ length: 10 }, (_, k) => (first + k) * step).filter((tick) => tick <= high);
}

// The four numbers on four lines, x, x − μ, x̂ and y, with a thread for each number.
function normLines(stages) {
  const drawable = (x) => x === 0 || (Math.abs(x) < 1e300 && Math.abs(x) > 1e-290);
  if (!stages.every(([, values]) => values.every(drawable))) {
    return element("p", { class: "soft" },
      "These numbers come to the end of double precision: no line is drawn for them.");
  }
  const width = narrow() ? 340 : 640, left = narrow() ? 44 : 74, step = 54;
  const scales = lineScales(stages.map(([, values]) => values), left + 14, width - 22);
  const y = (i) => 22 + i * step;
  const texts = [];
  const label = stages.map(([name, values]) => `${name}: ${values.map((v) => readable(v)).join(", ")}`);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${stages.length * step - 4}`, class: "lines", role: "img",
    "aria-label": `The four numbers on number lines. ${label.join(". ")}.`,
  });
  stages.forEach(([name], i) => {
    const { shared, low, high, at } = scales[i];
    picture.append(svg("line", { x1: left, x2: width - 8, y1: y(i), y2: y(i), class: "axis" }));
    for (const tick of roundTicks(low, high)) {
      picture.append(svg("line", {
        x1: at(tick), x2: at(tick), y1: y(i) - 5, y2: y(i) + 5, class: tick === 0 ? "zero" : "tick",
      }));
      if (!shared || i === stages.length - 1) {
        texts.push(svg("text", { x: at(tick), y: y(i) + 20, "text-anchor": "middle" }, readable(tick, 6)));
      }
    }
    texts.push(svg("text", { x: 0, y: y(i) + 4, class: "name" }, name));
  });
  [0, 1, 2, 3].forEach((k) => {
    const points = stages.map(([, values], i) => `${scales[i].at(values[k]).toFixed(1)},${y(i)}`);
    picture.append(svg("polyline", { points: points.join(" "), class: `thread d${k}` }));
  });
  picture.append(...texts);
  stages.forEach(([name, values], i) => values.forEach((v, k) => picture.append(
    svg("circle", { cx: scales[i].at(v).toFixed(1), cy: y(i), r: 6.5, class: `dot f${k}` },
      svg("title", {}, `${name}, number ${k + 1}: ${readable(v)}`)))));
  return picture;
}

function normSentence({ x, gamma, beta, eps }, steps) {
  if (normMistakes().length === 0 && eps === 1e-5) {
    const variance = steps.variance.values[0];
    const share = variance / (variance + eps);
    return ["This is layer norm as PyTorch and prenorm compute it. The variance of x̂ is σ²/(σ² + ε) = ",
      number(share, 8),
      share < 0.9 ? ": here ε holds the row down, so that it is not blown up." : ", a little under 1."];
  }
  const right = rowOf(textbook.layerNorm(x, gamma, beta, 1e-5).y, 0);
  const moved = Math.max(...rowOf(steps.y, 0).map((v, i) => Math.abs(v - right[i])));
  const why = [];
  if (normState.ddof === "C-1") {
    why.push("Dividing by C − 1 makes x̂ smaller, by the factor √((C − 1)/C): " +
      "13 % smaller at C = 4, 0.07 % at C = 768.");
  }
  if (normState.axis === "time") {
    why.push("Over the tokens, what one token becomes depends on the others, the later ones too.");
  }
  if (normState.place === "outside") why.push("Outside the root, ε is added to σ and not to σ².");
  if (normState.place === "after") why.push("The parenthesis closes too early: ε only shifts the result.");
  if (eps !== 1e-5) why.push("Another ε matters where σ² is not much larger than it.");
  return ["Your y differs from the right one by up to ", number(moved), ". ", why.join(" ")];
}

function updateNorm() {
  const eps = Number(`1e${Math.floor(Number(find("norm-eps").value))}`) *
    (Number(find("norm-eps").value) % 1 === 0 ? 1 : 3);
  const given = {
    x: [0, 1, 2].map((i) => readFour(`norm-x${i}`, `token ${i + 1}`)),
    gamma: readFour("norm-gamma", "γ"),
    beta: readFour("norm-beta", "β"),
    eps: Number(eps.toPrecision(1)),
  };
  replace("norm-eps-value", number(given.eps, 1));
  const steps = textbook.layerNorm(given.x, given.gamma, given.beta, given.eps, normMistakes());
  replace("norm-steps", normSteps(given, steps));
  const overTime = normState.axis === "time";
  const centred = given.x[0].map((v, i) => v - steps.mean.values[overTime ? i : 0]);
  replace("norm-lines", normLines([["x", given.x[0]], ["x − μ", centred],
    ["x̂", rowOf(steps.x_hat, 0)], ["y", rowOf(steps.y, 0)]]));
  replace("norm-say", normSentence(given, steps));
}

sections.push(() => {
  fourInputs("norm-x0", normPresets[0][1], "Token 1");
  fourInputs("norm-x1", [2, -1, 0.5, 1], "Token 2");
  fourInputs("norm-x2", [-3, 2, 1, 0], "Token 3");
  fourInputs("norm-gamma", [1, 1, 2, 0.5], "γ");
  fourInputs("norm-beta", [0, 0.5, 0, -1], "β");
  const set = (key) => (value) => { normState[key] = value; };
  replace("norm-ddof", choose("ddof", [["C", "C, the count"], ["C-1", "C − 1"]], "C", set("ddof")));
  replace("norm-axis", choose("axis", [["features", "the token's features"],
    ["time", "the tokens"]], "features", set("axis")));
  replace("norm-place", choose("place", [["inside", "inside the root"], ["outside", "outside it"],
    ["after", "after the division"]], "inside", set("place")));
  find("norm").addEventListener("change", () => update());
  const update = live("norm", updateNorm);
  replace("norm-presets", normPresets.map(([name, values]) => element("button", {
    type: "button", class: "quiet",
    click: () => { fourInputs("norm-x0", values, "Token 1"); update(); },
  }, name)));
});

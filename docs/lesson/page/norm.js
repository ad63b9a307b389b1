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

function signed(x) {
  return x < 0 ? `(${readable(x)})` : readable(x);
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
    inside: `√(${readable(variance)} + ${readable(eps)})`,
    outside: `(√${readable(variance)} + ${readable(eps)})`,
    after: `√${readable(variance)}`,
  }[normState.place];
  const value = (name) => element("p", { class: "value", id: `norm-${name}` },
    own(name).flatMap((v, i) => [i > 0 ? "  " : "", number(v)]));
  const of = overTime ? " of channel 1 over the tokens" : "";
  const hat = rowOf(steps.x_hat, 0), y = rowOf(steps.y, 0), scaled = rowOf(steps.scaled, 0);
  return [
    element("li", {}, element("h3", {}, overTime ? "Mean of each channel, over the tokens" : "Mean"),
      element("p", { class: "math" }, `μ = (${line.map(signed).join(" + ")}) / ${count}`),
      value("mean")),
    element("li", {}, element("h3", {}, overTime ? "Variance of each channel" : "Variance"),
      element("p", { class: "math" },
        `σ² = (${line.map((v) => `${signed(v - mean)}²`).join(" + ")}) / ${divisor}` +
        (divisor === count ? "" : `   (${letter} − 1)`)),
      value("variance")),
    element("li", {}, element("h3", {}, "Normalise"),
      element("p", { class: "math" },
        `x̂₁ = (${readable(x[0][0])} − ${signed(mean)}) / ${root}` +
        (normState.place === "after" ? ` + ${readable(eps)}` : "") + of),
      numbersRow(hat, "norm-x_hat")),
    element("li", {}, element("h3", {}, "Scale"),
      element("p", { class: "math" }, `γ₁ x̂₁ = ${signed(gamma[0])} · ${signed(hat[0])}`),
      numbersRow(scaled, "norm-scaled")),
    element("li", {}, element("h3", {}, "Shift"),
      element("p", { class: "math" }, `y₁ = ${signed(scaled[0])} + ${signed(beta[0])}`),
      numbersRow(y, "norm-y")),
  ];
}

// The four numbers on four lines, x, x − μ, x̂ and y, with a thread for each number.
function normLines(stages) {
  const width = narrow() ? 340 : 640, left = narrow() ? 44 : 74, step = 54, right = 8;
  const rows = stages.map(([name, values]) => {
    const low = Math.min(0, ...values), high = Math.max(0, ...values);
    const span = high - low || 1;
    const at = (v) => left + 14 + ((v - low) / span) * (width - left - right - 28);
    return { name, values, at };
  });
  const y = (i) => 22 + i * step;
  const label = rows.map((row) => `${row.name}: ${row.values.map((v) => readable(v)).join(", ")}`);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${rows.length * step - 4}`, class: "lines", role: "img",
    "aria-label": `The four numbers on number lines. ${label.join(". ")}.`,
  });
  rows.forEach((row, i) => {
    picture.append(
      svg("line", { x1: left, x2: width - right, y1: y(i), y2: y(i), class: "axis" }),
      svg("line", { x1: row.at(0), x2: row.at(0), y1: y(i) - 9, y2: y(i) + 9, class: "zero" }),
      svg("text", { x: 0, y: y(i) + 4, class: "name" }, row.name),
      svg("text", { x: row.at(0), y: y(i) + 21, "text-anchor": "middle" }, "0"));
  });
  rows[0].values.forEach((_, k) => {
    const points = rows.map((row, i) => `${row.at(row.values[k]).toFixed(1)},${y(i)}`);
    picture.append(svg("polyline", { points: points.join(" "), class: `thread d${k}` }));
  });
  rows.forEach((row, i) => row.values.forEach((v, k) => picture.append(
    svg("circle", { cx: row.at(v).toFixed(1), cy: y(i), r: 6.5, class: `dot f${k}` },
      svg("title", {}, `${row.name}, number ${k + 1}: ${readable(v)}`)))));
  return picture;
}

function normSentence({ x, gamma, beta, eps }, steps) {
  if (normMistakes().length === 0 && eps === 1e-5) {
    const variance = steps.variance.values[0];
    const share = variance / (variance + eps);
    return ["This is layer norm as PyTorch and prenorm compute it. The variance of x̂ is σ²/(σ² + ε) = ",
      number(share, 8), share < 0.9 ? ": here ε holds the row down, so that it is not blown up." : ", a little under 1."];
  }
  const right = rowOf(textbook.layerNorm(x, gamma, beta, 1e-5).y, 0);
  const moved = Math.max(...rowOf(steps.y, 0).map((v, i) => Math.abs(v - right[i])));
  const why = [];
  if (normState.ddof === "C-1") {
    why.push("Dividing by C − 1 shrinks every output by √((C − 1)/C): 13 % at C = 4, 0.07 % at C = 768.");
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

// Where the norm sits: the block as a flow from top to bottom, with the numbers of each step.

const placeState = { norm: "pre" };

function line(x1, y1, x2, y2, style) {
  return svg("line", { x1, y1, x2, y2, class: style });
}

// The piece of the flow beside one step; the lines run through the whole height of the row.
function trackOf(step, last) {
  const stream = 18, side = 60, knot = 24;
  const track = svg("svg", { class: "track", "aria-hidden": "true" });
  const through = step.track === "stream" ? line(stream, knot, stream, "100%", "main")
    : last ? line(stream, 0, stream, knot, "main") : line(stream, 0, stream, "100%", "main");
  track.append(through);
  const at = ["fork", "branch"].includes(step.track) ? side : stream;
  if (step.track === "fork") {
    track.append(svg("path", { d: `M${stream} 0 C${stream} 16 ${side} -2 ${side} ${knot}`, class: "branch" }),
      line(side, knot, side, "100%", "branch"));
  }
  if (step.track === "branch") track.append(line(side, 0, side, "100%", "branch"));
  if (step.track === "join") {
    const back = `M${side} 0 C${side} 16 ${side - 16} ${knot} ${stream} ${knot}`;
    track.append(svg("path", { d: back, class: "branch" }));
  }
  const box = step.kind === "stream"
    ? svg("circle", { cx: at, cy: knot, r: 11, class: "knot stream" })
    : svg("rect", { x: at - 14, y: knot - 12, width: 28, height: 24, rx: 6, class: `knot ${step.kind}` });
  const sign = { stream: step.track === "join" ? "+" : "x", norm: "N", attention: "A", ffn: "F" }[step.kind];
  track.append(box, svg("text", { x: at, y: knot + 5, class: "knot-text" }, sign));
  return track;
}

function flowItem(step, tensor, letters, last) {
  const shape = step.shape ?? `[T, ${({ 8: "C", 24: "3 C", 32: "F" })[tensor.columns] ?? "T"}]`;
  const heads = step.stage === "attn.probabilities";
  const names = heads ? [...letters, ...letters] : letters;
  return element("li", { "data-stage": step.stage, "data-variable": step.variable },
    trackOf(step, last),
    element("div", { class: "flow-text" },
      element("h3", {}, step.name,
        element("span", { class: "shape" }, shape, heads ? "" : ` = ${shapeText(tensor)}`),
        heads ? null
          : element("span", { class: "shape" }, "size ", number(rootMeanSquare(tensor.values), 3))),
      element("p", { class: "what small soft" }, step.what),
      element("pre", {}, element("b", {}, "C++"), element("code", { "data-cpp": true }, step.cpp)),
      element("pre", {}, element("b", {}, "PyTorch"), element("code", { "data-torch": true }, step.torch))),
    element("div", { class: "flow-numbers" },
      grid(tensor, { label: step.name, rowNames: names, columnName: heads ? "key" : "feature" })));
}

function readLetters(id) {
  const text = find(id).value.toLowerCase();
  if (text === "") throw new Error("text: expected one to eight letters, found none");
  return text;
}

function updatePlace() {
  const post = placeState.norm === "post";
  const text = readLetters("place-text");
  const stages = textbook.model(text, { settings: { post } });
  const of = (stage) => stages[stage] ?? stages[`transformer.h.0.${stage}`];
  const steps = blockSteps(post);
  replace("place-formula", post
    ? "h = LN₁(x + MHA(x))      y = LN₂(h + FFN(h))"
    : "h = x + MHA(LN₁(x))      y = h + FFN(LN₂(h))");
  replace("place-flow", steps.map((step, i) =>
    flowItem(step, of(step.stage), [...text], i === steps.length - 1)));
  const size = (stage) => number(rootMeanSquare(of(stage).values), 3);
  const out = (name) => number(rootMeanSquare(stages[name].values), 3);
  replace("place-say", post
    ? ["Size of the stream: ", size("transformer.drop"), " on the way in, ", out("transformer.h.0"),
      " after block 0, ", out("transformer.h.1"), " after block 1: each norm sets it anew. The way back, for the " +
      "gradients, leads through every norm."]
    : ["Size of the stream: ", size("transformer.drop"), " on the way in, ", out("transformer.h.0"),
      " after block 0, ", out("transformer.h.1"), " after block 1: it grows, nothing resets it. What the branches see, " +
      "LN₁(x), has size ", size("ln_1"), " (γ and β included)."]);
}

sections.push(() => {
  replace("place-norm", choose("placement", [["pre", "before each branch (pre-norm, GPT-2)"],
    ["post", "after each sum (post-norm, 2017)"]], "pre", (value) => { placeState.norm = value; }));
  const update = live("place", updatePlace);
  find("place").addEventListener("change", update);
});

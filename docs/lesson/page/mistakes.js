// Break it: a switch for each mistake of the textbook's table; the right run beside the mistaken one.

const breakText = "attend";
const blockStages = ["ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.act", "mlp.c_proj", ""];
const stageRows = [
  ["embedding", ["transformer.drop"]],
  ...[0, 1].map((l) => [`block ${l}`,
    blockStages.map((stage) => `transformer.h.${l}${stage === "" ? "" : `.${stage}`}`)]),
  ["head", ["transformer.ln_f", "logits"]],
];
const stageOrder = stageRows.flatMap(([, stages]) => stages);

// Which are on, in the order in which they were switched on: name to {name, where, number, text}.
const broken = new Map();

function stageLabel(stage) {
  const inner = stage.replace(/^transformer\./, "").replace(/^h\.\d\.?/, "");
  return { drop: "wte + wpe", "": "output", ln_f: "ln_f", logits: "logits" }[inner] ?? inner;
}

function firstChoice(name) {
  const { number, text } = mistakeNotes[name] ?? {};
  return { name, where: "", number, text };
}

function breakSettings() {
  return Object.assign({}, ...[...broken.keys()].map((name) => mistakeNotes[name]?.settings ?? {}));
}

// Each stage of the right run against the mistaken one: "same", "moved", "absent".
function compareRuns(right, wrong) {
  return stageOrder.map((stage) => {
    const mistaken = wrong[stage];
    if (mistaken === undefined) return { stage, state: "absent", moved: Infinity, share: 1 };
    const moved = largestDifference(right[stage], mistaken);
    const share = Math.sqrt(normalizedError(right[stage], mistaken));
    return { stage, state: moved === 0 ? "same" : "moved", moved, share };
  });
}

function stageChip({ stage, state, moved, share }, first) {
  const isFirst = stage === first;
  const style = state === "moved" ? `--much: ${Math.round(10 + 40 * Math.min(1, share))}%` : "";
  const says = { same: "as it should be", absent: "never computed", moved: "moved by " }[state];
  return element("li", {
    class: `stage ${{ same: "", moved: "moved-on", absent: "absent" }[state]}${isFirst ? " first" : ""}`,
    style, "data-stage": stage, "data-state": state,
  }, stageLabel(stage),
    element("small", {}, isFirst ? "first here: " : "", state === "moved" ? number(moved, 2) : says));
}

// The switches that follow a mistake that is on: its number, packing or module, and where it is made.
function mistakeControls(choice) {
  const table = textbook.mistakes.find((mistake) => mistake.name === choice.name);
  const note = mistakeNotes[choice.name] ?? {};
  // The controls are made anew with what is shown; whoever used one goes on with it.
  const set = (key, read) => (event) => {
    const held = document.activeElement === event.target;
    choice[key] = read(event.target);
    updateMistakes.now();
    const again = `[data-mistake="${choice.name}"] [data-key="${key}"]`;
    if (held) find("mistakes").querySelector(again).focus();
  };
  const pick = (label, key, options) => element("label", { class: "choice" }, label,
    element("select", { change: set(key, (select) => select.value), "data-key": key },
      options.map(([value, text]) => element("option", { value, selected: value === choice[key] }, text))));
  const parts = [];
  if (table.value === "number") {
    parts.push(element("label", { class: "choice" }, "number",
      element("input", {
        type: "number", step: "any", value: choice.number, "data-key": "number",
        change: set("number", (input) => {
          const good = input.value !== "" && Number.isFinite(Number(input.value));
          return good ? Number(input.value) : choice.number;
        }),
      })));
  }
  if (table.value === "packing") parts.push(pick("packed as", "text", qkvOrders.map((o) => [o, o])));
  if (table.value === "module") parts.push(pick("module", "text", note.modules.map((m) => [m, m])));
  if (table.inBlock) {
    const places = [["", "everywhere"], ["transformer.h.0", "block 0"], ["transformer.h.1", "block 1"]];
    if (table.inNorm) places.push(["transformer.h.0.ln_2", "block 0, ln_2"], ["transformer.ln_f", "ln_f"]);
    parts.push(pick("where", "where", places));
  }
  return element("div", { class: "choices" }, parts);
}

function mistakeCard(choice) {
  const table = textbook.mistakes.find((mistake) => mistake.name === choice.name);
  const note = mistakeNotes[choice.name];
  return element("div", { class: "panel", "data-mistake": choice.name, style: "margin: 0 0 14px" },
    element("h3", {}, choice.name, ": ", element("span", { class: "soft" }, table.says)),
    note?.because ? element("p", { class: "small soft" }, note.because) : null,
    note ? element("div", { class: "code-pair" },
      element("pre", { class: "right" }, element("b", {}, "right"), mistakenLine(note.right, choice)),
      element("pre", { class: "wrong" }, element("b", {}, "mistaken"),
        mistakenLine(note.wrong, choice))) : null,
    mistakeControls(choice));
}

// Whether the likeliest next letter is the same, for each position.
function sameTops(right, wrong) {
  return Array.from({ length: right.rows }, (_, t) =>
    argmax(rowOf(right, t)) === argmax(rowOf(wrong, t)));
}

// The loose test that many ports are released on: a small error, and the same next letter.
function looksRight(right, wrong) {
  return normalizedError(right, wrong) < 1e-2 && sameTops(right, wrong).pop();
}

function factsOf(right, wrong) {
  const moved = largestDifference(right.logits, wrong.logits);
  const error = normalizedError(right.logits, wrong.logits);
  const tops = sameTops(right.logits, wrong.logits), same = tops.filter(Boolean).length;
  const fact = (name, value, id) => element("div", {}, element("dt", {}, name), element("dd", { id }, value));
  return [
    element("dl", { class: "facts" },
      fact("largest change of a logit", number(moved), "mistakes-moved"),
      fact("normalised squared error of the logits", number(error, 3), "mistakes-error"),
      fact("positions with the same likeliest next letter", `${same} of ${tops.length}`, "mistakes-top")),
    element("p", { id: "mistakes-verdict" }, moved === 0
      ? "The output has not moved at all: here the mistake does nothing, and no test could see it."
      : looksRight(right.logits, wrong.logits)
        ? "A loose test (error under 0.01, the same likeliest letter at the end) would pass this."
        : "A loose test (error under 0.01, the same likeliest letter at the end) would catch this."),
  ];
}

function firstStageDetail(right, wrong, first) {
  const a = right[first], b = wrong[first];
  const title = element("h3", {}, "Where it first shows: ", element("code", {}, first));
  if (b === undefined) return [title, element("p", {}, "The mistaken code never computes this stage.")];
  const difference = { ...a, values: a.values.map((x, i) => b.values[i] - x) };
  const scale = Math.max(...a.values.map(Math.abs), ...b.values.map(Math.abs).filter(Number.isFinite));
  const letters = [...breakText];
  const part = (label, tensor, more) => element("div", {}, element("h3", { class: "small" }, label),
    grid(tensor, { label: `${first}, ${label}`, rowNames: letters, scale, ...more }));
  return [title, element("div", { class: "three" }, part("right", a), part("mistaken", b),
    part("difference, colours to its own scale", difference, { tone: "alarm", scale: undefined }))];
}

function mistakesInWords(first, logits) {
  if (broken.size === 0) return ["No mistake is made: every stage is as it should be."];
  const names = element("b", {}, [...broken.keys()].join(" and "));
  if (first === "") return [names, ": nothing changes here."];
  return [names, ": first in ", element("code", {}, first), ". A logit moves by up to ",
    number(logits.moved, 3), "."];
}

function updateMistakes() {
  const settings = breakSettings();
  const right = textbook.model(breakText, { settings });
  const wrong = textbook.model(breakText, { settings, mistakes: [...broken.values()] });
  const compared = compareRuns(right, wrong);
  const first = compared.find(({ state }) => state !== "same")?.stage ?? "";
  find("mistakes").dataset.first = first;
  replace("mistakes-stages", stageRows.map(([name, stages]) => element("div", { class: "stage-row" },
    element("span", {}, name),
    element("ol", { "aria-label": name }, stages.map((stage) =>
      stageChip(compared.find((entry) => entry.stage === stage), first))))));
  replace("mistakes-summary", mistakesInWords(first, compared[compared.length - 1]));
  replace("mistakes-detail", [...broken.values()].map(mistakeCard), 
    broken.size === 0 ? [] : factsOf(right, wrong),
    first === "" ? [] : firstStageDetail(right, wrong, first));
}

function showSwitches() {
  for (const input of find("mistakes-families").querySelectorAll("input")) {
    input.checked = broken.has(input.value);
  }
}

function onlyMistake(name) {
  broken.clear();
  broken.set(name, firstChoice(name));
  showSwitches();
}

sections.push(() => {
  const toggled = (event) => {
    const { value, checked } = event.target;
    if (checked && !find("mistakes-several").checked) broken.clear();
    if (checked) broken.set(value, firstChoice(value));
    else broken.delete(value);
    showSwitches();
    updateMistakes.now();
  };
  replace("mistakes-families", mistakeFamilies.map(([key, title]) => element("fieldset", { class: "family" },
    element("legend", {}, title),
    element("div", { class: "choices" }, textbook.mistakes.filter(({ name }) => name.startsWith(`${key}.`))
      .map(({ name, says }) => element("label", { class: "switch", title: says },
        element("input", { type: "checkbox", role: "switch", value: name, change: toggled }),
        name.slice(key.length + 1)))))));
  onlyMistake("norm.ddof");
  updateMistakes.now = live("mistakes", updateMistakes, { onInput: false });
  find("mistakes-next").addEventListener("click", () => {
    const names = textbook.mistakes.map(({ name }) => name);
    const last = [...broken.keys()].pop();
    onlyMistake(names[(names.indexOf(last) + 1) % names.length]);
    updateMistakes.now();
  });
  find("mistakes-none").addEventListener("click", () => {
    broken.clear();
    showSwitches();
    updateMistakes.now();
  });
});

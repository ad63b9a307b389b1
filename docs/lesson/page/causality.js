// Causality: the same text with one letter changed, through the whole model, and what moves.

const causalityText = "the cat s";

const masks = [
  ["right", "causal, s ≤ t", []],
  ["none", "no mask", [{ name: "attention.no-mask" }]],
  ["shifted", "one token too many", [{ name: "attention.mask-shifted", number: 1 }]],
  ["zero", "scores set to 0", [{ name: "attention.mask-zero" }]],
  ["inverted", "upside down", [{ name: "attention.mask-inverted" }]],
  ["queries", "softmax over the queries", [{ name: "attention.softmax-axis" }]],
];
const causalityState = { mask: "right" };

const causalityStages = [
  ["transformer.drop", "embedding"], ["transformer.h.0", "block 0"], ["transformer.h.1", "block 1"],
  ["transformer.ln_f", "final norm"], ["logits", "logits"],
];

// The largest difference in each token's row.
function movedByToken(before, after) {
  return Array.from({ length: before.rows }, (_, t) => {
    const a = rowOf(before, t), b = rowOf(after, t);
    return Math.max(...a.map((x, i) => Math.abs(x - b[i])));
  });
}

function changedText() {
  const letters = [...find("causality-letters").children].map((input, t) => {
    const letter = input.value.toLowerCase();
    input.classList.toggle("changed", letter !== causalityText[t]);
    if (letter === "") throw new Error(`letter ${t}: expected a to z or a space, found nothing`);
    return letter;
  });
  return letters.join("");
}

function movedTable(text, before, after) {
  const rows = causalityStages.map(([stage, name]) => {
    const moved = movedByToken(before[stage], after[stage]);
    const largest = Math.max(...moved, 1e-300);
    return element("tr", { "data-stage": stage, "data-moved": JSON.stringify(moved) },
      element("th", { scope: "row" }, name),
      moved.map((distance) => element("td", {
        class: distance > 0 ? "yes" : "", style: `--much: ${15 + Math.round(40 * distance / largest)}%`,
      }, distance > 0 ? number(distance, 2) : "0")));
  });
  const head = element("thead", {}, element("tr", {}, element("td", {}),
    [...text].map((letter) => element("th", { scope: "col" }, letter === " " ? "␣" : letter))));
  return [head, element("tbody", {}, rows.reverse())];
}

// first: the first token that is changed, or -1; moved: how far each token's logits moved.
function causalityInWords(first, moved) {
  if (first < 0) {
    return ["Nothing is changed yet. Predict first: if you change one letter, which columns will move?"];
  }
  if (first === 0) {
    return ["The first token is changed, and every token sees it: all may move. Change a later one."];
  }
  const early = moved.slice(0, first), count = early.filter((distance) => distance > 0).length;
  const tokens = (n) => `${n} token${n === 1 ? "" : "s"}`;
  if (count > 0) {
    return [`The first change is at token ${first}, and ${tokens(count)} before it moved, by up to `,
      number(Math.max(...early), 3), ": the future leaks into the past."];
  }
  return [`The first change is at token ${first}. The ${tokens(first)} before it moved by exactly 0, in every stage. `,
    causalityState.mask === "right"
      ? "That is causality, and it is why keys and values can be cached while a text is written."
      : "With this mask, too. Change an earlier or a later letter to see whether it holds."];
}

function updateCausality() {
  const text = changedText();
  const mistakes = masks.find(([key]) => key === causalityState.mask)[2];
  const before = textbook.model(causalityText, { mistakes });
  const after = textbook.model(text, { mistakes });
  replace("causality-moved", movedTable(text, before, after));
  const p = after["transformer.h.0.attn.probabilities"];
  const time = text.length;
  replace("causality-heads", [0, 1].map((head) => grid(
    { rows: time, columns: time, values: p.values.slice(head * time * time, (head + 1) * time * time) },
    {
      label: `Attention of head ${head}`, rowNames: [...text], columnName: "sees token", scale: 1,
      hint: `head ${head}`,
    })));
  const first = [...text].findIndex((letter, t) => letter !== causalityText[t]);
  const moved = movedByToken(before.logits, after.logits);
  replace("causality-say", causalityInWords(first, moved));
}

sections.push(() => {
  find("causality-before").textContent = causalityText;
  const changed = "the cot s";
  replace("causality-letters", [...changed].map((letter, t) => element("input", {
    type: "text", maxlength: 1, value: letter, "aria-label": `Letter ${t}, was “${causalityText[t]}”`,
    autocomplete: "off", autocapitalize: "off", spellcheck: "false", focus: (event) => event.target.select(),
  })));
  replace("causality-mask", choose("mask", masks.map(([key, name]) => [key, name]), "right",
    (value) => { causalityState.mask = value; }));
  const update = live("causality", updateCausality);
  find("causality").addEventListener("change", update);
});

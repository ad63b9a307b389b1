// Recall: each question takes a prediction before it reveals what the textbook computes; the right
// ones are counted.

let outcomes = []; // a question each: undefined, true or false

function showScore() {
  const right = outcomes.filter((outcome) => outcome === true).length;
  const open = outcomes.filter((outcome) => outcome === undefined).length;
  find("recall-score").dataset.right = right;
  replace("recall-score", `${right} right of ${outcomes.length - open} revealed, ${open} to go` +
    (open === 0 && right === outcomes.length ? ". All of them!" : ""));
}

function questionField(question, i) {
  const button = element("button", { type: "button", disabled: true }, "Reveal");
  const answer = element("div", { class: "answer", "aria-live": "polite", hidden: true });
  let predicted = NaN;
  const predict = (value) => {
    predicted = value;
    button.disabled = Number.isNaN(value);
  };
  const typed = question.choices ? null : element("input", {
    type: "number", step: "any", "aria-label": "Your prediction, a number", style: "max-width: 200px",
    input: (event) => predict(event.target.value === "" ? NaN : Number(event.target.value)),
  });
  const body = typed
    ? element("div", { style: "margin-bottom: 10px" }, typed)
    : element("div", { class: "choices" },
      choose(`question-${i}`, question.choices.map((text, c) => [c, text]), null, predict));
  const field = element("fieldset", { class: "question", id: `question-${i}` },
    element("legend", {}, `${i + 1}. ${question.ask}`), body, button, answer);

  const reveal = () => {
    const { right, answer: value, say } = question.measure();
    const good = typed ? Math.abs(predicted - value) <= 0.01 * Math.abs(value) : predicted === right;
    outcomes[i] = good;
    field.querySelectorAll("input").forEach((input) => { input.disabled = true; });
    if (!typed) {
      const labels = field.querySelectorAll(".choice");
      labels[right].classList.add("right");
      if (!good) labels[predicted].classList.add("wrong");
    }
    const verdict = good ? "Right. "
      : typed ? ["It is ", number(value), ". "] : `It is “${question.choices[right]}”. `;
    answer.replaceChildren(element("p", {}, element("b", {}, verdict), say));
    answer.hidden = false;
    answer.tabIndex = -1;
    answer.focus({ preventScroll: true });
    button.hidden = true;
    showScore();
  };
  button.addEventListener("click", reveal);
  typed?.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (!button.disabled && !button.hidden) reveal();
  });
  return field;
}

function startRecall() {
  outcomes = questions.map(() => undefined);
  replace("recall-questions", questions.map(questionField));
  showScore();
}

sections.push(() => {
  startRecall();
  find("recall-questions").addEventListener("submit", (event) => event.preventDefault());
  find("recall-again").addEventListener("click", () => {
    startRecall();
    find("recall").scrollIntoView();
  });
});

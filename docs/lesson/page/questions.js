// The questions of the last section. `measure` computes the answer with the textbook when it is
// revealed: the index of the right choice, or the number, and what to say about it.

// The index of the choice that is nearest to a number.
function nearest(x, choices) {
  return choices.reduce((best, choice, i) =>
    (Math.abs(choice - x) < Math.abs(choices[best] - x) ? i : best), 0);
}

function plainNorm(rows, mistakes) {
  const width = rows[0].length;
  return textbook.layerNorm(rows, Array(width).fill(1), Array(width).fill(0), 1e-5, mistakes);
}

// How many of the forty a loose test lets through.
function passedByLooseTest() {
  return textbook.mistakes.filter(({ name }) => {
    const { settings } = mistakeNotes[name];
    const right = textbook.model(breakText, { settings }).logits;
    const wrong = textbook.model(breakText, { settings, mistakes: [firstChoice(name)] }).logits;
    return looksRight(right, wrong);
  }).length;
}

const questions = [
  {
    ask: "A row holds the same number four times: 5, 5, 5, 5. What does layer norm make of it (γ = 1, β = 0)?",
    choices: ["5, 5, 5, 5", "1, 1, 1, 1", "0, 0, 0, 0", "NaN: it divides by zero"],
    measure() {
      const y = plainNorm([[5, 5, 5, 5]]).y.values[0];
      const right = Number.isNaN(y) ? 3 : nearest(y, [5, 1, 0]);
      return { right, say: ["x − μ is 0, and ε keeps the root above 0: computed, each is ", number(y),
        ". With β it is β."] };
    },
  },
  {
    ask: "Add 1000 to all four numbers of a row. What happens to LN(x)?",
    choices: ["It grows by 1000", "Nothing, but for rounding", "It shrinks to almost nothing"],
    measure() {
      const y = plainNorm([[1, 4, 3, 0]]).y, far = plainNorm([[1001, 1004, 1003, 1000]]).y;
      const moved = largestDifference(y, far);
      return { right: moved < 1e-9 ? 1 : far.values[0] > 500 ? 0 : 2,
        say: ["The mean takes the 1000 along. Largest change, computed: ", number(moved), "."] };
    },
  },
  {
    ask: "The row 1, 4, 3, 0: what is the variance that layer norm uses?",
    measure() {
      const steps = plainNorm([[1, 4, 3, 0]]);
      return { answer: steps.variance.values[0], say: ["μ = ", number(steps.mean.values[0]),
        ", and (1 + 4 + 1 + 4) / 4 = ", number(steps.variance.values[0]),
        ": the sum is divided by C. Dividing by C − 1 would give ", number(10 / 3), "."] };
    },
  },
  {
    ask: "Layers of gain 4 and no norm. The input has size 1. What size has the stream after three layers?",
    measure() {
      const sizes = textbook.growth(3, 4).plain.values;
      const list = sizes.flatMap((size, i) => [i > 0 ? ", " : "", number(size)]);
      return { answer: sizes[3], say: ["Sizes multiply: ", list, "."] };
    },
  },
  {
    ask: "A pre-norm stack whose branches all have size 1. About what size has the stream after 15 layers?",
    choices: ["1: the norms reset it", "4", "15", "32,768"],
    measure() {
      const size = textbook.growth(15, 1).pre.values[15];
      return { right: nearest(size, [1, 4, 15, 32768]),
        say: ["The input and fifteen branches of size 1, pointing anywhere, add up to about √(1 + 15) = 4. " +
          "Computed: ", number(size, 3), ". Nothing resets the stream."] };
    },
  },
  {
    ask: "And what size has the row that the next branch of that stack reads?",
    choices: ["1", "4", "16"],
    measure() {
      const size = textbook.growth(16, 1)["pre.branch"].values[15];
      return { right: nearest(size, [1, 4, 16]), say: ["It reads LN(x): size ", number(size, 4),
        ". This is what a pre-norm block normalises, and all that it does."] };
    },
  },
  {
    ask: "Nine tokens, 0 to 8, in a causal model. You change token 5. Whose outputs may change?",
    choices: ["Token 5 alone", "Tokens 0 to 5", "Tokens 5 to 8", "All nine"],
    measure() {
      const moved = movedByToken(textbook.model("the cat s").logits, textbook.model("the cot s").logits);
      const tokens = moved.flatMap((distance, t) => (distance > 0 ? [t] : []));
      const right = ["5", "0,1,2,3,4,5", "5,6,7,8", "0,1,2,3,4,5,6,7,8"].indexOf(tokens.join());
      return { right, say: [`Computed: tokens ${tokens.join(", ")} moved, the others by exactly 0.`] };
    },
  },
  {
    ask: "A mask sets blocked scores to 0 before the softmax. How much attention do blocked tokens get?",
    choices: ["None: 0 is nothing", "Some: e⁰ is 1", "All of it"],
    measure() {
      const run = textbook.model("the cat s", { mistakes: [{ name: "attention.mask-zero" }] });
      const future = rowOf(run["transformer.h.0.attn.probabilities"], 0).slice(1).reduce((sum, x) => sum + x, 0);
      return { right: future === 0 ? 0 : future < 1 ? 1 : 2,
        say: ["In head 0 the first token gives ", number(100 * future, 3),
          " % of its attention to the future. Only −∞ is nothing."] };
    },
  },
  {
    ask: "All sub-layers put out zero. Which stack returns its input unchanged?",
    choices: ["The pre-norm stack", "The post-norm stack", "Both", "Neither"],
    measure() {
      const moved = [false, true].map((post) => {
        const stages = textbook.model("ident", { strength: 0, settings: { post } });
        return largestDifference(stages["transformer.drop"], stages["transformer.h.1"]);
      });
      const right = moved[0] === 0 ? (moved[1] === 0 ? 2 : 0) : moved[1] === 0 ? 1 : 3;
      return { right, say: ["Largest |y − x|: pre-norm ", number(moved[0]), ", post-norm ", number(moved[1]), "."] };
    },
  },
  {
    ask: "The variance is divided by C − 1 in place of C. How much smaller are the outputs at C = 768?",
    choices: ["0.065 %", "0.65 %", "6.5 %", "13 %"],
    measure() {
      const row = Array.from({ length: 768 }, (_, i) => Math.sin(i));
      const smaller = 100 * (1 - rootMeanSquare(plainNorm([row], [{ name: "norm.ddof" }]).y.values) /
        rootMeanSquare(plainNorm([row]).y.values));
      return { right: nearest(smaller, [0.065, 0.65, 6.5, 13]),
        say: ["Computed: ", number(smaller, 3), " %. At C = 4 it is 13 %: large models hide this mistake."] };
    },
  },
  {
    ask: "q and k are unpacked in the wrong order after c_attn. Which module is the first to return wrong numbers?",
    choices: ["ln_1", "attn.c_attn", "attn.c_proj", "mlp.c_fc"],
    measure() {
      const wrong = textbook.model(breakText, { mistakes: [{ name: "attention.qkv-order", text: "kqv" }] });
      const first = compareRuns(textbook.model(breakText), wrong).find(({ state }) => state !== "same").stage;
      return { right: this.choices.findIndex((stage) => first === `transformer.h.0.${stage}`),
        say: ["Computed: ", element("code", {}, first),
          ". c_attn still returns the right numbers; what is wrong is how they are read."] };
    },
  },
  {
    ask: "Your port agrees with the original: error under 0.01, the same likeliest next token. Is it right?",
    choices: ["Yes", "Not necessarily"],
    measure() {
      const passed = passedByLooseTest();
      return { right: passed > 0 ? 1 : 0,
        say: [`Of the ${textbook.mistakes.length} mistakes above, each made in the model of this page, `,
          number(passed), " would pass that test. Compare stage by stage, against the rounding of a " +
          "float32 run."] };
    },
  },
];

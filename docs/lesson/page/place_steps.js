// The steps of a block in order: what happens, the textbook's C++ line, and PyTorch's. The Python
// tests run both, line after line, and compare the results with the numbers shown.
//
// track: how the step lies on the flow: stream, fork (a branch leaves), branch, join (it comes
// back), on (the step sits on the stream itself). kind: its colour.

const attentionSteps = (input) => [
  {
    stage: "attn.c_attn", name: "Queries, keys, values", kind: "attention", variable: "qkv", input,
    what: "One matrix makes three vectors of every token, packed side by side.",
    cpp: `qkv = linear(${input}, p.attn.c_attn);`,
    torch: `qkv = ${input} @ c_attn.weight + c_attn.bias`,
  },
  {
    stage: "attn.probabilities", name: "Attention", kind: "attention", variable: "o",
    shape: "[H, T, T] → [T, C]",
    what: "Each token mixes the values of itself and the tokens before it. Shown: who looks at whom, " +
      "a head below the other.",
    cpp: "o = attention(qkv, {.heads = 2});",
    torch: "o = F.scaled_dot_product_attention(*heads(qkv), is_causal=True)",
  },
  {
    stage: "attn.c_proj", name: "Projection", kind: "attention", variable: "a",
    what: "The heads, side by side again, mixed by one more matrix.",
    cpp: "a = linear(o, p.attn.c_proj);",
    torch: "a = merge(o) @ attn_c_proj.weight + attn_c_proj.bias",
  },
];

const feedForwardSteps = (input) => [
  {
    stage: "mlp.c_fc", name: "Widen", kind: "ffn", variable: "u", input,
    what: "Every token for itself: from C to F = 4 C features.",
    cpp: `u = linear(${input}, p.mlp.c_fc);`, torch: `u = ${input} @ c_fc.weight + c_fc.bias`,
  },
  {
    stage: "mlp.act", name: "Activation", kind: "ffn", variable: "g",
    what: "GELU: what is negative is nearly shut off.",
    cpp: "g = activation(u, {Activation::kGeluTanh});",
    torch: 'g = F.gelu(u, approximate="tanh")',
  },
  {
    stage: "mlp.c_proj", name: "Narrow", kind: "ffn", variable: "f",
    what: "And back to C features.",
    cpp: "f = linear(g, p.mlp.c_proj);", torch: "f = g @ mlp_c_proj.weight + mlp_c_proj.bias",
  },
];

const normStep = (which, input, variable, what) => ({
  stage: which, name: `Layer norm ${which.slice(-1)}`, kind: "norm", track: "on", variable, what,
  cpp: `${variable} = layer_norm(${input}, p.${which});`,
  torch: `${variable} = F.layer_norm(${input}, (C,), ${which}.weight, ${which}.bias, eps=1e-5)`,
});

const sumStep = (stage, variable, left, right, what) => ({
  stage, name: "Add", kind: "stream", variable, track: "join", what,
  cpp: `${variable} = add(${left}, ${right});`, torch: `${variable} = ${left} + ${right}`,
});

const inputStep = {
  stage: "transformer.drop", name: "The stream enters", kind: "stream", track: "stream", variable: "x",
  what: "The token's embedding plus that of its position.",
  cpp: "x = embedding(tokens, model.embedding);", torch: "x = wte[tokens] + wpe[:T]",
};

// The first step of a branch forks off.
function branch(steps) {
  return steps.map((step, i) => ({ ...step, track: i === 0 ? "fork" : "branch" }));
}

function blockSteps(post) {
  if (post) {
    return [
      inputStep,
      ...branch(attentionSteps("x")),
      sumStep("sum_1", "s", "x", "a", "The branch is added to the stream."),
      normStep("ln_1", "s", "h", "On the stream itself: its old size is forgotten."),
      ...branch(feedForwardSteps("h")),
      sumStep("sum_2", "r", "h", "f", "The second branch is added."),
      normStep("ln_2", "r", "y", "Again on the stream. This is the block's output."),
    ];
  }
  return [
    inputStep,
    ...branch([normStep("ln_1", "x", "n", "A normalised copy for the branch; the stream goes by."),
      ...attentionSteps("n")]),
    sumStep("sum_1", "h", "x", "a", "The branch is added to the stream, which is otherwise as it was."),
    ...branch([normStep("ln_2", "h", "m", "A normalised copy of the new stream."),
      ...feedForwardSteps("m")]),
    sumStep("sum_2", "y", "h", "f", "The second branch is added. This is the block's output."),
  ];
}

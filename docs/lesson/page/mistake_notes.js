// What a learner reads beside each mistake of the table in prenorm/reference/mistake_table.h: the
// right line and the mistaken one in PyTorch's terms. `settings` is set where the mistake needs
// another model to be one; `number` and `text` are what it begins with.

const mistakeFamilies = [
  ["norm", "Layer norm"], ["structure", "Structure of the block"], ["attention", "Attention"],
  ["position", "Positions"], ["activation", "Activation"], ["weights", "Weights"],
  ["numbers", "Number formats"],
];

const rightNorm = "x̂ = (x - m) / (v + eps).sqrt()   # v = x.var(-1, unbiased=False)";
const rightMask = "scores.masked_fill(~tril, -inf).softmax(-1)";
const rightSplit = "q.view(B, T, H, D).transpose(1, 2)   # [B, H, T, D]";
const rightBlock = "x = x + attn(ln_1(x));  x = x + mlp(ln_2(x))";
const rightAct = 'F.gelu(x, approximate="tanh")';
const exactAct = "F.gelu(x)";

const mistakeNotes = {
  "norm.eps-value": { right: "LayerNorm(C, eps=1e-5)", wrong: "LayerNorm(C, eps=EPS)", number: 1e-3 },
  "norm.eps-outside-root": { right: rightNorm, wrong: "x̂ = (x - m) / (v.sqrt() + eps)" },
  "norm.eps-misplaced": { right: rightNorm, wrong: "x̂ = (x - m) / v.sqrt() + eps" },
  "norm.ddof": { right: "v = x.var(-1, unbiased=False)", wrong: "v = x.var(-1)   # divides by C - 1" },
  "norm.axis": {
    right: "x.mean(-1), x.var(-1, unbiased=False)",
    wrong: "x.mean(1), x.var(1, unbiased=False)   # over the time",
  },
  "norm.no-affine": { right: "γ * x̂ + β", wrong: "x̂" },
  "norm.no-bias": { right: "γ * x̂ + β", wrong: "γ * x̂" },
  "norm.rms": { right: rightNorm, wrong: "x̂ = x / (x.pow(2).mean(-1) + eps).sqrt()" },
  "norm.swapped-weights": { right: rightBlock, wrong: "x = x + attn(ln_2(x));  x = x + mlp(ln_1(x))" },
  "structure.post-norm": { right: rightBlock, wrong: "x = ln_1(x + attn(x));  x = ln_2(x + mlp(x))" },
  "structure.residual-from-norm": {
    right: rightBlock,
    wrong: "x = ln_1(x);  x = x + attn(x);  x = ln_2(x);  x = x + mlp(x)",
  },
  "structure.no-residual": { right: rightBlock, wrong: "x = attn(ln_1(x));  x = mlp(ln_2(x))" },
  "structure.no-final-norm": { right: "logits = lm_head(ln_f(x))", wrong: "logits = lm_head(x)" },
  "structure.double-final-norm": {
    right: "logits = lm_head(ln_f(x))",
    wrong: "logits = lm_head(ln_f(ln_f(x)))",
  },
  "attention.no-mask": { right: rightMask, wrong: "scores.softmax(-1)" },
  "attention.mask-zero": { right: rightMask, wrong: "(scores * tril).softmax(-1)   # e⁰ = 1 is not nothing" },
  "attention.mask-finite": {
    right: rightMask,
    wrong: "scores.masked_fill(~tril, NUMBER).softmax(-1)",
    number: -10,
  },
  "attention.mask-shifted": {
    right: "tril = torch.ones(T, T).tril()",
    wrong: "tril = torch.ones(T, T).tril(NUMBER)",
    number: 1,
  },
  "attention.mask-inverted": {
    right: rightMask,
    wrong: "scores.masked_fill(~triu, -inf).softmax(-1)   # sees itself and the future",
  },
  "attention.no-scale": { right: "scores = q @ k.mT / D**0.5", wrong: "scores = q @ k.mT" },
  "attention.scale-by-width": { right: "scores = q @ k.mT / D**0.5", wrong: "scores = q @ k.mT / C**0.5" },
  "attention.qkv-order": {
    right: "q, k, v = c_attn(x).split(C, -1)",
    wrong: "ORDER = c_attn(x).split(C, -1)",
    text: "kqv",
  },
  "attention.qkv-interleaved": { right: "qkv.view(B, T, 3, H, D)", wrong: "qkv.view(B, T, H, 3, D)" },
  "attention.head-axes": { right: rightSplit, wrong: "q.view(B, T, D, H).permute(0, 3, 1, 2)" },
  "attention.no-split-transpose": { right: rightSplit, wrong: "q.view(B, H, T, D)" },
  "attention.no-merge-transpose": {
    right: "o.transpose(1, 2).reshape(B, T, C)",
    wrong: "o.reshape(B, T, C)",
  },
  "attention.softmax-axis": {
    right: "scores.softmax(-1)   # over the keys",
    wrong: "scores.softmax(-2)   # over the queries",
  },
  "position.offset": { right: "wpe[:T]", wrong: "wpe[NUMBER : T + NUMBER]", number: 1 },
  "activation.relu": { right: rightAct, wrong: "F.relu(x)" },
  "activation.gelu-erf": { right: rightAct, wrong: "F.gelu(x)" },
  "activation.gelu-tanh": {
    right: exactAct,
    wrong: rightAct,
    settings: { activation: "gelu" },
    because: "The model's configuration says the exact GELU here.",
  },
  "activation.gelu-quick": { right: rightAct, wrong: "x * torch.sigmoid(1.702 * x)" },
  "weights.transposed": {
    right: "x @ MODULE.weight   # [in, out]",
    wrong: "x @ MODULE.weight.T   # square, so nothing complains",
    text: "attn.c_proj",
    modules: ["attn.c_proj"],
  },
  "weights.no-bias": {
    right: "x @ MODULE.weight + MODULE.bias",
    wrong: "x @ MODULE.weight",
    text: "mlp.c_fc",
    modules: ["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"],
  },
  "weights.untied-head": {
    right: "logits = x @ wte.weight.T",
    wrong: "logits = x @ lm_head.weight.T   # never tied to wte",
  },
  "weights.tied-head": {
    right: "logits = x @ lm_head.weight.T",
    wrong: "logits = x @ wte.weight.T",
    settings: { tied: false },
    because: "The model has a head of its own here.",
  },
  "numbers.bf16": { right: "model.double()(tokens)", wrong: "model.bfloat16()(tokens)   # 8 bits" },
  "numbers.f16": { right: "model.double()(tokens)", wrong: "model.half()(tokens)   # 11 bits" },
  "numbers.f16-cache": { right: "attend(q, k, v)", wrong: "attend(q, k.half(), v.half())   # a cache of half floats" },
  "numbers.f16-gelu": { right: rightAct, wrong: "table[x.half()]   # GELU looked up by a half float" },
};

const qkvOrders = ["kqv", "qvk", "vkq", "kvq", "vqk"];

// The mistaken line with the chosen number, packing or module put in.
function mistakenLine(line, choice) {
  const order = choice.text?.split("").join(", ");
  return line.replaceAll("EPS", String(choice.number)).replaceAll("NUMBER", String(choice.number))
    .replaceAll("ORDER", order).replaceAll("MODULE", choice.text);
}

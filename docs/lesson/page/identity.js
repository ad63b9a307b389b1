// Identity: the outputs of all sub-layers times s, through two blocks, pre-norm beside post-norm.

const identityText = "ident";

function identityPanel(title, key, stages, scale) {
  const x = stages["transformer.drop"], y = stages["transformer.h.1"];
  const moved = { ...y, values: y.values.map((v, i) => v - x.values[i]) };
  const part = (label, tensor) => [element("h3", { class: "small" }, label),
    grid(tensor, { label: `${title}: ${label}`, rowNames: [...identityText], scale })];
  return element("div", { class: "panel", id: `identity-${key}` },
    element("h3", {}, title),
    part("x, into the stack", x), part("y, out of two blocks", y), part("y − x", moved),
    element("p", {}, "Largest |y − x|: ", element("b", { class: "identity-moved" },
      number(largestDifference(x, y)))));
}

function updateIdentity() {
  const strength = Number(find("identity-strength").value);
  replace("identity-value", String(strength));
  const pre = textbook.model(identityText, { strength });
  const post = textbook.model(identityText, { strength, settings: { post: true } });
  const shown = [pre, post].flatMap((run) =>
    [...run["transformer.drop"].values, ...run["transformer.h.1"].values]);
  const scale = Math.max(...shown.map(Math.abs));
  replace("identity-both", identityPanel("Pre-norm", "pre", pre, scale),
    identityPanel("Post-norm", "post", post, scale));
  const [moved, other] = [pre, post].map((run) =>
    largestDifference(run["transformer.drop"], run["transformer.h.1"]));
  replace("identity-say", strength > 0
    ? "Both change their input. Predict: what is left of the difference at s = 0, on each side?"
    : moved === 0
      ? ["At s = 0 the pre-norm stack returns its input, equal to the last bit. The post-norm stack returns x " +
         "after four norms, off by ", number(other), ". This is one reason why deep pre-norm stacks are easier " +
         "to train: each block is a step away from the identity."]
      : "The pre-norm stack should be the identity here and is not.");
}

sections.push(() => live("identity", updateIdentity));

// Ops of model folders as Hugging Face's transformers writes them for BERT.
#include "prenorm/model/bert_checkpoint.h"
#include "tests/cases/registry.h"

namespace prenorm::cases {
namespace {

using Tokens = std::vector<TokenId>;

TokenMatrix one_row(const Tokens& tokens) {
  return {tokens.data(), {1, static_cast<Index>(tokens.size())}};
}

// The hidden states of the tokens that are no padding, and the pooler's output. Whatever stands
// where the padding is, and whether it is there at all, changes no bit of them.
void hf_bert(Case& c) {
  const std::unique_ptr<Bert> model = load_bert(c.file(c.input.text("model_dir")));
  const Tokens ids = tokens_from(c.input.at("input_ids"));
  const Tokens types = c.input.has("token_type_ids") ? tokens_from(c.input.at("token_type_ids"))
                                                     : Tokens(ids.size());
  std::vector<unsigned char> padding(ids.size());
  if (c.input.has("attention_mask")) {
    const Tokens seen = tokens_from(c.input.at("attention_mask"));
    if (seen.size() != ids.size()) throw BadCase("input.attention_mask: expected one a token");
    for (std::size_t i = 0; i < ids.size(); ++i) padding[i] = seen[i] == 0;
  }
  const auto kept = static_cast<Index>(std::ranges::find(padding, 1) - padding.begin());
  const auto time = static_cast<Index>(ids.size()), width = model->config().hidden_size;
  if (std::ranges::count(padding, 0) != kept) throw BadCase("input.attention_mask: not at the end");

  Bert::Workspace work = model->make_workspace(1, time);
  const auto hidden_of = [&](const Tokens& tokens, const Tokens& segments, bool masked) {
    BertBatch batch{one_row(tokens), one_row(segments)};
    if (masked) batch.padding = {padding.data(), {1, static_cast<Index>(tokens.size())}};
    const Matrix hidden = model->forward(c.run(), work, batch);
    return std::vector<float>(hidden.data(), hidden.data() + kept * width);
  };
  const std::vector<float> hidden = hidden_of(ids, types, true);
  c.check("last_hidden_state_first_" + std::to_string(kept), array_of({kept, width}, hidden));
  std::vector<float> pooled(static_cast<std::size_t>(width));
  model->pool(c.run(), ConstMatrix(hidden.data(), {kept, width}), 1,
              Matrix(pooled.data(), {1, width}));
  c.check("pooler_output", array_of({width}, pooled));

  Tokens others = ids;
  for (std::size_t i = static_cast<std::size_t>(kept); i < others.size(); ++i) others[i] = 3;
  c.require(hidden_of(others, types, true) == hidden, "the same bits whatever the padding holds");
  others.resize(static_cast<std::size_t>(kept));
  Tokens segments = types;
  segments.resize(static_cast<std::size_t>(kept));
  c.require(hidden_of(others, segments, false) == hidden, "the same bits without the padding");
}

}  // namespace

void add_bert_ops(Registry& ops) { ops["hf_bert"] = hf_bert; }

}  // namespace prenorm::cases

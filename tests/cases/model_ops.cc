// Ops of model folders as Hugging Face's transformers writes them for GPT-2.
#include <fmt/format.h>

#include <cmath>
#include <regex>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/formats/safetensors.h"
#include "prenorm/generate/generator.h"
#include "prenorm/model/checkpoint.h"
#include "tests/cases/registry.h"
#include "tests/cases/small_model.h"
#include "tests/temporary_folder.h"
#include "tests/tolerances.h"

namespace prenorm::cases {
namespace {

using Tokens = std::vector<TokenId>;

std::unique_ptr<Gpt> load(const std::filesystem::path& folder) {
  return load_pretrained(folder, Gpt::Mode::kInference);
}

std::vector<float> last_row(const std::vector<float>& logits, Index vocabulary) {
  return {logits.end() - vocabulary, logits.end()};
}

Array as_array(const std::vector<float>& values) {
  return array_of({static_cast<Index>(values.size())}, values);
}

// --- Folders
// --------------------------------------------------------------------------------------

// Saving keeps the model's bits, and a tied head tied: no lm_head.weight, or one that is wte.
void check_export(Case& c, const Gpt& model, const Tokens& tokens) {
  const TemporaryFolder folder("export");
  save_pretrained(model, folder.path());
  const Safetensors file(folder.path() / "model.safetensors");
  if (model.config().tie_word_embeddings) {
    const prenorm::Tensor* head = file.find("lm_head.weight");
    const prenorm::Tensor* wte = file.find("transformer.wte.weight");
    c.require(wte != nullptr, "transformer.wte.weight in what is saved");
    c.require(head == nullptr || std::ranges::equal(head->bytes, wte->bytes),
              "a saved head that is tied");
  }
  c.require(logits_of(c.run(), *load(folder.path()), tokens) == logits_of(c.run(), model, tokens),
            "the same logits after saving and loading");
}

// A copy of the folder whose config has another activation is refused by its name.
void check_unknown_activation(Case& c, const std::filesystem::path& folder) {
  const std::string promise = c.promise("unknown_activation");
  if (promise.empty()) return;
  const std::vector<std::string> names = quoted_in(promise);
  if (names.empty()) throw BadCase("expected.unknown_activation: expected a name in quotes");
  const TemporaryFolder copy("activation");
  std::filesystem::copy(folder, copy.path(), std::filesystem::copy_options::recursive);
  Json config = parse_json(read_file(folder / "config.json"), "config.json");
  config["activation_function"] = names.front();
  const std::filesystem::path file = copy.path() / "config.json";
  std::filesystem::remove(file);
  write_file_durably(file, dump_json(config));
  c.require_error("an unknown activation", [&] { load(copy.path()); },
                  {names.front(), "activation_function"});
}

// --- Logits
// ---------------------------------------------------------------------------------------

// Ids that the model has not, or more tokens than its context: an error that names both numbers.
void check_refusals(Case& c, const Gpt& model, const std::vector<Tokens>& lists) {
  const GptConfig& config = model.config();
  for (const Tokens& tokens : lists) {
    std::vector<std::string> words;
    for (const TokenId id : tokens) {
      if (words.empty() && (id < 0 || id >= config.vocab_size)) {
        words = {std::to_string(id), std::to_string(config.vocab_size)};
      }
    }
    if (words.empty() && static_cast<Index>(tokens.size()) > config.block_size) {
      words = {std::to_string(tokens.size()), std::to_string(config.block_size)};
    }
    if (words.empty()) throw BadCase("input.input_ids: expected ids that are refused");
    c.require_error(
        "these tokens", [&] { logits_of(c.run(), model, tokens); }, words);
    if (static_cast<Index>(tokens.size()) > config.block_size) continue;
    const GenerateRequest request{tokens, {}};
    c.require_error(
        "generating from them",
        [&] {
          generate(c.run(), model, {&request, 1}, {});
        },
        words);
  }
}

// Generating from more tokens than the context uses the last ones.
void check_cropping(Case& c, const Gpt& model, const Tokens& tokens) {
  static const std::regex kKey(R"(logits_last_of_last_(\d+))");
  for (const std::string& key : c.expected.keys()) {
    std::smatch found;
    if (!std::regex_match(key, found, kKey)) continue;
    const std::size_t kept = std::stoul(found[1]);
    c.require(static_cast<Index>(kept) == model.config().block_size,
              "the whole context to be used");
    if (kept > tokens.size()) throw BadCase(key + ": more than there are tokens");
    const Tokens last(tokens.end() - static_cast<std::ptrdiff_t>(kept), tokens.end());
    c.check(key, as_array(last_row(logits_of(c.run(), model, last), model.config().vocab_size)));
    GenerateOptions options;
    options.sampler.temperature = 0.0;
    options.max_new_tokens = 3;
    options.logprobs = true;
    bool told = false;
    GenerateCallbacks callbacks;
    callbacks.on_slide = [&] { told = true; };
    const GenerateRequest whole{tokens, {}}, cropped{last, {}};
    const Generation a = generate(c.run(), model, {&whole, 1}, options, callbacks).front();
    const Generation b = generate(c.run(), model, {&cropped, 1}, options).front();
    c.require(told, "a notice that the window slides");
    c.require(a.ids == b.ids && a.logprobs == b.logprobs,
              "the continuation of the last tokens alone");
  }
}

void check_logits(Case& c, const Gpt& model, const std::vector<Tokens>& lists, bool batch) {
  const Index vocabulary = model.config().vocab_size;
  Array all;
  for (const Tokens& tokens : lists) {
    const std::vector<float> logits = logits_of(c.run(), model, tokens);
    const auto time = static_cast<Index>(tokens.size());
    if (!batch) {
      c.check("argmax_last", static_cast<double>(greedy_token(last_row(logits, vocabulary))));
      c.check("logits_last", as_array(last_row(logits, vocabulary)));
      c.check("logits_both", as_array(last_row(logits, vocabulary)));
    }
    all.shape =
        batch ? Shape{static_cast<Index>(lists.size()), time, vocabulary} : Shape{time, vocabulary};
    all.values.insert(all.values.end(), logits.begin(), logits.end());
  }
  if (c.expected.has("logits")) c.check("logits", all);
}

// Names of config.json in a text: "scale_attn_weights".
std::vector<std::string> config_keys(const std::string& text) {
  static const std::regex kKey(R"([a-z]+(_[a-z]+)+)");
  std::vector<std::string> keys;
  for (std::sregex_iterator it(text.begin(), text.end(), kKey), end; it != end; ++it) {
    keys.push_back(it->str());
  }
  return keys;
}

void hf_gpt2_logits(Case& c) {
  std::vector<std::filesystem::path> folders;
  if (const Json* several = c.input.find("model_dirs")) {
    for (const Json& folder : *several) folders.push_back(c.file(folder.get<std::string>()));
  } else {
    folders.push_back(c.file(c.input.text("model_dir")));
  }
  const Json& ids = c.input.at("input_ids");
  const bool several = ids.is_array() && !ids.empty() && ids[0].is_array();
  std::vector<Tokens> lists;
  if (several) {
    for (const Json& list : ids) lists.push_back(tokens_from(list));
  } else {
    lists.push_back(tokens_from(ids));
  }
  const std::string refusal = c.promise("error");
  const bool refused = !refusal.empty();
  const std::string behaviour = c.promise("behaviour"), property = c.promise("property");
  std::optional<std::vector<float>> first;
  for (const std::filesystem::path& folder : folders) {
    std::unique_ptr<Gpt> model;
    try {
      model = load(folder);
    } catch (const Error& error) {
      // Right only where a setting is to be refused by its name.
      const std::string& promise = refused ? refusal : behaviour;
      const std::vector<std::string> keys = config_keys(promise);
      const bool refusing = refused || mentions(promise, "error") || mentions(promise, "reject");
      if (!refusing || keys.empty()) throw;
      for (const std::string& key : keys) {
        c.require(mentions(error.what(), key), "the error to name " + key, error.what());
      }
      continue;
    }
    const bool too_long = static_cast<Index>(lists[0].size()) > model->config().block_size;
    check_unknown_activation(c, folder);
    if (refused || (too_long && !behaviour.empty())) {
      check_refusals(c, *model, lists);
      if (!refused) check_cropping(c, *model, lists[0]);
      continue;
    }
    check_logits(c, *model, lists, several);
    check_export(c, *model, lists[0]);
    const std::vector<float> logits = logits_of(c.run(), *model, lists[0]);
    if (!first) first = logits;
    c.require(logits == *first, "bit-identical logits of all folders");
  }
}

// --- Loading alone
// --------------------------------------------------------------------------------

// Names of tensors in a text: "transformer.h.1.mlp.c_fc.bias", and "...bais" by its end.
std::vector<std::string> tensor_names(const std::string& text) {
  static const std::regex kName(R"([A-Za-z_0-9]+(\.[A-Za-z_0-9]+){2,}|\.{3}([A-Za-z_]+))");
  std::vector<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), kName), end; it != end; ++it) {
    names.push_back((*it)[2].matched ? (*it)[2].str() : it->str());
  }
  return names;
}

void hf_gpt2_load(Case& c) {
  const std::filesystem::path folder = c.file(c.input.text("model_dir"));
  std::string promise = c.promise("behaviour");
  if (promise.empty()) promise = c.promise("error");
  const bool refuses =
      mentions(promise, "error") || mentions(promise, "reject") || mentions(promise, "refuse");
  if (!refuses) {
    if (!mentions(promise, "load") && !mentions(promise, "accept")) {
      throw BadCase("expected.behaviour: not understood");
    }
    c.require(load(folder) != nullptr, "a model");
    return;
  }
  std::vector<std::string> words = tensor_names(promise);
  for (const char* word : {"missing", "unexpected"}) {
    if (mentions(promise, word)) words.push_back(word);
  }
  c.require_error(
      "loading the folder", [&] { load(folder); }, words);
}

// --- In pieces and in batches
// ---------------------------------------------------------------------

void hf_gpt2_incremental(Case& c) {
  const std::unique_ptr<Gpt> model = load(c.file(c.input.text("model_dir")));
  std::vector<Tokens> chunks;
  Tokens all;
  for (const Json& chunk : c.input.at("chunks")) {
    chunks.push_back(tokens_from(chunk));
    all.insert(all.end(), chunks.back().begin(), chunks.back().end());
  }
  const Index vocabulary = model->config().vocab_size;
  const std::vector<float> whole = logits_of(c.run(), *model, all);
  Array last{{static_cast<Index>(chunks.size()), vocabulary}, {}};
  std::size_t seen = 0, i = 0;
  for (const auto& logits : logits_by_chunks(c.run(), *model, chunks)) {
    last.values.insert(last.values.end(), logits.begin(), logits.end());
    seen += chunks[i++].size();
    const auto end = whole.begin() + static_cast<std::ptrdiff_t>(seen) * vocabulary;
    c.require(std::equal(logits.begin(), logits.end(), end - vocabulary, end),
              "the bits of one pass over all tokens");
  }
  c.check("last_logits_per_chunk", last);
  c.promise("property");
}

double logprob(const std::vector<float>& logits, TokenId id) {
  double sum = 0.0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z));
  return static_cast<double>(logits[static_cast<std::size_t>(id)]) - std::log(sum);
}

// Prompts of several lengths: there is no padding, so that its side cannot matter; each prompt in
// a batch is continued as it is alone.
void hf_gpt2_batch_logits(Case& c) {
  const std::unique_ptr<Gpt> model = load(c.file(c.input.text("model_dir")));
  const std::string pad = c.input.text("pad", "none");
  if (pad != "left" && pad != "right" && pad != "none") {
    throw BadCase("input.pad: expected left, right or none, found " + pad);
  }
  std::vector<Tokens> prompts;
  std::vector<GenerateRequest> requests;
  for (const Json& prompt : c.input.at("prompts")) prompts.push_back(tokens_from(prompt));
  for (const Tokens& prompt : prompts) requests.push_back({prompt, {}});
  GenerateOptions options;
  options.sampler.temperature = 0.0;
  options.max_new_tokens = 1;
  options.logprobs = true;
  const std::vector<Generation> together = generate(c.run(), *model, requests, options);
  const Index vocabulary = model->config().vocab_size;
  Array last{{static_cast<Index>(prompts.size()), vocabulary}, {}};
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<float> logits = last_row(logits_of(c.run(), *model, prompts[i]), vocabulary);
    last.values.insert(last.values.end(), logits.begin(), logits.end());
    c.require(together[i].ids.front() == greedy_token(logits), "the batch to choose as each alone");
    const double want = logprob(logits, together[i].ids.front());
    c.require(std::abs(together[i].logprobs.front() - want) <=
                  tolerance::kFloatAtol + tolerance::kFloatRtol * std::abs(want),
              "the batch's probabilities to be those of each alone");
  }
  c.check("last_logits", last);
}

}  // namespace

void add_model_ops(Registry& ops) {
  ops["hf_gpt2_logits"] = hf_gpt2_logits;
  ops["hf_gpt2_load"] = hf_gpt2_load;
  ops["hf_gpt2_incremental"] = hf_gpt2_incremental;
  ops["hf_gpt2_batch_logits"] = hf_gpt2_batch_logits;
}

}  // namespace prenorm::cases

// Ops through the program: training on texts of every kind, resuming, the same bits again.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <regex>

#include "prenorm/base/error.h"
#include "prenorm/base/folder.h"
#include "prenorm/base/utf8.h"
#include "prenorm/formats/safetensors.h"
#include "prenorm/model/gpt_config.h"
#include "prenorm/text/byte_tokenizer.h"
#include "prenorm/text/corpus.h"
#include "prenorm/train/metrics.h"
#include "tests/cases/program.h"
#include "tests/cases/registry.h"

namespace prenorm::cases {
namespace {

// --- Texts that are too short -----------------------------------------------------------------

// The files of a run hold no number that is not one.
void require_no_nan(Case& c, const ProgramFolder& folder) {
  static const std::regex kNotANumber(R"(\b(nan|inf|infinity)\b)", std::regex::icase);
  for (const char* name : {"run/metrics.jsonl", "run/training_state.json", "stdout", "stderr"}) {
    c.require(!std::regex_search(folder.read(name), kNotANumber), std::string("no NaN in ") + name);
  }
}

// Of a text's tokens, how many the program would hold out.
Index held_out(Index tokens, double fraction) {
  return tokens - static_cast<Index>(std::floor(static_cast<double>(tokens) * (1.0 - fraction)));
}

// Either an error, or a training that says what became of the held-out part.
void require_told(Case& c, const ProgramFolder& folder, const Ran& ran, Index validation,
                  Index block_size) {
  if (ran.code != 0) return require_reported(c, ran, {});
  require_no_nan(c, folder);
  const std::vector<MetricsRow> metrics = read_metrics(folder / "run/metrics.jsonl");
  c.require(!metrics.empty() && metrics.back().loss && std::isfinite(*metrics.back().loss),
            "a training loss");
  if (validation > block_size) {
    c.require(metrics.back().val_loss && std::isfinite(*metrics.back().val_loss),
              "a validation loss");
    return;
  }
  c.require(!metrics.back().val_loss, "no validation loss");
  c.require(mentions(ran.err, "no validation"), "a notice of no validation", printable(ran.err));
  for (const Index number : {validation, block_size}) {
    c.require(std::regex_search(ran.err, std::regex(fmt::format(R"(\b{}\b)", number))),
              fmt::format("the notice to name {}", number), printable(ran.err));
  }
}

void train(Case& c) {
  Flags flags = training_flags(c);
  const Index block_size = std::stoll(flags.at("block_size"));
  std::vector<std::string> texts;
  std::vector<std::string> words;
  if (const Json* files = c.input.find("files")) {
    for (const Json& text : *files) texts.push_back(text.get<std::string>());
  }
  double fraction = std::stod(flags.emplace("val_fraction", "0.1").first->second);
  if (c.input.has("train_tokens")) {
    const Index held = c.input.integer("val_tokens"), all = c.input.integer("train_tokens") + held;
    texts.push_back(text_of_bytes(all));
    fraction = static_cast<double>(held) / static_cast<double>(all);
    flags["val_fraction"] = fmt::format("{}", fraction);
  } else if (c.input.has("tokens")) {
    const Index tokens = c.input.integer("tokens");
    texts.push_back(text_of_bytes(tokens));
    words = {std::to_string(tokens), std::to_string(block_size)};
  }
  if (texts.empty()) throw BadCase("input: expected files, tokens or train_tokens, found none");
  const std::string error = c.promise("error"), behaviour = c.promise("behaviour");
  if (mentions(error, "what to change")) words.push_back("use ");
  for (const std::string& text : texts) {
    const ProgramFolder folder(c.session().paths().program);
    folder.write("text.txt", text);
    flags["out_dir"] = "run";
    const Ran ran = folder.run(train_command("text.txt", flags));
    if (!error.empty()) {
      require_reported(c, ran, words);
      require_reported(c, ran, {"text.txt"});
      c.require(!std::filesystem::exists(folder / "run/model.safetensors"), "no model to be saved");
    } else if (!behaviour.empty()) {
      const Index tokens = static_cast<Index>(text.size());
      require_told(c, folder, ran, held_out(tokens, fraction), block_size);
    } else {
      c.require(ran.code == 0, "a training", printable(ran.err));
    }
  }
}

// --- Configurations -----------------------------------------------------------------------------

// The keys of a case that GptConfig has; `other` tells whether it gives others.
GptConfig read_config(Case& c, bool& other) {
  GptConfig config;
  const std::map<std::string, std::function<void(double)>> fields = {
      {"vocab_size", [&](double x) { config.vocab_size = static_cast<Index>(x); }},
      {"block_size", [&](double x) { config.block_size = static_cast<Index>(x); }},
      {"n_layer", [&](double x) { config.n_layer = static_cast<Index>(x); }},
      {"n_head", [&](double x) { config.n_head = static_cast<Index>(x); }},
      {"n_embd", [&](double x) { config.n_embd = static_cast<Index>(x); }},
      {"n_inner", [&](double x) { config.n_inner = static_cast<Index>(x); }},
      {"eps", [&](double x) { config.layer_norm_epsilon = x; }},
      {"layer_norm_epsilon", [&](double x) { config.layer_norm_epsilon = x; }},
      {"dropout", [&](double x) { config.embd_pdrop = x; }},
      {"embd_pdrop", [&](double x) { config.embd_pdrop = x; }},
      {"attn_pdrop", [&](double x) { config.attn_pdrop = x; }},
      {"resid_pdrop", [&](double x) { config.resid_pdrop = x; }}};
  other = false;
  for (const std::string& key : c.input.keys()) {
    const auto field = fields.find(key);
    if (field != fields.end()) {
      field->second(c.input.number(key));
    } else if (key != "op") {
      other = true;
    }
  }
  return config;
}

// Words of "naming n_embd=1600 and n_head=48": names and their numbers.
std::vector<std::string> named_values(const std::string& text) {
  std::vector<std::string> words;
  static const std::regex kNamed(R"(([a-z_]+)\s*=\s*(-?[\d.]*\d))");
  for (std::sregex_iterator it(text.begin(), text.end(), kNamed), end; it != end; ++it) {
    words.push_back((*it)[1]);
    words.push_back((*it)[2]);
  }
  return words;
}

void make_config(Case& c) {
  bool other = false;
  const GptConfig config = read_config(c, other);
  Flags flags = training_flags(c);
  flags["out_dir"] = "run";
  const std::string error = c.promise("error");
  if (error.empty()) throw BadCase("expected.error: expected a text");
  const std::vector<std::string> words = named_values(error);
  if (!other) {
    std::vector<std::string> fields = words;
    std::ranges::replace(fields, "dropout", "pdrop");  // of three places in a model
    const auto validate = [&] { config.validate(); };
    c.require_error("the configuration", validate, fields);
  }
  const std::string code = c.expected.text("exit_code", "non-zero");
  // The program makes the vocabulary itself and has layer norm's epsilon under one name.
  if (c.input.has("vocab_size") || c.input.has("layer_norm_epsilon")) return;
  const ProgramFolder folder(c.session().paths().program);
  folder.write("text.txt", text_of_bytes(2000));
  const Ran ran = folder.run(train_command("text.txt", flags));
  require_reported(c, ran, words);
  c.require(!std::filesystem::exists(folder / "run"), "nothing made before the error");
  c.require(code == "non-zero" || std::to_string(ran.code) == code, "exit code " + code,
            std::to_string(ran.code));
}

// --- Bytes that are no text
// -----------------------------------------------------------------------

void read_text(Case& c) {
  const std::string bytes = bytes_from_hex(c.input.text("bytes_hex"));
  const std::string behaviour = c.promise("behaviour");
  const ProgramFolder folder(c.session().paths().program);
  folder.write("text.txt", bytes);
  const std::vector<std::string> paths = {(folder / "text.txt").string()};

  const Text as_bytes = prenorm::read_text(paths, TextEncoding::kBytes);
  const ByteTokenizer byte;
  c.require(as_bytes.bytes == bytes && byte.decode(byte.encode(bytes)) == bytes,
            "the byte tokenizer to keep every byte");

  const auto bad = find_invalid_utf8(bytes);
  const auto read = [&] { return prenorm::read_text(paths, TextEncoding::kUtf8); };
  if (!bad) {
    const Text text = read();
    const bool mark = bytes.starts_with(kUtf8ByteOrderMark);
    c.require(text.bytes == bytes.substr(mark ? kUtf8ByteOrderMark.size() : 0),
              "the text as it is");
    c.require(!mark || !text.notices.empty(), "a notice of the dropped byte-order mark");
    return;
  }
  std::vector<std::string> words = {"text.txt"};
  const std::string utf16 = bytes.substr(0, 2);
  if (utf16 == "\xFF\xFE" || utf16 == "\xFE\xFF") {
    words.push_back("UTF-16");
  } else {
    words.push_back("byte " + std::to_string(*bad));
  }
  std::smatch offset;
  if (std::regex_search(behaviour, offset, std::regex(R"(byte offset (\d+))"))) {
    words.push_back("byte " + offset[1].str());
  }
  c.require_error(
      "reading as text", [&] { read(); }, words);
  Flags flags = small_training();
  flags["tokenizer"] = "char";
  require_reported(c, folder.run(train_command("text.txt", flags)), words);
}

// --- Going on, and doing it again
// -----------------------------------------------------------------

// What a run leaves, without what depends on the clock.
struct Leftovers {
  std::string weights, moments;
  std::vector<std::string> losses;  // "3: 2.41 2.55", with all their digits
};

Leftovers leftovers(const ProgramFolder& folder, const std::string& run) {
  Leftovers left{folder.read(run + "/model.safetensors"),
                 folder.read(run + "/training_state.safetensors"),
                 {}};
  for (const MetricsRow& row : read_metrics(folder / (run + "/metrics.jsonl"))) {
    const auto number = [](const std::optional<double>& x) {
      return x ? fmt::format("{}", *x) : "-";
    };
    left.losses.push_back(
        fmt::format("{}: {} {}", row.iter, number(row.loss), number(row.val_loss)));
  }
  return left;
}

void require_same(Case& c, const Leftovers& a, const Leftovers& b, const std::string& what) {
  c.require(!a.weights.empty() && a.weights == b.weights, what + ": the same weights");
  c.require(!a.moments.empty() && a.moments == b.moments, what + ": the same optimizer state");
  c.require(!a.losses.empty() && a.losses == b.losses, what + ": the same logged losses");
}

void must_run(Case& c, const ProgramFolder& folder, const std::string& text, const Flags& flags) {
  const Ran ran = folder.run(train_command(text, flags));
  c.require(ran.code == 0, "a training", printable(ran.err, 200));
}

std::vector<Index> one_or_several(Case& c, const std::string& key, Index otherwise) {
  const Json* value = c.input.find(key);
  if (value == nullptr) return {otherwise};
  return value->is_array() ? value->get<std::vector<Index>>()
                           : std::vector<Index>{value->get<Index>()};
}

// A training of `steps` in one go, and one that is cut at each of the splits and resumed.
void resume_equivalence(Case& c) {
  Flags flags = training_flags(c);
  const Index steps = c.input.integer("steps");
  std::vector<Index> ends = one_or_several(c, "split", steps / 2);
  const std::vector<Index> threads = one_or_several(c, "threads", 1);
  if (ends.empty() || threads.empty()) throw BadCase("input: expected a split and threads");
  ends.push_back(steps);
  flags["threads"] = std::to_string(threads.front());
  flags["lr_decay_iters"] = std::to_string(steps);
  flags["warmup_iters"] = "2";
  flags["eval_interval"] = "1";  // also where a part ends, as the whole run does there
  const ProgramFolder folder(c.session().paths().program);
  folder.write("text.txt", text_of_bytes(2000));
  flags["max_iters"] = std::to_string(steps);
  flags["out_dir"] = "whole";
  must_run(c, folder, "text.txt", flags);
  flags["out_dir"] = "parts";
  for (std::size_t part = 0; part < ends.size(); ++part) {
    flags["max_iters"] = std::to_string(ends[part]);
    flags["threads"] = std::to_string(threads[part % threads.size()]);
    if (part > 0) flags["resume"] = "";
    must_run(c, folder, "text.txt", flags);
  }
  require_same(c, leftovers(folder, "whole"), leftovers(folder, "parts"),
               "resumed and uninterrupted");
  c.promise("property");
}

void train_and_generate(Case& c) {
  Flags flags = training_flags(c);
  const Json& threads = c.input.at("threads");
  const ProgramFolder folder(c.session().paths().program);
  folder.write("text.txt", text_of_bytes(2000));
  std::optional<Leftovers> first;
  std::string first_text;
  for (const Json& count : threads) {
    const std::string number = dump_json_compact(count), run = "run" + number;
    flags["threads"] = number;
    flags["out_dir"] = run;
    must_run(c, folder, "text.txt", flags);
    const Ran generated =
        folder.run({"generate", "-m", run, "-p", "ab", "-n", "20", "--threads", number, "--seed",
                    flags.contains("seed") ? flags.at("seed") : "1", "--json"});
    c.require(generated.code == 0 && !generated.out.empty(), "generated text",
              printable(generated.err));
    const Leftovers left = leftovers(folder, run);
    if (!first) {
      first = left;
      first_text = generated.out;
    }
    require_same(c, *first, left, number + " threads");
    c.require(generated.out == first_text, number + " threads: the same tokens and logprobs");
  }
  c.promise("property");
}

// A folder with weights, but not all of what training needs to go on.
void resume(Case& c) {
  const std::string what = c.input.text("file");
  Flags flags = training_flags(c);
  flags["out_dir"] = "run";
  const ProgramFolder folder(c.session().paths().program);
  folder.write("text.txt", text_of_bytes(2000));
  must_run(c, folder, "text.txt", flags);
  const std::string weights = folder.read("run/model.safetensors");
  // The folder's other states are whole, and would be gone back to.
  for (const std::filesystem::path& path : list_folder(folder / "run")) {
    if (std::filesystem::is_directory(path)) std::filesystem::remove_all(path);
  }
  if (mentions(what, "weights only")) {
    std::filesystem::remove(folder / "run/training_state.json");
    std::filesystem::remove(folder / "run/training_state.safetensors");
  } else if (mentions(what, "moments") || mentions(what, "optimi")) {
    std::filesystem::remove(folder / "run/training_state.safetensors");
  } else {
    throw BadCase("input.file: expected weights only, found '" + what + "'");
  }
  flags["resume"] = "";
  flags["max_iters"] = std::to_string(std::stoll(flags.at("max_iters")) + 2);
  const Ran ran = folder.run(train_command("text.txt", flags));
  if (ran.code != 0) {
    require_reported(c, ran, {"training_state"});
    c.require(folder.read("run/model.safetensors") == weights, "the weights as they were");
  } else {
    c.require(mentions(ran.err, "optimizer") || mentions(ran.err, "training_state"),
              "a notice that the optimizer starts anew", printable(ran.err));
  }
  if (c.promise("behaviour").empty()) throw BadCase("expected.behaviour: expected a text");
}

}  // namespace

void add_run_ops(Registry& ops) {
  ops["train"] = train;
  ops["make_config"] = make_config;
  ops["read_text"] = read_text;
  ops["resume"] = resume;
  ops["resume_equivalence"] = resume_equivalence;
  ops["train_and_generate"] = train_and_generate;
}

}  // namespace prenorm::cases

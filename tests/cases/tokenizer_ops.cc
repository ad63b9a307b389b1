// Ops of GPT-2's tokenizer.
#include <sys/resource.h>

#include <chrono>
#include <regex>
#include <set>

#include "prenorm/base/utf8.h"
#include "prenorm/text/bpe_tokenizer.h"
#include "prenorm/text/stream_decoder.h"
#include "tests/cases/registry.h"

namespace prenorm::cases {

const Tokenizer& Session::gpt2() {
  if (gpt2_) return *gpt2_;
  if (!std::filesystem::exists(paths_.gpt2_vocab)) {
    throw Skipped("no GPT-2 vocabulary at " + paths_.gpt2_vocab.lexically_normal().string());
  }
  gpt2_ = load_bpe_tokenizer(paths_.gpt2_vocab);
  return *gpt2_;
}

namespace {

using Tokens = std::vector<TokenId>;

Array as_array(const Tokens& ids) {
  return {{static_cast<Index>(ids.size())}, {ids.begin(), ids.end()}};
}

void require_round_trip(Case& c, const Tokenizer& tokenizer, const std::string& text) {
  const std::string back = tokenizer.decode(tokenizer.encode(text));
  c.require(back == text, "exactly the input bytes '" + printable(text) + "'",
            "'" + printable(back) + "'");
}

// --- Ids of texts
// ---------------------------------------------------------------------------------

void gpt2_encode_decode(Case& c) {
  const Tokenizer& tokenizer = c.session().gpt2();
  const std::string vocabulary = c.input.text("vocab", "GPT-2");
  if (!mentions(vocabulary, "gpt-2") && !mentions(vocabulary, "gpt2")) {
    throw BadCase("input.vocab: expected GPT-2's, found " + vocabulary);
  }
  const Json& texts = c.input.at("texts");
  const Json& encode = c.expected.at("encode");
  if (texts.size() != encode.size()) throw BadCase("expected.encode: not one for each text");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i].get<std::string>();
    Fields want(encode[i], "expected.encode");
    c.require(want.text("text") == text, "the text of the input in the expectation");
    c.check_against("'" + printable(text) + "'", want.at("ids"), as_array(tokenizer.encode(text)));
    require_round_trip(c, tokenizer, text);
  }
  c.promise("decode");  // "exactly the input bytes"
}

void encode_gpt2(Case& c) {
  const Tokenizer& tokenizer = c.session().gpt2();
  const std::string text = c.input.text("text");
  const Tokens ids = tokenizer.encode(text);
  c.check("ids", ids);
  c.check_text("decode", tokenizer.decode(ids));
  require_round_trip(c, tokenizer, text);
}

// --- Special tokens
// -------------------------------------------------------------------------------

void check_lists(Case& c, const std::string& key, const std::vector<std::string>& texts,
                 const std::function<Tokens(const std::string&)>& encode) {
  const Json* want = c.expected.find(key);
  if (want == nullptr) return;
  if (want->size() != texts.size()) throw BadCase("expected." + key + ": not one for each text");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    c.check_against(key + " '" + printable(texts[i]) + "'", (*want)[i], as_array(encode(texts[i])));
  }
}

void special_tokens(Case& c) {
  const Tokenizer& tokenizer = c.session().gpt2();
  std::vector<std::string> texts;
  for (const Json& text : c.input.at("texts")) texts.push_back(text.get<std::string>());
  const auto as_text = [&](const std::string& text) { return tokenizer.encode(text); };
  check_lists(c, "special_as_text", texts, as_text);
  check_lists(c, "ids", texts, as_text);
  check_lists(c, "special_allowed", texts,
              [&](const std::string& text) { return tokenizer.encode_with_special_tokens(text); });
  for (const std::string& text : texts) {
    require_round_trip(c, tokenizer, text);
    c.require(tokenizer.decode(tokenizer.encode_with_special_tokens(text)) == text,
              "exactly the input bytes with special tokens");
  }
  static const std::regex kDecode(R"(decode_(\d+))");
  for (const std::string& key : c.expected.keys()) {
    std::smatch id;
    if (!std::regex_match(key, id, kDecode)) continue;
    c.check_text(key, tokenizer.decode(static_cast<TokenId>(std::stol(id[1]))));
  }
  c.promise("behaviour");
}

// --- Long runs
// ------------------------------------------------------------------------------------

// `"a"*100000`: a piece and how often it is repeated.
struct Repeated {
  std::string piece;
  std::size_t count = 0;

  explicit Repeated(const std::string& recipe) {
    static const std::regex kRecipe(R"re("([^"]+)"\s*\*\s*(\d+))re");
    std::smatch found;
    if (!std::regex_match(recipe, found, kRecipe)) {
      throw BadCase("input: expected \"x\"*n, found '" + printable(recipe) + "'");
    }
    piece = found[1];
    count = std::stoul(found[2]);
  }
  std::string text() const { return text(count); }
  std::string text(std::size_t times) const {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += piece;
    return all;
  }
};

// [[id, count], …]
Array run_lengths(const Tokens& ids) {
  Array runs{{0, 2}, {}};
  for (std::size_t begin = 0; begin < ids.size();) {
    std::size_t end = begin;
    while (end < ids.size() && ids[end] == ids[begin]) ++end;
    runs.values.push_back(ids[begin]);
    runs.values.push_back(static_cast<double>(end - begin));
    ++runs.shape[0];
    begin = end;
  }
  return runs;
}

// Sanitizers take many times the time and memory of the program as it is.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeasures = false;
#else
constexpr bool kMeasures = true;
#endif

// "below 2 s and 200 MB each"
struct Limits {
  double seconds = 0.0, megabytes = 0.0;  // 0: none

  explicit Limits(const std::string& text) {
    seconds = number_before(text, "s");
    megabytes = number_before(text, "MB");
    if (!text.empty() && seconds == 0.0 && megabytes == 0.0) {
      throw BadCase("expected.limits: not understood");
    }
    if (!kMeasures) seconds = megabytes = 0.0;
  }

 private:
  static double number_before(const std::string& text, const std::string& unit) {
    std::smatch found;
    const std::regex number(R"(([\d.]+) )" + unit + R"(\b)");
    return std::regex_search(text, found, number) ? std::stod(found[1]) : 0.0;
  }
};

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

Tokens timed_encode(Case& c, const Tokenizer& tokenizer, const std::string& text,
                    const Limits& limits) {
  const double before = peak_megabytes();
  const auto start = std::chrono::steady_clock::now();
  const Tokens ids = tokenizer.encode(text);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  c.require(limits.seconds == 0.0 || took.count() < limits.seconds, "less time than the limit",
            std::to_string(took.count()) + " s");
  const double grown = peak_megabytes() - before;
  c.require(limits.megabytes == 0.0 || grown < limits.megabytes, "less memory than the limit",
            std::to_string(grown) + " MB");
  c.require(tokenizer.decode(ids) == text, "exactly the input bytes of a long run");
  return ids;
}

void long_runs(Case& c) {
  const Tokenizer& tokenizer = c.session().gpt2();
  const Limits limits(c.promise("limits"));
  const Repeated first(c.input.text("text"));
  const Tokens ids = timed_encode(c, tokenizer, first.text(), limits);
  c.check("count", static_cast<double>(ids.size()));
  c.check("ids", ids);
  c.check("ids_run_length", run_lengths(ids));
  if (!c.input.has("also")) return;
  const Json& also = c.input.at("also");
  for (const Json& recipe : also.is_array() ? also : Json::array({also})) {
    const Repeated other(recipe.get<std::string>());
    timed_encode(c, tokenizer, other.text(), limits);
    static const std::regex kKey(R"([a-z]+_ids_run_length_for_([\de.+]+))");
    for (const std::string& key : c.expected.keys()) {  // the same, another number of times
      std::smatch count;
      if (!std::regex_match(key, count, kKey)) continue;
      const auto times = static_cast<std::size_t>(std::stod(count[1]));
      c.check(key, run_lengths(timed_encode(c, tokenizer, other.text(times), limits)));
    }
  }
}

void gpt2_encode(Case& c) {
  if (c.input.has("texts")) return special_tokens(c);
  long_runs(c);
}

// --- Bytes
// ----------------------------------------------------------------------------------------

void gpt2_single_bytes(Case& c) {
  const Tokenizer& tokenizer = c.session().gpt2();
  Tokens ids;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    const Tokens encoded = tokenizer.encode(text);
    c.require(encoded.size() == 1, "one id for a byte", std::to_string(encoded.size()));
    ids.push_back(encoded.front());
    c.require(tokenizer.decode(encoded.front()) == text, "the byte back from its id");
  }
  c.check("id_of_byte_0_to_255", ids);
  std::set<std::string> decoded;
  for (TokenId id = 0; id < static_cast<TokenId>(tokenizer.vocab_size()); ++id) {
    decoded.insert(tokenizer.decode(id));
  }
  c.require(static_cast<Index>(decoded.size()) == tokenizer.vocab_size(),
            "all ids to decode to distinct bytes", std::to_string(decoded.size()));
  std::uint32_t state = 1;  // strings of arbitrary bytes
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (int n = 0; n < i; ++n) {
      state = state * 1664525u + 1013904223u;
      text += static_cast<char>(state >> 24);
    }
    require_round_trip(c, tokenizer, text);
  }
  c.promise("property");
}

void stream_decode(Case& c) {
  const Tokenizer& tokenizer = c.session().gpt2();
  const Tokens ids = tokens_from(c.input.at("ids"));
  const std::string whole = tokenizer.decode(ids);
  const bool complete = !find_invalid_utf8(whole) && whole.find("\uFFFD") == std::string::npos;
  std::string shown;
  StreamDecoder decoder;
  Json hex = Json::array();
  for (const TokenId id : ids) {
    const std::string token = tokenizer.decode(id);
    hex.push_back(hex_of(token));
    const std::string piece = decoder.feed(token);
    c.require(!find_invalid_utf8(piece), "whole characters in every piece");
    c.require(!complete || piece.find("\uFFFD") == std::string::npos, "no U+FFFD in the stream");
    shown += piece;
  }
  shown += decoder.finish();
  c.require(!complete || shown == whole, "all of the text", printable(shown));
  if (const Json* want = c.expected.find("token_bytes_hex")) {
    c.require(*want == hex, "token_bytes_hex " + dump_json_compact(*want), dump_json_compact(hex));
  }
  c.check_text("concatenated", shown);
  c.promise("behaviour");
}

}  // namespace

void add_tokenizer_ops(Registry& ops) {
  ops["gpt2_encode_decode"] = gpt2_encode_decode;
  ops["encode_gpt2"] = encode_gpt2;
  ops["gpt2_encode"] = gpt2_encode;
  ops["gpt2_single_bytes"] = gpt2_single_bytes;
  ops["stream_decode"] = stream_decode;
}

}  // namespace prenorm::cases

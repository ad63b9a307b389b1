#include "prenorm/text/bpe_trainer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "prenorm/base/error.h"
#include "prenorm/base/utf8.h"
#include "prenorm/text/byte_level.h"
#include "prenorm/text/gpt2_pattern.h"

namespace prenorm {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";
constexpr Index kFirstTokens = 257;

using Pair = std::uint64_t;  // left · 2^32 + right: in the order of (left, right)

Pair pair_of(TokenId left, TokenId right) {
  return Pair{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}
TokenId left_of(Pair pair) { return static_cast<TokenId>(pair >> 32); }
TokenId right_of(Pair pair) { return static_cast<TokenId>(pair & 0xFFFFFFFFu); }

struct PairHash {
  std::size_t operator()(Pair pair) const {
    pair *= 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(pair ^ pair >> 32);
  }
};

// A piece and how often it comes.
struct Word {
  std::vector<TokenId> symbols;
  std::int64_t count;
};

// A pair that waits to be merged, with the words where it was found when it was put there.
struct Candidate {
  Pair pair;
  std::int64_t count;
  std::vector<std::uint32_t> words;  // ascending

  // The heap has the most frequent on top, of equal ones the lowest pair. A pair may wait twice.
  bool operator<(const Candidate& other) const {
    if (count != other.count) return count < other.count;
    return pair != other.pair ? pair > other.pair : words > other.words;
  }
};

class Training {
 public:
  Training(std::vector<Word> words, const BpeTrainerOptions& options)
      : words_(std::move(words)), options_(options) {
    add_first_tokens();
    std::unordered_map<Pair, std::vector<std::uint32_t>, PairHash> found;
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      const std::vector<TokenId>& symbols = words_[w].symbols;
      for (std::size_t i = 1; i < symbols.size(); ++i) {
        const Pair pair = pair_of(symbols[i - 1], symbols[i]);
        counts_[pair] += words_[w].count;
        note(found[pair], w);
      }
    }
    push_all(found);
  }

  static std::vector<TokenId> ids_of_bytes() {
    std::vector<TokenId> order(256), ids(256);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(
        order, {}, [](TokenId byte) { return kByteLevelAlphabet[static_cast<std::size_t>(byte)]; });
    for (std::size_t i = 0; i < 256; ++i) {
      ids[static_cast<std::size_t>(order[i])] = static_cast<TokenId>(i) + 1;
    }
    return ids;
  }

  // False: no pair is left, or none that is frequent enough.
  bool step() {
    while (!heap_.empty()) {
      Candidate top = pop();
      const std::int64_t now = counts_[top.pair];
      if (now != top.count) {  // what was merged since has changed it
        top.count = now;
        push(std::move(top));
        continue;
      }
      if (top.count < 1 || top.count < options_.min_frequency) return false;
      merge(top);
      return true;
    }
    return false;
  }

  Index size() const { return static_cast<Index>(model_.tokens.size()); }

  // Of a pair that was merged twice, over words found at different times, the later merge counts,
  // as in Hugging Face's trainer.
  BpeModel take() {
    std::unordered_map<Pair, std::size_t, PairHash> last;
    for (std::size_t i = 0; i < merges_.size(); ++i) {
      last[pair_of(merges_[i].left, merges_[i].right)] = i;
    }
    for (std::size_t i = 0; i < merges_.size(); ++i) {
      if (last[pair_of(merges_[i].left, merges_[i].right)] == i) {
        model_.merges.push_back(merges_[i]);
      }
    }
    return std::move(model_);
  }

 private:
  using Found = std::unordered_map<Pair, std::vector<std::uint32_t>, PairHash>;

  static void note(std::vector<std::uint32_t>& words, std::uint32_t word) {
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  void add_first_tokens() {
    model_.tokens.resize(kFirstTokens);
    model_.tokens[0] = kEndOfText;
    model_.added_tokens.push_back({kEndOfText, 0});
    const std::vector<TokenId> ids = ids_of_bytes();
    for (std::size_t byte = 0; byte < 256; ++byte) {
      append_utf8(model_.tokens[static_cast<std::size_t>(ids[byte])], kByteLevelAlphabet[byte]);
    }
    for (std::size_t id = 0; id < model_.tokens.size(); ++id) {
      ids_.emplace(model_.tokens[id], static_cast<TokenId>(id));
    }
  }

  Candidate pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    Candidate top = std::move(heap_.back());
    heap_.pop_back();
    return top;
  }
  void push(Candidate candidate) {
    heap_.push_back(std::move(candidate));
    std::push_heap(heap_.begin(), heap_.end());
  }
  void push_all(Found& found) {
    for (auto& [pair, words] : found) {
      const std::int64_t count = counts_[pair];
      if (count > 0) push({pair, count, std::move(words)});
    }
  }

  // The token that a pair makes; another pair may have made it before.
  TokenId token_of(Pair pair) {
    const auto at = [&](TokenId id) { return model_.tokens[static_cast<std::size_t>(id)]; };
    const std::string text = at(left_of(pair)) + at(right_of(pair));
    const auto [it, is_new] = ids_.emplace(text, static_cast<TokenId>(model_.tokens.size()));
    if (is_new) model_.tokens.push_back(text);
    return it->second;
  }

  void merge(const Candidate& candidate) {
    const TokenId result = token_of(candidate.pair);
    merges_.push_back({left_of(candidate.pair), right_of(candidate.pair), result});
    Found found;
    for (const std::uint32_t word : candidate.words) merge_in(word, merges_.back(), found);
    push_all(found);
  }

  // From left to right through one word; counts follow the pairs that come and go.
  void merge_in(std::uint32_t word, const BpeMerge& merge, Found& found) {
    std::vector<TokenId>& symbols = words_[word].symbols;
    const std::int64_t count = words_[word].count;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < symbols.size();) {
      if (i + 1 == symbols.size() || symbols[i] != merge.left || symbols[i + 1] != merge.right) {
        symbols[kept++] = symbols[i++];
        continue;
      }
      const auto changed = [&](TokenId left, TokenId right, TokenId new_left, TokenId new_right) {
        counts_[pair_of(left, right)] -= count;
        const Pair made = pair_of(new_left, new_right);
        counts_[made] += count;
        note(found[made], word);
      };
      if (kept > 0) {
        changed(symbols[kept - 1], merge.left, symbols[kept - 1], merge.result);
      }
      if (i + 2 < symbols.size()) {
        changed(merge.right, symbols[i + 2], merge.result, symbols[i + 2]);
      }
      symbols[kept++] = merge.result;
      i += 2;
    }
    symbols.resize(kept);
  }

  std::vector<Word> words_;
  BpeTrainerOptions options_;
  BpeModel model_;
  std::vector<BpeMerge> merges_;
  std::unordered_map<std::string, TokenId> ids_;
  std::unordered_map<Pair, std::int64_t, PairHash> counts_;
  std::vector<Candidate> heap_;
};

}  // namespace

void BpeTrainerOptions::validate() const {
  constexpr Index kMost = Index{1} << 30;
  if (vocab_size < kFirstTokens || vocab_size > kMost) {
    throw ConfigError("vocab_size: expected " + std::to_string(kFirstTokens) + " to " +
                      std::to_string(kMost) + ", found " + std::to_string(vocab_size));
  }
  if (min_frequency < 0) {
    throw ConfigError("min_frequency: expected at least 0, found " + std::to_string(min_frequency));
  }
}

BpeTrainer::BpeTrainer(const BpeTrainerOptions& options) : options_(options) {
  options_.validate();
}

void BpeTrainer::add(std::string_view text) {
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, gpt2_piece_length(text));
    text.remove_prefix(piece.size());
    if (piece.size() > std::numeric_limits<std::uint32_t>::max()) {
      throw DataError("text: expected words of less than 4 GiB, found a longer one");
    }
    ++pieces_;
    if (const auto it = counts_.find(piece); it != counts_.end()) {
      ++it->second;
    } else {
      counts_.emplace(piece, 1);
    }
  }
}

BpeTraining BpeTrainer::train(const std::function<bool(Index)>& progress) const {
  const std::vector<TokenId> ids = Training::ids_of_bytes();
  std::vector<Word> words;
  words.reserve(counts_.size());
  std::vector<std::string_view> pieces;
  for (const auto& [piece, count] : counts_) {
    if (piece.size() > 1) pieces.push_back(piece);  // else there is nothing to merge
  }
  std::ranges::sort(pieces);  // whatever the hash table's order
  for (const std::string_view piece : pieces) {
    Word& word = words.emplace_back();
    word.count = static_cast<std::int64_t>(counts_.find(piece)->second);
    word.symbols.reserve(piece.size());
    for (const char c : piece) word.symbols.push_back(ids[static_cast<unsigned char>(c)]);
  }
  Training training(std::move(words), options_);
  BpeTraining result;
  result.pieces = pieces_;
  result.different = counts_.size();
  while (!result.interrupted && training.size() < options_.vocab_size && training.step()) {
    result.interrupted = progress && !progress(training.size());
  }
  result.model = training.take();
  return result;
}

}  // namespace prenorm
